"""What runs on a GPU is right there: ``python benchmarks/gpu_checks.py --device cuda``, in under five minutes.

Every part runs on the device, in float32 and in the engine's dtypes (bfloat16, float16), and is held against float32 on the CPU:

forward      the conformance vectors in float32; a drafter of serving size in each dtype, three steps; rounds with a KV cache
statistics   the one-pass comparison of two tensors, non-finite values among them
attribution  three slots among the boundaries of a target
pair         the demo pair: `contract draft`, `contract verify`, a capture by transformers (where it is installed), and the incident

Prints a table (``--json``: one object) with times and peak memory of the device; exits 0 if all is right, 1 if not, 2 without the device.
"""

from __future__ import annotations

import argparse
import importlib.util
import json
import math
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass, fields, replace
from pathlib import Path
from typing import Any, Final

import torch
from safetensors.torch import load_file, save_file
from torch import Tensor

from contract.errors import UserError
from contract.findings import ExitCode
from contract.numerics.matching import Candidate, attribute_all
from contract.numerics.statistics import Comparison, compare
from contract.numerics.tolerance import Tolerance
from contract.requests import CaptureRequest, DraftRequest, VerifyRequest
from eagle3_contract.drafter.devices import resolve_device
from eagle3_contract.drafter.drafter import Drafter
from eagle3_contract.drafter.forward import teacher_forced
from eagle3_contract.drafter.incremental import IncrementalDrafter
from eagle3_contract.drafter.shapes import tensor_shapes
from eagle3_contract.drafter.weights import MemorySource
from eagle3_contract.model.wiring import Owner, Rope, Wiring

ROOT: Final = Path(__file__).resolve().parents[1]
VECTORS: Final = ROOT / "specs" / "conformance"
DEMO: Final = ROOT / "eagle3_contract" / "demo" / "data"
DTYPES: Final = (torch.float32, torch.bfloat16, torch.float16)
BOUNDS: Final = {torch.float32: 1e-4, torch.bfloat16: 0.05, torch.float16: 0.007}
"""Median relative error of a row's logits against float32 on the CPU: six units of the dtype's last place."""
VECTOR_BOUND: Final = 5e-5
"""Of max(1, max|logit|): five times the tolerance on the CPU, for kernels that add in another order."""
STEPS: Final = 3
TOLERANCE: Final = Tolerance(0.02, 0.05, "gpu checks")


@dataclass(frozen=True)
class Sizes:
    """Of the synthetic parts: drafter width, inner width, heads, draft and target vocabulary, tokens; rows, width and depth of a target."""

    hidden: int
    inner: int
    heads: int
    draft: int
    vocabulary: int
    tokens: int
    rows: int
    width: int
    layers: int


SCALES: Final = {
    "full": Sizes(4096, 12288, 32, 32000, 64000, 128, 2048, 7168, 61),
    "tiny": Sizes(64, 96, 4, 96, 256, 16, 48, 64, 6),
}


@dataclass
class Result:
    """One check. ``right`` is None for what could not run here."""

    name: str
    right: bool | None
    detail: str
    seconds: float = 0.0
    peak_mib: float | None = None


class Bench:
    """Runs checks on a device and keeps what they said."""

    def __init__(self, device: torch.device, sizes: Sizes) -> None:
        self.device, self.sizes, self.results = device, sizes, list[Result]()

    def check(self, name: str, body: Callable[[], tuple[bool | None, str]]) -> None:
        """Run one body; its exception is a failure of the check, and the others still run."""
        cuda = self.device.type == "cuda"
        if cuda:
            torch.cuda.synchronize(self.device)
            torch.cuda.reset_peak_memory_stats(self.device)
        began = time.perf_counter()
        try:
            right, detail = body()
        except (UserError, RuntimeError, AssertionError) as error:
            right, detail = False, f"{type(error).__name__}: {error}"
        if cuda:
            torch.cuda.synchronize(self.device)
        peak = torch.cuda.max_memory_allocated(self.device) / 2**20 if cuda else None
        self.results.append(Result(name, right, detail, time.perf_counter() - began, peak))

    def clock(self, body: Callable[[], Any], runs: int = 3) -> float:
        """Best time of some runs, in seconds, with the device's queue empty before and after."""
        best = math.inf
        for _ in range(runs):
            self._wait()
            began = time.perf_counter()
            body()
            self._wait()
            best = min(best, time.perf_counter() - began)
        return best

    def _wait(self) -> None:
        if self.device.type == "cuda":
            torch.cuda.synchronize(self.device)


