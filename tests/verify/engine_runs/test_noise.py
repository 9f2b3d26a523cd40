"""The same prompts in further runs: noise is measured, a fault of one run is located, and no fault excuses itself."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from pathlib import Path

import pytest
import torch

from contract.files.bundle import open_bundle
from contract.findings import Check, ExitCode, Status
from contract.numerics.tolerance import dtype_bound, tolerance_for
from eagle3_contract.verify.engine_runs.noise import Noise, of_bundle
from eagle3_contract.verify.engine_runs.run import noise_checks
from eagle3_contract.verify.engine_runs.tokens import token_checks
from eagle3_contract.verify.target_tokens import TargetHead
from verify.engine_runs.conftest import Demo
from verify.engine_runs.simulate import Request
from verify.scenario import dump, failed

SLOTS = ("slot.0", "slot.1", "slot.2")


def again(request: Request, run: str) -> Request:
    """The same request once more, under another name."""
    tensors = {name: x.clone() for name, x in request.tensors.items()}
    return dataclasses.replace(request, id=f"{request.id}-{run}", run=run, tensors=tensors, sample=None)


def noisy(request: Request, relative: float, seed: int = 1) -> Request:
    """Every state off by about that much in each row."""
    generator = torch.Generator().manual_seed(seed)
    for name, x in request.tensors.items():
        if name.startswith(("slot.", "boundary.", "final_norm")):
            turned = torch.randn(x.shape, generator=generator)
            request.tensors[name] = x + relative * x.norm(dim=1, keepdim=True) * turned / turned.norm(dim=1, keepdim=True)
    return request


def noise_of(demo: Demo, out: Path, requests: Sequence[Request], dtype: str = "bfloat16") -> Noise:
    found = of_bundle(open_bundle(demo.write(out / "bundle", list(requests), dtype=dtype)), shift=1)
    assert found is not None
    return found


def differing(noise: Noise) -> list[Check]:
    return [c for c in noise.checks() if c.status is Status.FAILED]


def head(demo: Demo) -> TargetHead:
    model = demo.target.model
    return TargetHead(model.model.norm.weight.detach(), model.lm_head.weight.detach(), float(model.config.rms_norm_eps))


def test_a_single_run_measures_nothing(clean: Path) -> None:
    assert of_bundle(open_bundle(clean), shift=1) is None


def test_equal_runs_have_no_floor(demo: Demo, tmp_path: Path) -> None:
    noise = noise_of(demo, tmp_path, [*demo.plain, *(again(r, "again") for r in demo.plain)])
    checks = list(noise.checks())
    assert {c.status for c in checks} == {Status.PASSED}
    assert {c.message.split(": ")[1].split(" as")[0] for c in checks} == {"slots", "final_norm", "fc_out", "final_normed", "logits"}
    for name in (*SLOTS, "final_norm", "fc_out", "final_normed", "logits"):
        floor = noise.floor(name)
        assert floor is not None
        assert (floor.median, floor.worst) == (0.0, 0.0)
    rows = sum(len(r.text) - 1 for r in demo.plain)
    runs = noise.as_measurement()["runs"]["again"]
    assert runs["slot.0"]["rows"] == runs["slot.0"]["bit_equal_rows"] == rows
    # one row of the drafter for each committed row that has been fed, and two draft steps a round
    rounds = sum(len(r.emitted) for r in demo.plain)
    assert runs["fc_out"]["rows"] == rows
    assert runs["final_normed"]["rows"] == rows + 2 * rounds


def test_noise_is_measured_and_widens_the_tolerance(demo: Demo, tmp_path: Path) -> None:
    noise = noise_of(demo, tmp_path, [demo.plain[0], noisy(again(demo.plain[0], "batched"), 6e-3)])
    assert differing(noise) == []
    floor = noise.floor("slot.0")
    assert floor is not None
    assert floor.median == pytest.approx(6e-3, rel=1e-3)
    bound = dtype_bound("bfloat16", layers=2)
    assert 3 * floor.median > bound
    tolerance = tolerance_for("bfloat16", layers=2, floor=floor.median, worst_floor=floor.worst)
    assert tolerance.median == pytest.approx(3 * 6e-3, rel=1e-3)  # type: ignore[union-attr]


def test_wide_noise_is_a_finding_and_leaves_states_undecided(demo: Demo, tmp_path: Path) -> None:
    """Plain states are 0.08 off, and the engine differs from itself by 0.06: no tolerance is widened for it, nothing is kept."""
    plain = [noisy(again(r, ""), 0.08, seed=2) for r in demo.plain]
    plain = [dataclasses.replace(r, sample=s.name) for r, s in zip(plain, demo.samples, strict=True)]
    report = demo.verify(demo.write(tmp_path / "bundle", [*plain, noisy(again(plain[0], "batched"), 0.06)], dtype="bfloat16"))
    assert report.exit_code is ExitCode.VIOLATED
    assert "engine.runs-differ" in failed(report), dump(report)
    floors = {c.where.tensor: c for c in report.checks if c.rule == "engine.noise-floor" and c.where is not None}
    assert floors.keys() >= set(SLOTS)
    assert all(c.status is Status.UNKNOWN and c.required for name, c in floors.items() if name in SLOTS)
    states = [c for c in report.checks if c.rule in ("states.rows", "states.unexplained")]
    assert states, dump(report)
    assert {c.status for c in states} == {Status.UNKNOWN}
    assert all(c.required and "the engine's own noise" in c.message for c in states)


def test_row_behind_a_cached_prefix_is_located(demo: Demo, tmp_path: Path) -> None:
    cached = demo.engine.generate("c0", demo.prompt(0), 8, run="cached", cached=16)
    noise = noise_of(demo, tmp_path / "right", [*demo.plain, cached])
    assert differing(noise) == []
    assert noise.as_measurement()["runs"]["cached"]["slot.0"]["rows"] == len(cached.text) - 1 - 16
    spoilt = again(cached, "cached")
    for name in ("slot.1", "slot.2", *(f"boundary.{n}" for n in range(4, 13))):
        spoilt.tensors[name][0] = spoilt.tensors[name][3]
    noise = noise_of(demo, tmp_path / "wrong", [*demo.plain, spoilt])
    (found,) = differing(noise)
    assert found.where is not None
    assert (found.where.tensor, found.where.row, found.where.slot) == ("slot.1", 16, 1)
    assert "the first row behind a cached prefix of 16 tokens" in found.message
    assert f"token {cached.text[16]}" in found.message
    assert found.evidence["first_boundary"] == 4
    assert found.dimension == "engine"


def test_chunk_boundary_is_located(demo: Demo, tmp_path: Path) -> None:
    engine = dataclasses.replace(demo.engine, chunk=10)
    chunked = engine.generate("k0", demo.prompt(1), 8, run="chunked")
    noise = noise_of(demo, tmp_path / "right", [*demo.plain, chunked])
    assert differing(noise) == []
    for i in range(3):
        chunked.tensors[f"slot.{i}"][10:20] = chunked.tensors[f"slot.{i}"][:10]
    noise = noise_of(demo, tmp_path / "wrong", [*demo.plain, chunked])
    (found,) = differing(noise)
    assert found.where is not None
    assert found.where.row == 10
    assert "the first row of chunk 1 of 3 (rows 10 to 19)" in found.message
    assert noise.floor("slot.0") is None  # a fault does not excuse itself


def test_fault_in_the_drafter_alone(demo: Demo, tmp_path: Path) -> None:
    """States are equal; the second draft step of round 3 is off, as with a cache slot that another request wrote."""
    spoilt = again(demo.plain[2], "batched")
    k = next(i for i, f in enumerate(spoilt.forwards) if (f.round, f.step) == (3, 2))
    for name in ("final_normed", "state_out"):
        spoilt.tensors[f"forward.{k}.{name}"] *= 1.5
    noise = noise_of(demo, tmp_path, [*demo.plain, spoilt])
    (found,) = differing(noise)
    assert found.where is not None
    assert (found.where.tensor, found.where.step) == ("final_normed", 2)
    assert "round 3, step 2" in found.message


def test_wrong_token_at_the_end_of_a_chunk(demo: Demo, tmp_path: Path) -> None:
    """vLLM 0.32.0 feeds the drafter a token that it sampled at a chunk's last row, where the prompt's next token is due."""
    chunked = dataclasses.replace(demo.engine, chunk=10).generate("k0", demo.prompt(1), 8, run="chunked")
    due = chunked.tensors["forward.0.input_ids"][9].clone()
    chunked.tensors["forward.0.input_ids"][9] += 1
    chunked.tensors["forward.0.final_normed"][9] = chunked.tensors["forward.0.final_normed"][8]
    (found,) = differing(noise_of(demo, tmp_path, [*demo.plain, chunked]))
    assert found.where is not None
    assert (found.where.tensor, found.where.row) == ("final_normed", 9)
    assert f"the drafter was fed token {int(due) + 1}, {int(due)} in the plain run" in found.message
    assert "the last row of chunk 0 of 3 (rows 0 to 9)" in found.message


def test_logits_that_are_masked_otherwise(demo: Demo, tmp_path: Path) -> None:
    spoilt = again(demo.plain[2], "batched")
    logits = spoilt.tensors["forward.4.logits"]
    logits[0, int(logits.isfinite()[0].nonzero()[0])] = float("-inf")
    (found,) = differing(noise_of(demo, tmp_path, [*demo.plain, spoilt]))
    assert found.where is not None
    assert found.where.tensor == "logits"


def test_run_without_a_plain_twin_is_named(demo: Demo, tmp_path: Path) -> None:
    noise = noise_of(demo, tmp_path, [demo.plain[0], again(demo.plain[1], "batched")])
    (found,) = noise.checks()
    assert found.status is Status.UNKNOWN
    assert not found.required
    assert "r1-batched" in found.message


def margins(demo: Demo, request: Request) -> list[tuple[float, int, int]]:
    """For each generated token that is followed by others: margin of the best over the second, its position, the second."""
    model = demo.target.model
    ids = torch.tensor([request.text])
    top = model(input_ids=ids).logits[0].detach().topk(2)
    return [
        (float(top.values[p - 1, 0] - top.values[p - 1, 1]), p, int(top.indices[p - 1, 1]))
        for p in range(request.prompt_tokens + 1, len(request.text) - 4)
    ]


def steered(demo: Demo, request: Request, position: int, token: int) -> Request:
    """The same prompt in an engine that says another token at one position."""
    engine = dataclasses.replace(demo.engine, steer=lambda at, said: token if at == position else said)
    return engine.generate(f"{request.id}-b", request.text[: request.prompt_tokens], position - request.prompt_tokens + 3, run="batched")


def test_tokens_that_part_at_a_tie_are_noise_and_at_a_wide_margin_a_finding(demo: Demo, tmp_path: Path) -> None:
    every = [(m, p, t, r) for r in demo.plain for m, p, t in margins(demo, r)]
    near, wide = min(every, key=lambda x: x[0]), max(every, key=lambda x: x[0])
    for name, (margin, position, token, request) in (("near", near), ("wide", wide)):
        other = steered(demo, request, position, token)
        noise = noise_of(demo, tmp_path / name, [*demo.plain, other])
        (found,) = token_checks(noise, head(demo))
        (parted,) = found.evidence["parted"]
        assert (parted["position"], parted["other"]) == (position, token)
        assert parted["margin"]["logits"] == pytest.approx(margin, rel=1e-2, abs=1e-3)
        assert found.status is (Status.PASSED if name == "near" else Status.FAILED), found
        assert "slot.0" not in {c.where.tensor for c in differing(noise) if c.where is not None}  # rows before the split are equal
        if name == "wide":
            assert found.where is not None
            assert (found.where.sample, found.where.row) == (other.id, position)
            (unknown,) = token_checks(noise, None)
            assert (unknown.status, unknown.required) == (Status.UNKNOWN, False)


def test_equal_tokens_are_counted(demo: Demo, tmp_path: Path) -> None:
    noise = noise_of(demo, tmp_path, [*demo.plain, *(again(r, "again") for r in demo.plain)])
    (found,) = token_checks(noise, None)
    assert found.status is Status.PASSED
    assert f"the {sum(len(r.text) - r.prompt_tokens for r in demo.plain)} generated tokens of 8 prompts" in found.message


def test_clean_further_runs_are_kept(demo: Demo, tmp_path: Path) -> None:
    chunked = dataclasses.replace(demo.engine, chunk=10).generate("k0", demo.prompt(1), 8, run="chunked")
    cached = demo.engine.generate("c0", demo.prompt(0), 8, run="cached", cached=16)
    report = demo.verify(demo.write(tmp_path / "bundle", [*demo.plain, *(again(r, "again") for r in demo.plain[:2]), cached, chunked]))
    assert report.exit_code is ExitCode.KEPT, dump(report)
    assert report.measurements["noise"]["runs"].keys() == {"again", "cached", "chunked"}
    assert {c.rule for c in report.checks if c.status is Status.PASSED} >= {
        "engine.runs-differ",
        "engine.tokens-differ",
        "engine.noise-floor",
    }


def test_nothing_is_said_of_a_single_run(demo: Demo) -> None:
    measured: dict[str, object] = {}
    assert list(noise_checks(None, None, None, measured)) == []  # type: ignore[arg-type]
    assert measured == {}
