"""Measured acceptance against the prediction: equal for a clean engine, located where it drafts otherwise, else undecided."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from pathlib import Path

import pytest
import torch

from contract.files.bundle import open_bundle
from contract.files.bundle_manifest import CountInfo
from contract.findings import Check, ExitCode, Json, Status
from contract.reporting import Report
from eagle3_contract.drafter.drafter import Drafter
from eagle3_contract.drafter.forward import teacher_forced
from eagle3_contract.model.wiring import Feedback
from eagle3_contract.verify.acceptance import chain
from eagle3_contract.verify.engine_runs.acceptance import acceptance_checks
from eagle3_contract.verify.engine_runs.counters import counter_checks
from eagle3_contract.verify.engine_runs.predicted import free_running
from eagle3_contract.verify.engine_runs.rounds import rounds_of
from eagle3_contract.verify.engine_runs.tree import Shape, Tree
from eagle3_contract.verify.engine_runs.twins import Told
from verify.engine_runs.conftest import Demo
from verify.engine_runs.redraft import fed, redrafted, rewired
from verify.engine_runs.simulate import Request, table
from verify.scenario import dump, failed

PREDICTED, COUNTERS = "acceptance.predicted", "engine.counters"


def judged(demo: Demo, bundle: Path, *, drafter: Drafter | None = None) -> tuple[dict[str, Check], Mapping[str, Json]]:
    """The checks by rule, and what was measured."""
    measured: dict[str, Json] = {}
    used = drafter or demo.drafter
    checks = {c.rule: c for c in acceptance_checks(open_bundle(bundle), demo.engine.recipe, used, measured, reference=False)}
    return checks, measured.get("acceptance", {})


def counted(bundle: Path) -> Check:
    """What is said about the engine's own counters."""
    opened = open_bundle(bundle)
    every = [Told(r, shift=1, longest=None) for r in opened.requests]
    (found,) = counter_checks(opened, [r for t in every for r in rounds_of(t.recorded, t.account.undrafted)])
    return found


def without(request: Request, *starts: str) -> Request:
    return dataclasses.replace(request, tensors={n: x for n, x in request.tensors.items() if not n.startswith(starts)})


def test_clean_engine_measures_what_is_predicted(demo: Demo, clean: Path) -> None:
    found, measured = judged(demo, clean)
    assert {c.status for c in found.values()} == {Status.PASSED}
    assert "all proposals are equal" in found[PREDICTED].message
    emitted = [len(e) for r in demo.plain for e in r.emitted]
    assert measured["measured"]["length"] == pytest.approx(sum(emitted) / len(emitted))
    assert measured["measured"]["accepted"] > 100
    assert measured["predicted"] == measured["measured_on_the_same_rounds"] == measured["predicted_in_rounds_of_its_own"]
    assert measured["equal_proposals"] == measured["compared_rounds"]
    assert measured["interval"] == [0.0, 0.0]
    assert measured["states"] == ["the contract's boundaries as the target gave them"]
    # rounds whose drafts reach beyond the text are left out, and no others
    begins = [(r, r.prompt_tokens + 1 + sum(map(len, r.emitted[:i]))) for r in demo.plain for i in range(len(r.emitted))]
    assert measured["compared_rounds"] == sum(at + 3 <= len(r.text) for r, at in begins)


def test_prediction_is_the_chain_over_the_same_text(demo: Demo, clean: Path) -> None:
    """Step by step with a cache, and teacher forced over the whole text: one number."""
    bundle = open_bundle(clean)
    for request in demo.plain[:4]:
        states_TC = fed(request)
        logits = teacher_forced(demo.drafter, torch.tensor(request.text), torch.cat([states_TC, states_TC[-1:]]), steps=3).logits_steps
        drafts = [demo.drafter.target_ids[z.argmax(-1)].tolist() for z in logits]
        want = chain(request.text, drafts, start=request.prompt_tokens - 1)
        told = Told(bundle.request(request.id), shift=1, longest=None)
        rounds = rounds_of(told.recorded, told.account.undrafted)
        got = free_running(demo.drafter, request.text, request.prompt_tokens, states_TC, rounds, None)
        assert (got.rounds, got.accepted) == (want.rounds, want.accepted)