def vectors(bench: Bench) -> None:
    """Every conformance case in float32 on the device, teacher forced and in rounds."""
    target = MemorySource(load_file(VECTORS / "target.safetensors"), "target")
    index = json.loads((VECTORS / "index.json").read_text())

    sys.path.insert(0, str(ROOT))  # the vectors' wirings are read by the tool that made them, and a script has only its own folder
    from tools.conformance.words import wiring_from

    def body() -> tuple[bool, str]:
        worst, where = 0.0, ""
        for name in index["cases"]:
            held = load_file(VECTORS / name / "vectors.safetensors")
            wiring = wiring_from(json.loads((VECTORS / name / "case.json").read_text())["wiring"])
            source = MemorySource(load_file(VECTORS / name / "drafter" / "model.safetensors"))
            made = Drafter(wiring, source, target_source=target, device=bench.device)
            got = teacher_forced(made, held["input_ids"], held["hidden_states"], steps=STEPS).logits_steps
            error = max(_error(g, held[f"logits_step{s}"]) for s, g in enumerate(got))
            request, rows = IncrementalDrafter(made), int(held["rounds.committed"][0])
            request.prefill(held["input_ids"][: rows + 1], held["hidden_states"][:rows])
            drafted = request.draft(held["rounds.tokens"].shape[1])
            error = max(error, _error(drafted.logits, held["rounds.logits"][0]))
            if not torch.equal(drafted.tokens.cpu(), held["rounds.tokens"][0]):
                return False, f"{name}: drafts {drafted.tokens.tolist()} for {held['rounds.tokens'][0].tolist()}"
            worst, where = max((worst, where), (error, name))
        return worst <= VECTOR_BOUND, f"{len(index['cases'])} cases, worst {worst:.2g} ({where})"

    bench.check("conformance vectors, float32", body)


def _error(got: Tensor, right: Tensor) -> float:
    """Largest error of a row as a share of max(1, its largest logit); infinite where another row is alive."""
    assert got.dtype is torch.float32
    got, right = got.cpu().double(), right.double()
    if not torch.equal(got.isnan(), right.isnan()):
        return math.inf
    live = ~right.isnan().any(dim=-1)
    bound = right[live].abs().amax(dim=-1).clamp(min=1.0)
    return float(((got - right)[live].abs().amax(dim=-1) / bound).max())


