"""``contract verify --server`` from end to end, against imitations of the engines: what is judged."""

from __future__ import annotations

import pytest

from contract.findings import Status, Verdict
from verify.server.conftest import ACCEPTED, ROUNDS, Case, Run, broken, one, told
from verify.server.imitations import Sglang, Vllm


def test_a_sound_sglang_is_kept(case: Case, run: Run) -> None:
    server = Sglang()
    report = run(case, server)
    assert (report.exit_code, broken(report)) == (0, {})
    figures = report.measurements["server"]
    assert (figures["rounds"], figures["accepted"], figures["requests"], figures["tokens"]) == (ROUNDS, ACCEPTED, 8, 272)
    assert figures["accepted_length"] == 1 + ACCEPTED / ROUNDS
    assert figures["position_acceptance"] == pytest.approx([72 / 116, 46 / 116, 30 / 116])
    assert one(report, "acceptance.floor").status is Status.PASSED
    assert one(report, "server.serving").message == "sglang==0.5.23 runs with steps 3, topk 1, draft_tokens 4, as the contract says"
    assert one(report, "reading.boundaries").status is Status.PASSED
    sent = server.bodies[0]
    assert len(sent["input_ids"]) == 24
    assert (sent["sampling_params"]["temperature"], sent["sampling_params"]["max_new_tokens"], sent["stream"]) == (0, 128, False)


def test_a_sound_vllm_is_kept(exported: Case, run: Run) -> None:
    server = Vllm()
    server.lag = 2
    report = run(exported, server)
    assert (report.exit_code, broken(report)) == (0, {})
    figures = report.measurements["server"]
    assert (figures["rounds"], figures["accepted"]) == (ROUNDS, ACCEPTED)
    assert figures["position_acceptance"] == pytest.approx([72 / 116, 46 / 116, 30 / 116])
    assert one(report, "server.traffic").status is Status.PASSED
    sent = server.bodies[0]
    assert (sent["model"], sent["temperature"], sent["repetition_penalty"], len(sent["prompt"])) == ("demo", 0, 1.0, 24)


def test_only_prompts_are_sent_and_nothing_else_is_changed(case: Case, run: Run) -> None:
    for server in (Sglang(), Vllm()):
        run(case, server)
        assert {path for method, path in server.asked if method == "POST"} <= {"/generate", "/v1/completions"}
        assert {method for method, _ in server.asked} == {"GET", "POST"}


def test_below_the_floor_is_violated(case: Case, run: Run) -> None:
    server = Sglang()
    server.weaker = lambda n: n // 8
    report = run(case, server)
    assert (report.exit_code, broken(report)) == (1, {"acceptance.floor": Status.FAILED})
    assert one(report, "acceptance.floor").actual < 1.1


def test_near_the_floor_is_unknown(case: Case, run: Run) -> None:
    case.edit("floor: 1.4", "floor: 2.4")
    report = run(case, Sglang())
    assert (report.exit_code, broken(report)) == (3, {"acceptance.floor": Status.UNKNOWN})


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("temperature: 0.0", "temperature: 0.7"),
        ("  k: 3\n", "  k: 5\n"),
        ("aggregation: pooled", "aggregation: {unknown: nobody said}"),
    ],
)
def test_a_floor_of_another_figure_is_not_held_against_it(old: str, new: str, case: Case, run: Run) -> None:
    case.edit(old, new)
    assert broken(run(case, Sglang())) == {"acceptance.floor": Status.UNKNOWN}


def test_a_contract_that_promises_nothing_is_unknown(case: Case, run: Run) -> None:
    case.edit("floor: 1.4", "floor: {unknown: nobody measured it}")
    assert broken(run(case, Sglang())) == {"acceptance.floor": Status.UNKNOWN}
    case.edit("baselines: []", "baselines: [{engine: sglang, value: 2.0, source: 'a day'}]")
    assert run(case, Sglang()).exit_code == 0


def test_a_floor_in_sglangs_own_terms(case: Case, run: Run) -> None:
    """The mean of the requests' spec_accept_length: 2.53, where the pooled figure of this tool is 2.28."""
    case.edit("aggregation: pooled", "aggregation: mean_of_requests")
    case.edit("counts_prefill: false", "counts_prefill: true")
    check = one(run(case, Sglang()), "acceptance.floor")
    assert check.actual == pytest.approx((10 / 5 + 108 / 45 + 40 / 16 + 7 / 2 + 45 / 15 + 8 / 4 + 9 / 3 + 45 / 26) / 8, abs=2e-2)


@pytest.mark.parametrize(
    ("engine", "value", "status"),
    [
        ("sglang==0.5.23", 2.0, Status.PASSED),
        ("sglang", 2.2, Status.PASSED),
        ("sglang==0.5.23", 3.1, Status.FAILED),
        ("sglang==0.5.23", 2.4, Status.UNKNOWN),
        ("sglang==0.5.9", 3.1, Status.SKIPPED),
        ("vllm==0.32.0", 3.1, Status.SKIPPED),
        ("no engine", 3.1, Status.SKIPPED),
    ],
)
def test_baselines(engine: str, value: float, status: Status, case: Case, run: Run) -> None:
    case.edit("baselines: []", f"baselines: [{{engine: '{engine}', value: {value}, source: 'measured on a day'}}]")
    report = run(case, Sglang())
    assert one(report, "acceptance.baseline").status is status
    assert report.verdict is {Status.FAILED: Verdict.VIOLATED, Status.UNKNOWN: Verdict.UNKNOWN}.get(status, Verdict.KEPT)