def test_speculation_gives_the_targets_own_tokens(demo: Demo) -> None:
    """Lossless: the loop of drafting and verifying writes what the target writes alone, token by token."""
    for request in demo.plain[:4]:
        prompt = request.text[: request.prompt_tokens]
        new = len(request.text) - len(prompt)
        assert demo.target.continuation(prompt, new) == request.text[len(prompt) :]


@pytest.mark.parametrize(
    "changes", [{"norm_before_residual": None}, {"feedback": Feedback.POST_NORM}], ids=["residual", "feedback"]
)  # fmt: skip
def test_engine_with_another_wiring_is_located(demo: Demo, tmp_path: Path, changes: dict[str, object]) -> None:
    if "norm_before_residual" in changes:
        changes = {"norm_before_residual": not demo.drafter.wiring.norm_before_residual}
    engine = rewired(demo, **changes)
    requests = [redrafted(r, engine) for r in demo.plain]
    found, measured = judged(demo, demo.write(tmp_path / "bundle", requests))
    check = found[PREDICTED]
    right = [redrafted(r, demo.drafter) for r in demo.plain]
    request, number, index = next(
        (a, i, next(j for j in range(3) if a.proposed[i][j] != b[j]))
        for a, r in zip(requests, right, strict=True)
        for i, b in enumerate(_at_rounds_of(a, demo.drafter))
        if a.proposed[i] != b
    )
    assert measured["predicted_in_rounds_of_its_own"]["length"] == pytest.approx(_length(right), abs=0.05)
    assert check.evidence["first_parting"]["request"] == request.id
    assert (check.evidence["first_parting"]["round"], check.evidence["first_parting"]["step"]) == (number, index)
    if "norm_before_residual" in changes:
        assert check.status is Status.FAILED, check.message
        assert check.where is not None
        assert (check.where.sample, check.where.step) == (request.id, index)
        assert measured["interval"][0] > 0
    else:
        assert index > 0  # a fed-back state cannot show in the first draft
    assert found[COUNTERS].status is Status.PASSED


def _at_rounds_of(request: Request, drafter: Drafter) -> list[list[int]]:
    """What ``drafter`` proposes where the request's rounds begin."""
    found: list[list[int]] = []

    def note(_: int, tree: Tree) -> Tree:
        found.append(tree.tokens)
        return Tree(request.proposed[len(found) - 1], tree.parents)

    redrafted(request, drafter, edit=note)
    return found


def _length(requests: Sequence[Request]) -> float:
    emitted = [len(e) for r in requests for e in r.emitted]
    return sum(emitted) / len(emitted)


def test_one_other_proposal_is_chance(demo: Demo, tmp_path: Path) -> None:
    """A near tie that fell otherwise in one round of 145: said, and no finding."""
    number = next(i for i, e in enumerate(demo.plain[3].emitted) if len(e) > 1)
    requests = [redrafted(r, demo.drafter, edit=_other_first(number) if r.id == "r3" else _same) for r in demo.plain]
    found, measured = judged(demo, demo.write(tmp_path / "bundle", requests))
    assert found[PREDICTED].status is Status.PASSED
    assert f"round {number} of r3" in found[PREDICTED].message
    assert measured["difference"] > 0
    assert measured["interval"][0] <= 0


def _same(_: int, tree: Tree) -> Tree:
    return tree


def _other_first(only: int | None) -> object:
    def edit(number: int, tree: Tree) -> Tree:
        return Tree([tree.tokens[0] + 1, *tree.tokens[1:]], tree.parents) if only is None or number == only else tree

    return edit