def serving_size(sizes: Sizes) -> Wiring:
    """A plain drafter of serving size."""
    return Wiring(
        hidden_size=sizes.hidden, target_hidden_size=sizes.hidden, states=3, layers=1, heads=sizes.heads, kv_heads=max(1, sizes.heads // 4),
        head_dim=sizes.hidden // sizes.heads, intermediate_size=sizes.inner, draft_vocab_size=sizes.draft,
        target_vocab_size=sizes.vocabulary, rms_norm_eps=1e-5, hidden_act="silu", rope=Rope(theta=500000.0), embedding=Owner.OWN,
    )  # fmt: skip


def forward(bench: Bench) -> None:
    """A drafter of serving size in every dtype: three steps teacher forced, and a round with a KV cache."""
    wiring = serving_size(bench.sizes)
    rng = torch.Generator(device="cpu").manual_seed(0)
    tensors = {}
    for name, shape in tensor_shapes(wiring).items():
        noise = torch.randn(shape, generator=rng, device="cpu")
        tensors[name] = (1.0 + 0.2 * noise if len(shape) == 1 else noise * shape[-1] ** -0.5).bfloat16()
    offsets = torch.arange(bench.sizes.draft, device="cpu") * (bench.sizes.vocabulary // bench.sizes.draft - 1)
    tensors["d2t"] = offsets
    ids = torch.randint(0, bench.sizes.vocabulary, (bench.sizes.tokens,), generator=rng, device="cpu")
    states = torch.randn((bench.sizes.tokens, 3 * bench.sizes.hidden), generator=rng, device="cpu").bfloat16()
    source = MemorySource(tensors)
    reference = teacher_forced(Drafter(wiring, source, device="cpu"), ids, states, steps=STEPS).logits_steps
    for dtype in DTYPES:
        bench.check(
            f"drafter of width {wiring.hidden_size}, {_name(dtype)}",
            lambda d=dtype: _forward(bench, wiring, source, ids, states, reference, d),
        )


def _forward(
    bench: Bench, wiring: Wiring, source: MemorySource, ids: Tensor, states: Tensor, reference: list[Tensor], dtype: torch.dtype
) -> tuple[bool, str]:
    made = Drafter(wiring, source, device=bench.device, dtype=dtype)
    got = teacher_forced(made, ids, states, steps=STEPS).logits_steps
    errors, agreed = [], []
    for found, right in zip(got, reference, strict=True):
        if found.device.type != bench.device.type:
            return False, f"logits are on {found.device}"
        live = ~right[:, 0].isnan()
        there = found.cpu()
        if not torch.equal(there.isnan(), right.isnan()):
            return False, "other rows are alive than on the CPU"
        errors.append(float(((there - right)[live].norm(dim=1) / right[live].norm(dim=1)).median()))
        agreed.append(float((there[live].argmax(-1) == right[live].argmax(-1)).float().mean()))
    request, rows = IncrementalDrafter(made), len(ids) - STEPS - 1
    request.prefill(ids[: rows + 1], states[:rows])
    drafted = request.draft(STEPS, fed_tokens=ids[rows + 1 : rows + STEPS])
    apart = float((drafted.logits - torch.stack([step[rows - 1] for step in got])).norm() / drafted.logits.norm())
    times = bench.clock(lambda: teacher_forced(made, ids, states, steps=STEPS))
    detail = f"median error by step {[f'{e:.2g}' for e in errors]}, top-1 as in float32 {[f'{a:.3f}' for a in agreed]}, "
    detail += f"KV cache {apart:.2g}, {1e3 * times:.1f} ms for {len(ids)} tokens x {STEPS} steps"
    return max(errors) <= BOUNDS[dtype] and apart <= BOUNDS[dtype], detail


def statistics(bench: Bench) -> None:
    """The comparison on the device says what it says on the CPU."""
    shape = (bench.sizes.rows, bench.sizes.width)
    for dtype in DTYPES:
        bench.check(f"statistics of {shape[0]} x {shape[1]}, {_name(dtype)}", lambda d=dtype: _statistics(bench, shape, d))


def _statistics(bench: Bench, shape: tuple[int, int], dtype: torch.dtype) -> tuple[bool, str]:
    rng = torch.Generator(device="cpu").manual_seed(1)
    a = torch.randn(shape, generator=rng, device="cpu")
    b = a + 1e-2 * torch.randn(shape, generator=rng, device="cpu")
    a[:, :3] = b[:, :3]
    a[0] *= 100.0  # a sink
    a[3, 5], b[4, 6], a[7, 1], b[7, 1] = math.nan, math.inf, math.inf, -math.inf
    a, b = a.to(dtype), b.to(dtype)
    there_a, there_b = a.to(bench.device), b.to(bench.device)
    here, there = compare(a, b), compare(there_a, there_b)
    wrong = [f.name for f in fields(Comparison) if f.name != "rows" and not _same(getattr(there, f.name), getattr(here, f.name))]
    for name in ("error", "norm_a", "norm_b", "scale", "cosine", "finite"):
        mine, theirs = getattr(there.rows, name), getattr(here.rows, name)
        if not torch.allclose(mine.double(), theirs.double(), rtol=1e-5, atol=1e-9, equal_nan=True):
            wrong.append(f"rows.{name}")
    seconds = bench.clock(lambda: compare(there_a, there_b))
    return not wrong, f"differs in {wrong}" if wrong else f"{2 * a.numel() * a.element_size() / seconds / 1e9:.1f} GB/s"


def _same(one: Any, other: Any) -> bool:
    """Counts exactly; sums to single precision; entries of the histogram may move between neighbours by a few."""
    if isinstance(one, float):
        return math.isclose(one, other, rel_tol=1e-5) or (math.isnan(one) and math.isnan(other))
    if isinstance(one, tuple) and len(one) == 256:
        moved = sum(abs(x - y) for x, y in zip(one, other, strict=True)) / 2
        return sum(one) == sum(other) and moved <= 1e-4 * sum(one)
    return bool(one == other)


def attribution(bench: Bench) -> None:
    """Three noisy slots among all boundaries, on the device."""

    def body() -> tuple[bool, str]:
        sizes = bench.sizes
        rng = torch.Generator(device="cpu").manual_seed(2)
        state, boundaries = torch.randn((sizes.rows, sizes.width), generator=rng, device="cpu"), []
        for _ in range(sizes.layers + 1):
            state = state + 0.3 * torch.randn(state.shape, generator=rng, device="cpu")
            boundaries.append(state.bfloat16().to(bench.device))
        wanted = (0, sizes.layers // 2, sizes.layers - 1)
        slots = {f"slot {i}": boundaries[n].float().mul(1.0 + 1e-3).bfloat16() for i, n in enumerate(wanted)}
        candidates = [Candidate(f"boundary {n}", lambda s=s: s) for n, s in enumerate(boundaries)]
        found = attribute_all(slots, candidates, TOLERANCE)
        best = [a.best.name if a.best is not None else None for a in found.values()]
        seconds = bench.clock(lambda: attribute_all(slots, candidates, TOLERANCE), 1)
        return best == [f"boundary {n}" for n in wanted], f"{best}, {seconds:.2f} s among {len(candidates)} candidates"

    bench.check("attribution", body)


def pair(bench: Bench) -> None:
    """The demo pair through the commands, with ``--device``."""
    device = str(bench.device)
    with tempfile.TemporaryDirectory() as folder:
        bench.check("contract draft, demo pair", lambda: _draft(Path(folder), device))
        bench.check("contract verify, demo pair", lambda: _verify("drafter-a", device, ExitCode.KEPT))
        if importlib.util.find_spec("transformers") is None:
            bench.check("capture and verify", lambda: (None, "transformers is not installed"))
            return
        for name, imitate, ends in (("drafter-a", None, ExitCode.KEPT), ("drafter-b", "sglang==0.5.23", ExitCode.VIOLATED)):
            title = f"capture and verify {name}" + (f", as {imitate} feeds it" if imitate else "")
            bench.check(title, lambda n=name, i=imitate, e=ends: _captured(Path(folder), device, n, i, e))


def _draft(folder: Path, device: str) -> tuple[bool, str]:
    from eagle3_contract.commands.draft import draft

    sample = load_file(DEMO / "drafter-a" / "samples" / "sample-00.safetensors")
    states = sample["states"].float().flatten(1)
    save_file({"input_ids": sample["input_ids"], "hidden_states": states}, folder / "inputs.safetensors")
    outs = {}
    for place in ("cpu", device):
        out = folder / f"logits-{place.replace(':', '-')}.safetensors"
        spec = DEMO / "drafter-a" / "contract.yaml"
        asked = DraftRequest(
            drafter=str(spec.parent), spec=str(spec), inputs=str(folder / "inputs.safetensors"), out=str(out), target=str(DEMO / "target")
        )
        draft(replace(asked, steps=STEPS, device=place))
        outs[place] = load_file(out)
    error = max(_error(outs[device][name], outs["cpu"][name]) for name in outs["cpu"])
    return error <= VECTOR_BOUND, f"worst {error:.2g} against the CPU"


def _verify(name: str, device: str, ends: ExitCode, capture: Path | None = None) -> tuple[bool, str]:
    from eagle3_contract.verify.run import verify

    spec = str(DEMO / name / "contract.yaml")
    report = verify(VerifyRequest(spec=spec, target=str(DEMO / "target"), capture=None if capture is None else str(capture), device=device))
    failed = sorted({c.rule for c in report.checks if c.status.value == "failed"})
    return report.exit_code is ends, f"{report.verdict.value} (exit {int(report.exit_code)}){' ' + ', '.join(failed) if failed else ''}"


def _captured(folder: Path, device: str, name: str, imitate: str | None, ends: ExitCode) -> tuple[bool, str]:
    from eagle3_contract.commands.capture import capture

    out, home = folder / f"bundle-{name}", DEMO / name
    asked = CaptureRequest(
        spec=str(home / "contract.yaml"), engine="transformers", target=str(DEMO / "target"), out=str(out), device=device
    )
    capture(replace(asked, samples=str(home / "samples"), imitate=imitate))
    return _verify(name, device, ends, out)


def _name(dtype: torch.dtype) -> str:
    return str(dtype).removeprefix("torch.")


PARTS: Final = {"vectors": vectors, "forward": forward, "statistics": statistics, "attribution": attribution, "pair": pair}


def lines(bench: Bench) -> Iterator[str]:
    """The table."""
    name = torch.cuda.get_device_name(bench.device) if bench.device.type == "cuda" else "CPU"
    yield f"torch {torch.__version__} on {bench.device} ({name})"
    for r in bench.results:
        said = {True: "right", False: "WRONG", None: "not run"}[r.right]
        memory = "" if r.peak_mib is None else f"{r.peak_mib:9.0f} MiB"
        yield f"{said:8}{r.name:52}{r.seconds:8.2f} s{memory}  {r.detail}"


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--device", default="cuda")
    parser.add_argument("--scale", choices=list(SCALES), default="full")
    parser.add_argument("--part", choices=list(PARTS), action="append", help="only this part; repeatable")
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args(arguments)
    try:
        device = resolve_device(options.device)
    except UserError as error:
        print(f"{error.message}\n  fix: {error.fix}", file=sys.stderr)
        return 2
    began = time.perf_counter()
    bench = Bench(device, SCALES[options.scale])
    for part in options.part or PARTS:
        PARTS[part](bench)
    seconds = time.perf_counter() - began
    wrong = [r.name for r in bench.results if r.right is False]
    if options.json:
        print(
            json.dumps(
                {
                    "device": str(device),
                    "torch": torch.__version__,
                    "seconds": seconds,
                    "wrong": wrong,
                    "checks": [asdict(r) for r in bench.results],
                }
            )
        )
    else:
        print("\n".join(lines(bench)))
        print(f"{len(bench.results) - len(wrong)} of {len(bench.results)} right, {seconds:.0f} s")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