def test_sglang_without_speculation(case: Case, run: Run) -> None:
    server = Sglang()
    server.drafting = False
    server.info = dict.fromkeys(
        (
            "speculative_algorithm",
            "speculative_num_steps",
            "speculative_eagle_topk",
            "speculative_num_draft_tokens",
            "speculative_draft_model_path",
        )
    )
    report = run(case, server)
    assert (report.exit_code, broken(report)) == (1, {"server.speculation": Status.FAILED})
    assert not [c for c in report.checks if c.rule.startswith("reading.")]


def test_vllm_without_speculation(exported: Case, run: Run) -> None:
    server = Vllm()
    server.drafting = False
    report = run(exported, server)
    assert (report.exit_code, broken(report)) == (1, {"server.speculation": Status.FAILED})


@pytest.mark.parametrize("make", [Sglang, Vllm])
def test_a_drafter_that_proposes_nothing(make: type[Sglang | Vllm], case: Case, run: Run) -> None:
    """Set up to draft, and no draft is verified."""
    server = make()
    server.answers = [a | {"meta_info": a["meta_info"] | {"spec_num_correct_drafts": 0, "spec_verify_ct": 0}} for a in server.answers]
    server.counts = lambda _: (0, 0, [0, 0, 0, 0])  # type: ignore[method-assign]  # an imitation of this one fault
    if isinstance(server, Sglang):
        server.drafting = False
    assert broken(run(case, server))["server.speculation"] is Status.FAILED


def test_other_steps_than_the_contract_says(case: Case, run: Run) -> None:
    server = Sglang()
    server.info = {"speculative_num_steps": 1, "speculative_num_draft_tokens": 2}
    report = run(case, server)
    assert [(c.expected, c.actual) for c in told(report, "server.serving") if c.status is Status.FAILED] == [(3, 1), (4, 2)]
    assert broken(report)["server.serving"] is Status.FAILED
    assert not told(report, "reading.serve")


def test_vllm_shows_its_steps_by_its_positions(exported: Case, run: Run) -> None:
    exported.edit("serving:\n  steps: 3\n", "serving:\n  steps: 5\n")
    failed = [c for c in told(run(exported, Vllm()), "server.serving") if c.status is Status.FAILED]
    assert [(c.expected, c.actual) for c in failed] == [(5, 3)]


def test_the_reading_says_why(case: Case, run: Run) -> None:
    """A drafter in SGLang's ids under vLLM: acceptance stays above the floor, the reading is one layer early."""
    report = run(case, Vllm())
    failed = [c for c in told(report, "reading.boundaries") if c.status is Status.FAILED]
    assert [(c.actual, c.evidence["engine"]) for c in failed] == [([1, 5, 8], "vllm[v1]==0.32.0")]
    assert report.exit_code == 1


def test_a_runner_is_named_with_flags_for_it(case: Case, run: Run) -> None:
    report = run(case, Vllm(), serve_args={"vllm[v2]": "--speculative-config.method eagle3 --speculative-config.num_speculative_tokens 3"})
    assert {c.evidence["engine"] for c in told(report, "reading.boundaries")} == {"vllm[v2]==0.32.0"}
    report = run(case, Vllm(), serve_args={"sglang": "--speculative-num-steps 3"})
    assert broken(report)["flags.no-engine"] is Status.UNKNOWN
    assert report.exit_code == 2


def test_a_version_that_nobody_read(case: Case, run: Run) -> None:
    server = Sglang()
    server.info = {"version": "0.9.0.dev3+g1234"}
    report = run(case, server)
    check = one(report, "server.version-read")
    assert (check.status, check.required, check.actual) == (Status.UNKNOWN, False, "0.9.0.dev3")
    assert report.exit_code == 0
    assert not told(report, "reading.boundaries")


def test_old_endpoints_of_sglang(case: Case, run: Run) -> None:
    server = Sglang()
    server.old = True
    assert run(case, server).exit_code == 0


def test_a_vllm_in_development_mode_shows_its_drafter(exported: Case, run: Run) -> None:
    server = Vllm()
    speculative = {"method": "eagle3", "model": str(exported.folder), "num_speculative_tokens": 3, "quantization": None}
    server.development = {"model_config": {"model": "org/demo-target"}, "speculative_config": speculative}
    report = run(exported, server)
    assert report.exit_code == 0
    assert one(report, "server.drafter").status is Status.PASSED
    assert one(report, "server.model").status is Status.PASSED
    assert {c.status for c in told(report, "serve.algorithm")} == {Status.PASSED}
    server.development = {
        "model_config": {},
        "speculative_config": speculative | {"rejection_sample_method": "synthetic", "model": "x/other"},
    }
    report = run(exported, server)
    assert "synthetic" in one(report, "server.decoding").message
    assert one(report, "server.drafter").status is Status.UNKNOWN


def test_a_gateway_that_refuses_what_it_does_not_know(exported: Case, run: Run) -> None:
    class Behind(Vllm):
        def get(self, path: str) -> tuple[int, object]:
            return (403, {"error": "no"}) if path.startswith("/server_info") else super().get(path)

    assert run(exported, Behind()).exit_code == 0


def test_another_target(case: Case, run: Run) -> None:
    case.edit("model_type: llama", "model_type: qwen3")
    check = [c for c in told(run(case, Sglang()), "server.model") if c.status is Status.FAILED]
    assert [(c.expected, c.actual) for c in check] == [("qwen3", "llama")]