def test_few_requests_are_resampled_by_rounds(demo: Demo, tmp_path: Path) -> None:
    found, measured = judged(demo, demo.write(tmp_path / "right", [redrafted(demo.plain[4], demo.drafter)]))
    assert measured["resampled"] == "rounds"
    assert found[PREDICTED].status is Status.PASSED
    wrong = redrafted(demo.plain[4], demo.drafter, edit=_other_first(None))  # type: ignore[arg-type]
    found, measured = judged(demo, demo.write(tmp_path / "wrong", [wrong]))
    assert found[PREDICTED].status is Status.FAILED
    assert measured["measured"]["length"] == 1.0
    assert "by position measured none accepted" in found[PREDICTED].message
    assert found[PREDICTED].evidence["first_parting"] == {"request": "r4", "round": 0, "step": 0, "token": 25}


def test_wrong_states_are_what_acceptance_lost(demo: Demo, tmp_path: Path) -> None:
    """The engine feeds other boundaries: its proposals follow from them, and the contract's own boundaries say what was lost."""
    other = ("boundary.9", "boundary.11", "boundary.12")
    requests = [redrafted(r, demo.drafter, states_TC=fed(r, other)) for r in demo.plain]
    for r in requests:
        r.tensors |= {f"slot.{i}": r.tensors[name] for i, name in enumerate(other)}
    found, measured = judged(demo, demo.write(tmp_path / "swept", requests))
    assert found[PREDICTED].status is Status.FAILED, found[PREDICTED].message
    # Without a sweep the drafter is run on what was fed, and then it does just as badly: the states are another check's business.
    blind = [without(r, "boundary.") for r in requests]
    found, measured = judged(demo, demo.write(tmp_path / "blind", blind))
    assert measured["states"] == ["the states that were fed"]
    assert found[PREDICTED].status is Status.PASSED
    assert found[PREDICTED].actual == found[PREDICTED].expected


def test_trees_are_predicted_as_they_are_built(demo: Demo, tmp_path: Path) -> None:
    shape = Shape(steps=3, branches=3, nodes=7)
    flags = {"speculative_num_steps": "3", "speculative_eagle_topk": "3", "speculative_num_draft_tokens": "8"}
    requests = [redrafted(r, demo.drafter, shape=shape) for r in demo.plain]
    found, measured = judged(demo, demo.write(tmp_path / "right", requests, flags=flags))
    assert {c.status for c in found.values()} == {Status.PASSED}, found
    assert measured["equal_proposals"] == measured["compared_rounds"] > 0
    chain_length = _length([redrafted(r, demo.drafter) for r in demo.plain])
    assert measured["measured"]["length"] > chain_length  # a tree accepts more than the chain of the same depth
    assert measured["predicted_with_own_ancestors"]["rounds"] == measured["compared_rounds"]

    def narrow(_: int, tree: Tree) -> Tree:
        """The best child of the root is not among the verified."""
        keep = [i for i in range(1, len(tree.tokens)) if _root(tree, i) != 0]
        number = {old: new for new, old in enumerate(keep)}
        return Tree([tree.tokens[i] for i in keep], [number.get(tree.parents[i], -1) for i in keep])

    requests = [redrafted(r, demo.drafter, shape=shape, edit=narrow) for r in demo.plain]
    found, _ = judged(demo, demo.write(tmp_path / "wrong", requests, flags=flags))
    assert found[PREDICTED].status is Status.FAILED
    assert found[PREDICTED].evidence["first_parting"]["step"] == 0
    found, measured = judged(demo, demo.write(tmp_path / "unknown", requests))
    assert found[PREDICTED].status is Status.UNKNOWN
    assert measured["requests_left_out"] == {"with a tree whose steps and branches the flags do not say": 8}


def _root(tree: Tree, node: int) -> int:
    while tree.parents[node] >= 0:
        node = tree.parents[node]
    return node


