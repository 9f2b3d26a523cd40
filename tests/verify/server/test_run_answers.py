"""Counters that jump, answers that are none, names that act, limits and keys: a server is not believed."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from contract.findings import Status
from contract.limits import DEFAULT_LIMITS
from contract.report import PLAIN, render
from contract.requests import VerifyRequest
from eagle3_contract.verify.server.client import API_KEY
from eagle3_contract.verify.server.prompts import FROM_SAMPLES
from eagle3_contract.verify.server.run import verify_server
from verify.server.conftest import DEMO, ROUNDS, Case, Run, broken, one, told
from verify.server.imitations import KEY, Sglang, Vllm


def test_foreign_traffic_beside_one_request_leaves_that_one_out(exported: Case, run: Run) -> None:
    server = Vllm()
    server.foreign = lambda index: 50 if index == 2 else 0
    report = run(exported, server)
    assert report.exit_code == 0
    check = one(report, "server.traffic")
    assert (check.status, check.required, check.actual) == (Status.UNKNOWN, False, 1)
    figures = report.measurements["server"]
    assert (figures["counted_requests"], figures["rounds"]) == (7, ROUNDS - 16)
    assert figures["with_others"] < figures["accepted_length"]


def test_foreign_traffic_throughout_is_unknown_and_not_wrong(exported: Case, run: Run) -> None:
    server = Vllm()
    server.foreign = lambda _: 500
    report = run(exported, server)
    assert (report.exit_code, broken(report)) == (3, {"server.traffic": Status.UNKNOWN})
    assert not told(report, "acceptance.floor")
    assert one(report, "server.speculation").status is Status.PASSED


def test_a_restart_in_between_is_unknown(exported: Case, run: Run) -> None:
    server = Vllm()
    server.restart_at = 4
    report = run(exported, server)
    assert (report.exit_code, broken(report)) == (3, {"server.counters": Status.UNKNOWN})
    assert one(report, "server.counters").evidence == {"sample-04.safetensors": "reset"}


def test_counters_that_stand_still_are_unknown(exported: Case, run: Run) -> None:
    server = Vllm()
    server.lag = 10_000
    report = run(exported, server, limits=DEFAULT_LIMITS.lowered(server_requests=2))
    assert broken(report)["server.counters"] is Status.UNKNOWN
    assert report.exit_code == 3


def test_statistics_that_are_off_are_unknown(exported: Case, run: Run) -> None:
    server = Vllm()
    server.statistics = False
    report = run(exported, server)
    assert (report.exit_code, broken(report)) == (3, {"server.speculation": Status.UNKNOWN, "server.counters": Status.UNKNOWN})


@pytest.mark.parametrize("value", ["NaN", "+Inf", "-1.0", "1e300", "0.5"])
def test_counters_that_are_no_counts(value: str, exported: Case, run: Run) -> None:
    server = Vllm()
    server.page = lambda page: page.replace(
        'accepted_tokens_total{engine="0",model_name="demo"} 0.0', f'accepted_tokens_total{{engine="0"}} {value}'
    )
    report = run(exported, server)
    assert report.exit_code == 2
    assert one(report, "server.counters").rejected


def test_a_page_that_is_no_page_of_metrics(exported: Case, run: Run) -> None:
    server = Vllm()
    server.page = lambda _: "<html>vllm</html>\n"
    assert broken(run(exported, server))["server.counters"] is Status.UNKNOWN
    server.page = lambda page: page + "vllm:broken{\n"
    report = run(exported, server)
    assert (report.exit_code, one(report, "server.answer").rejected) == (2, True)


def test_verify_steps_that_cannot_be(case: Case, run: Run) -> None:
    server = Sglang()
    server.answers = [a | {"meta_info": a["meta_info"] | {"spec_verify_ct": 4000}} for a in server.answers]
    assert broken(run(case, server))["server.counters"] is Status.UNKNOWN


@pytest.mark.parametrize(
    "meta",
    [
        {"completion_tokens": 10**9},
        {"completion_tokens": -1},
        {"completion_tokens": "10"},
        {"completion_tokens": None},
        {"prompt_tokens": 25},
    ],
)
def test_an_answer_to_something_else_is_rejected(meta: dict[str, object], case: Case, run: Run) -> None:
    server = Sglang()
    post = server.post

    def other(path: str, body: dict[str, object]) -> tuple[int, object]:
        status, answer = post(path, body)
        return status, answer | {"meta_info": answer["meta_info"] | meta}

    server.post = other  # type: ignore[method-assign,assignment]  # an imitation of this one fault
    report = run(case, server)
    assert (report.exit_code, one(report, "server.answer").rejected) == (2, True)


@pytest.mark.parametrize("answer", [[], "text", {}, {"meta_info": []}, {"meta_info": {"completion_tokens": 3}, "output_ids": ["a"]}])
def test_an_answer_of_another_shape_is_rejected(answer: object, case: Case, run: Run) -> None:
    server = Sglang()
    server.post = lambda path, body: (200, answer)  # type: ignore[method-assign,assignment]  # an imitation of this one fault
    assert run(case, server).exit_code == 2


def test_names_of_a_server_do_not_act(case: Case, run: Run) -> None:
    server = Sglang()
    server.info = {
        "version": "0.5.23\x1b[31m",
        "speculative_draft_model_path": "x\r\n::error::y\u202e",
        "speculative_algorithm": "\x07EAGLE3",
    }
    report = run(case, server)
    assert "\x1b" not in render(report, "text", PLAIN)
    assert all(c.message.isprintable() for c in report.checks)


@pytest.mark.parametrize(
    ("owner", "name"), [("llamacpp", "llamacpp"), ("tensorrt_llm", "tensorrt_llm"), ("\x1b[1mx", "\\x1b[1mx"), ("", "BaseHTTP")]
)
def test_another_engine_is_refused_by_its_name(owner: str, name: str, case: Case, run: Run) -> None:
    class Other(Vllm):
        pass

    Other.owner = owner
    report = run(case, Other())
    check = one(report, "server.engine")
    assert (report.exit_code, check.rejected) == (2, True)
    assert name in check.message


def test_an_unreachable_server_keeps_the_findings_on_the_files(case: Case) -> None:
    case.edit("floor: 1.4", "floor: {unknown: nobody measured it}")
    report = verify_server(VerifyRequest(spec=str(case.spec), server="http://127.0.0.1:1"))
    assert report.exit_code == 2
    assert one(report, "server.unreachable").rejected
    assert [c for c in report.checks if c.status is Status.PASSED]


def test_a_host_that_cannot_be_spelt(case: Case) -> None:
    report = verify_server(VerifyRequest(spec=str(case.spec), server=f"http://{'a' * 70}.example"))
    assert (report.exit_code, one(report, "server.url").rejected) == (2, True)


@pytest.mark.parametrize("url", ["ftp://h", "http://u:secret@h", "h:8000", "http://h?token=secret"])
def test_a_url_that_is_none_and_no_secret_of_it(url: str, case: Case) -> None:
    report = verify_server(VerifyRequest(spec=str(case.spec), server=url))
    assert (report.exit_code, [c.rule for c in report.checks]) == (2, ["server.url"])
    for form in ("text", "json", "prometheus"):
        assert "secret" not in render(report, form, PLAIN)


def test_the_key_is_nowhere_in_a_report(case: Case, run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    """SGLang shows its own key in /server_info, and in the command line that it shows there."""
    server = Sglang()
    server.key = KEY
    assert one(run(case, server), "server.denied").rejected
    monkeypatch.setenv(API_KEY, KEY)
    report = run(case, server)
    assert report.exit_code == 0
    for form in ("text", "json", "jsonl", "html", "prometheus"):
        assert KEY not in render(report, form, PLAIN)


def test_prompts_of_a_file(case: Case, run: Run) -> None:
    server = Sglang()
    report = run(case, server, prompts=str(DEMO / "prompts.jsonl"), max_new_tokens=120)
    lines = [json.loads(line)["input_ids"] for line in (DEMO / "prompts.jsonl").read_text().splitlines()]
    assert [body["input_ids"] for body in server.bodies] == lines
    assert {body["sampling_params"]["max_new_tokens"] for body in server.bodies} == {120}
    assert (report.exit_code, report.measurements["server"]["rounds"]) == (0, ROUNDS)


def test_limits(case: Case, run: Run, tmp_path: Path) -> None:
    prompts = tmp_path / "p.jsonl"
    prompts.write_text("".join(f'{{"input_ids": [{i}]}}\n' for i in range(3)))
    for more, limits in (
        ({"prompts": str(prompts)}, DEFAULT_LIMITS.lowered(server_requests=2)),
        ({"max_new_tokens": 11}, DEFAULT_LIMITS.lowered(server_tokens=10)),
        ({}, DEFAULT_LIMITS.lowered(server_response_bytes=2000)),
    ):
        report = run(case, Sglang(), limits=limits, **more)
        assert (report.exit_code, one(report, "server.limit-exceeded").rejected) == (2, True)
    empty = tmp_path / "e.jsonl"
    empty.write_text("\n")
    assert one(run(case, Sglang(), prompts=str(empty)), "server.prompts").rejected


def test_a_context_that_is_too_short(case: Case, run: Run, tmp_path: Path) -> None:
    server = Sglang()
    server.max_model_len = 40
    report = run(case, server, max_new_tokens=100)
    assert {body["sampling_params"]["max_new_tokens"] for body in server.bodies} == {40 - 24 - 4 - 1}
    server.max_model_len = 30
    report = run(case, server)
    assert one(report, "server.prompts").rejected
    prompts = tmp_path / "p.jsonl"
    prompts.write_text(f'{{"id": "short", "input_ids": [1, 2]}}\n{{"id": "long", "input_ids": {[1] * 200}}}\n')
    server.max_model_len = 100
    report = run(case, server, prompts=str(prompts), max_new_tokens=20)
    assert one(report, "server.answers").actual == 1


def test_few_steps_are_no_judgement(case: Case, run: Run) -> None:
    server = Sglang()
    server.answers = [server.answers[0]]
    report = run(case, server, limits=DEFAULT_LIMITS.lowered(server_requests=3))
    assert (report.exit_code, broken(report)) == (3, {"server.rounds": Status.UNKNOWN})


def test_samples_are_sent_within_reason(case: Case, run: Run) -> None:
    server = Sglang()
    report = run(case, server, limits=DEFAULT_LIMITS.lowered(server_requests=3))
    assert len(server.bodies) == 3 <= FROM_SAMPLES
    assert report.provenance["prompts"] == "of 3 of 8 samples"


def test_without_samples_there_is_nothing_to_send(case: Case, run: Run, tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    report = run(case, Sglang(), samples=str(tmp_path / "empty"))
    assert one(report, "server.prompts").rejected
    assert report.exit_code == 2


def test_fail_fast(case: Case, run: Run) -> None:
    server = Sglang()
    server.info = {"speculative_num_steps": 1}
    report = run(case, server, fail_fast=True)
    assert report.checks[-1].status is Status.FAILED
    assert not server.bodies


def test_a_contract_that_is_none(tmp_path: Path) -> None:
    (tmp_path / "c.yaml").write_text("schema_version: 1\nkind: eagle3\n")
    report = verify_server(VerifyRequest(spec=str(tmp_path / "c.yaml"), server="http://127.0.0.1:1"))
    assert report.exit_code == 2


def test_an_interrupted_run_is_incomplete(case: Case, run: Run) -> None:
    class Interrupted(Sglang):
        def counts(self, index: int) -> tuple[int, int, list[int]]:
            return super().counts(index)

    import eagle3_contract.verify.server.run as module

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(module, "speculation_check", _interrupt)
        report = run(case, Interrupted())
    assert (report.complete, int(report.exit_code)) == (False, 2)


def _interrupt(*_: object) -> None:
    raise KeyboardInterrupt