def test_engines_own_counters(demo: Demo, tmp_path: Path) -> None:
    rounds = sum(len(r.emitted) for r in demo.plain)
    accepted = sum(len(e) - 1 for r in demo.plain for e in r.emitted)
    right = {"rounds": float(rounds), "accepted_tokens": float(accepted), "drafted_tokens": float(3 * rounds)}
    plain = [without(r, "forward.") for r in demo.plain]
    plain = [dataclasses.replace(r, forwards=[]) for r in plain]
    for name, counters, status in (
        ("right", right, Status.PASSED),
        ("fewer", {**right, "rounds": float(rounds - 1)}, Status.FAILED),
        ("more", {**right, "accepted_tokens": float(accepted + 1)}, Status.FAILED),
        ("some", {"rounds": float(rounds)}, Status.PASSED),
        ("none", {}, Status.UNKNOWN),
    ):
        found = counted(demo.write(tmp_path / name, plain, counters=counters))
        assert found.status is status, name
        assert found.required is (status is not Status.UNKNOWN)
        if status is Status.FAILED:
            (wrong,) = found.actual
            assert f"{counters[wrong]:g} counted, {right[wrong]:g} recorded" in found.message


@pytest.mark.parametrize(("what", "words"), [("requests", "8 of 9 requests"), ("rounds", "that were seen are in the capture")])
def test_counters_over_more_than_was_kept_are_not_held_against_it(demo: Demo, tmp_path: Path, what: str, words: str) -> None:
    rounds = sum(len(r.emitted) for r in demo.plain)
    counts = {"requests": CountInfo(recorded=8, counted=9, by="the test")}
    if what == "rounds":
        counts = {"rounds": CountInfo(recorded=rounds + 4, counted=rounds + 4, by="the test")}
    bundle = demo.write(tmp_path / "bundle", demo.plain, counters={"rounds": float(rounds + 4)}, counts=counts)
    found = counted(bundle)
    assert (found.status, found.required) == (Status.UNKNOWN, False)
    assert words in found.message


def test_a_cut_round_is_left_out_and_its_missing_tokens_are_allowed_for(demo: Demo, tmp_path: Path) -> None:
    """max_new_tokens fell into the last round of r4: two of its three accepted drafts are there, the engine counted three."""
    whole = [dataclasses.replace(without(r, "forward."), forwards=[]) for r in demo.plain]
    number = next(i for i, e in enumerate(whole[4].emitted) if len(e) == 4)
    proposed, emitted = whole[4].proposed[: number + 1], whole[4].emitted[: number + 1]
    rows = whole[4].prompt_tokens + sum(map(len, emitted)) - 2  # what the target ran, but for what was cut
    cut = {n: x[:rows] if len(x) == len(whole[4].text) - 1 else x for n, x in whole[4].tensors.items() if not n.startswith("round.")}
    cut |= {"round.proposed": table(proposed), "round.emitted": table([*emitted[:-1], emitted[-1][:2]])}
    requests = [dataclasses.replace(whole[4], tensors=cut), *whole[:4], *whole[5:]]
    others = [(r, e) for r in requests[1:] for e in r.emitted]
    right = {"rounds": len(others) + number + 1, "accepted_tokens": sum(len(e) - 1 for _, e in others) + sum(len(e) - 1 for e in emitted)}
    found, measured = judged(demo, demo.write(tmp_path / "cut", requests, counters={n: float(v) for n, v in right.items()}))
    assert found[COUNTERS].status is Status.PASSED, found[COUNTERS].message
    assert "1 rounds were cut" in found[COUNTERS].message
    assert measured["measured"]["rounds"] == right["rounds"] - 1
    (reason,) = measured["rounds_left_out"]
    assert reason.startswith("cut off by the limit on new tokens")
    assert found[PREDICTED].status is Status.PASSED
    too_many = {**right, "accepted_tokens": right["accepted_tokens"] + 1}
    wrong = counted(demo.write(tmp_path / "wrong", requests, counters={n: float(v) for n, v in too_many.items()}))
    assert wrong.status is Status.FAILED


def test_zeros_near_the_longest_sequence_are_left_out(demo: Demo, tmp_path: Path) -> None:
    """vLLM verifies zeros where the drafter has no room; they say nothing about the drafter."""
    request = demo.plain[0]
    last = len(request.emitted) - 1
    zeros = redrafted(request, demo.drafter, edit=lambda n, tree: Tree([0, 0, 0], tree.parents) if n >= last else tree)
    kept = [i for i, f in enumerate(request.forwards) if not (f.phase == "draft" and f.round >= last) and f.round <= last]
    renamed = {old: new for new, old in enumerate(kept)}
    forwards = {
        f"forward.{renamed[int(n.split('.')[1])]}.{n.split('.')[2]}": x
        for n, x in request.tensors.items()
        if n.startswith("forward.") and int(n.split(".")[1]) in renamed
    }
    zeros = dataclasses.replace(zeros, tensors=zeros.tensors | forwards, forwards=[request.forwards[i] for i in kept])
    longest = {"max_model_len": str(request.prompt_tokens + sum(map(len, zeros.emitted[:last])) + 3)}
    found, measured = judged(demo, demo.write(tmp_path / "bundle", [zeros], flags=longest))
    (reason,) = measured["rounds_left_out"]
    assert reason.startswith("verified with zeros")
    assert measured["rounds_left_out"][reason] == len(zeros.emitted) - last
    assert found[COUNTERS].status is Status.PASSED
    assert found[PREDICTED].status is Status.PASSED


def test_requests_that_cannot_be_predicted_are_counted(demo: Demo, tmp_path: Path) -> None:
    other = dataclasses.replace(demo.plain[1], id="x", run="batched", sample=None)
    cached = demo.engine.generate("c", demo.prompt(2), 6, cached=16)
    lying = redrafted(demo.plain[3], demo.drafter)
    lying.tensors["round.emitted"] = lying.tensors["round.emitted"].clone()
    lying.tensors["round.emitted"][2, 0] += 1
    found, measured = judged(demo, demo.write(tmp_path / "bundle", [demo.plain[0], other, cached, lying]))
    assert measured["requests_left_out"] == {
        "of further runs": 1,
        "behind a cached prefix": 1,
        "whose emitted tokens are not its text": 1,
    }
    assert "left out: " in found[PREDICTED].message


def test_bundle_without_rounds(demo: Demo, tmp_path: Path) -> None:
    plain = [dataclasses.replace(without(r, "forward.", "round."), forwards=[]) for r in demo.plain]
    bundle = open_bundle(demo.write(tmp_path / "bundle", plain))
    assert list(acceptance_checks(bundle, demo.engine.recipe, demo.drafter, {}, reference=True)) == []
    (found,) = acceptance_checks(bundle, demo.engine.recipe, demo.drafter, {}, reference=False)
    assert (found.status, found.required) == (Status.UNKNOWN, False)


def test_without_a_drafter_nothing_is_predicted(demo: Demo, clean: Path) -> None:
    measured: dict[str, Json] = {}
    checks = list(acceptance_checks(open_bundle(clean), demo.engine.recipe, None, measured, reference=False))
    assert [(c.rule, c.status) for c in checks] == [(COUNTERS, Status.PASSED), (PREDICTED, Status.UNKNOWN)]
    assert measured["acceptance"]["measured"]["rounds"] > 0


def test_the_command_reports_it(demo: Demo, clean: Path) -> None:
    report: Report = demo.verify(clean)
    assert report.exit_code is ExitCode.KEPT, dump(report)
    assert {PREDICTED, COUNTERS} <= {c.rule for c in report.checks if c.status is Status.PASSED}
    assert report.measurements["acceptance"]["difference"] == 0.0
    assert not failed(report)
