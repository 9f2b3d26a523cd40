"""Measures both drafters of a pair on held-out continuations, fed what they were trained on and fed other things.

`python -m tools.demo_pair.evaluate` prints the table of docs/demo-pair.md from the committed weights and the committed continuations.
States are captured from the bfloat16 target by hooks; drafters, final norm and head are computed in float32.

Top-1 of step s is SpecForge's acc: rows t with loss mask [t + s] (last entry zeroed), right if the draft, mapped to the target's
vocabulary, is the target's argmax over all its tokens after token t + 1 + s. tau is the number of tokens per round of a chain of three
greedy drafts, the target's own token included: a draft is accepted if it is the token that the continuation goes on with, and the next
round starts behind the accepted ones. A row whose earlier drafts were accepted was fed exactly those drafts, so the rollout over true
tokens gives the engine's chain.

Shapes: B continuations, T tokens of one, K boundaries, H hidden size, V target vocabulary.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Final

import torch
from safetensors.torch import load_file
from transformers import LlamaForCausalLM

from tools.demo_pair import settings
from tools.demo_pair.drafter import Drafter, RMSNorm, ahead, counted_rows, read_drafter
from tools.demo_pair.generate import record_states, repeated_share
from tools.demo_pair.settings import RECIPES
from tools.demo_pair.target import be_deterministic, load

REPOSITORY: Final = Path(__file__).resolve().parents[2]
PAIR: Final = REPOSITORY / "eagle3_contract" / "demo" / "data"
CONTINUATIONS: Final = Path(__file__).with_name("heldout.safetensors")
EVALUATION_BATCH: Final = 32
# Right recipe over the other drafter's recipe, first step: what the pair is required to show.
LEAST_RATIO: Final = {"a": 1.7, "b": 3.5}
LEAST_TOP1: Final = 0.55
MOST_REPEATED: Final = 0.05


@dataclass(frozen=True)
class Case:
    """What one drafter is fed, and how its ids are read."""

    label: str
    boundaries: tuple[int, ...]
    map: str = "offset"


@dataclass(frozen=True)
class Result:
    """Top-1 at steps 1..3, counted rows per step, accepted drafts and tokens per round."""

    case: Case
    top1: tuple[float, ...]
    rows: int
    rounds: int
    tau: float


@dataclass(frozen=True)
class HeldOut:
    """Continuations [B, T], every boundary's states [B, T, K, H], the target's argmax after each token [B, T], its embedding [V, H]."""

    ids: torch.Tensor
    states: torch.Tensor
    choices: torch.Tensor
    embedding: torch.Tensor


def cases(name: str) -> list[Case]:
    """The right wiring first, then one fault each. An id below 0 has no boundary and is read as 0."""
    right = RECIPES[name]
    first, second, third = right
    (other,) = (recipe for key, recipe in sorted(RECIPES.items()) if key != name)
    return [
        Case("right recipe", right),
        Case("the other's recipe", other),
        Case("ids + 1", tuple(boundary + 1 for boundary in right)),
        Case("ids - 1", tuple(max(0, boundary - 1) for boundary in right)),
        Case("slots 1, 2 swapped", (second, first, third)),
        Case("slots 2, 3 swapped", (first, third, second)),
        Case("slots 1, 3 swapped", (third, second, first)),
        Case("d2t as absolute", right, "absolute"),
    ]


@torch.inference_mode()
def observe(model: LlamaForCausalLM, ids_BT: torch.Tensor) -> HeldOut:
    """Runs the target over the continuations; its argmax is taken in float32 from boundary LAYERS, as a reader of a sample would."""
    states_BTKH, _ = record_states(model, ids_BT, range(settings.LAYERS + 1))
    embedding_VH = model.model.embed_tokens.weight.detach().float()
    norm = RMSNorm(settings.HIDDEN)
    norm.load_state_dict({"weight": model.model.norm.weight.detach().float()})
    last_BTH = states_BTKH[:, :, settings.LAYERS]
    choices = [(norm(last.float()) @ embedding_VH.T).argmax(-1) for last in torch.split(last_BTH, EVALUATION_BATCH)]
    return HeldOut(ids_BT, states_BTKH, torch.cat(choices), embedding_VH)


@torch.inference_mode()
def proposals(drafter: Drafter, held_out: HeldOut, case: Case) -> list[torch.Tensor]:
    """Per step the proposed target token of every row [B, T]."""
    d2t = drafter.d2t
    mapped = torch.arange(len(d2t)) + d2t if case.map == "offset" else d2t
    chunks: list[list[torch.Tensor]] = [[] for _ in range(settings.TTT_STEPS)]
    for start in range(0, len(held_out.ids), EVALUATION_BATCH):
        rows = slice(start, start + EVALUATION_BATCH)
        fed_BTC = held_out.states[rows][:, :, list(case.boundaries)].flatten(2).float()
        for step, h_BTH in enumerate(drafter.rollout(held_out.ids[rows], fed_BTC, held_out.embedding)):
            chunks[step].append(mapped[drafter.logits(h_BTH).argmax(-1)])
    return [torch.cat(step_chunks) for step_chunks in chunks]


def count_rounds(ids_T: Sequence[int], proposals_ST: Sequence[Sequence[int]]) -> tuple[int, int]:
    """Rounds and accepted drafts of one continuation; only rounds whose drafts all have a true token behind them."""
    steps = len(proposals_ST)
    row, rounds, accepted = settings.PROMPT_TOKENS - 1, 0, 0
    while row + 1 + steps < len(ids_T):
        lead = 0
        while lead < steps and proposals_ST[lead][row] == ids_T[row + 2 + lead]:
            lead += 1
        rounds, accepted, row = rounds + 1, accepted + lead, row + lead + 1
    return rounds, accepted


def measure(drafter: Drafter, held_out: HeldOut, case: Case) -> Result:
    """Top-1 and tau of one case, pooled over the continuations."""
    proposed = proposals(drafter, held_out, case)
    length = held_out.ids.shape[1]
    top1, rows = [], 0
    for step, proposed_BT in enumerate(proposed):
        counted_T = counted_rows(length, step)
        hits = (proposed_BT == ahead(held_out.choices, 1 + step))[:, counted_T]
        rows = hits.numel()
        top1.append(round(hits.sum().item() / rows, 4))
    proposals_BST = torch.stack(proposed, dim=1).tolist()
    pairs = [count_rounds(ids, drafts) for ids, drafts in zip(held_out.ids.tolist(), proposals_BST, strict=True)]
    rounds, accepted = (sum(column) for column in zip(*pairs, strict=True))
    return Result(case, tuple(top1), rows, rounds, round(1 + accepted / rounds, 4))


def evaluate(pair: Path, ids_BT: torch.Tensor) -> dict[str, Any]:
    """All cases of both drafters. `pair` holds `target/`, `drafter-a/` and `drafter-b/`."""
    be_deterministic(0)
    held_out = observe(load(pair / "target"), ids_BT)
    generated_BT = held_out.choices[:, settings.PROMPT_TOKENS :]
    drafters = {}
    for name in sorted(RECIPES):
        drafter = read_drafter(pair / f"drafter-{name}" / "model.safetensors")
        results = [measure(drafter, held_out, case) for case in cases(name)]
        drafters[name] = {
            "vocabulary_coverage": round(drafter.t2d[generated_BT].float().mean().item(), 4),
            "ratio_to_other_recipe": round(results[0].top1[0] / max(results[1].top1[0], 1e-4), 2),
            "cases": [asdict(result) for result in results],
        }
    return {
        "definition": "specforge.acc",
        "continuations": len(ids_BT),
        "prompt_tokens": settings.PROMPT_TOKENS,
        "new_tokens": settings.NEW_TOKENS,
        "temperature": settings.TEMPERATURE,
        "repeated_12_grams": round(repeated_share(ids_BT), 4),
        "drafters": drafters,
    }


def table(report: dict[str, Any]) -> str:
    """The report as a Markdown table."""
    lines = ["| drafter | fed | boundaries | top-1, step 1 | step 2 | step 3 | tau |", "|---|---|---|---|---|---|---|"]
    for name, drafter in report["drafters"].items():
        for result in drafter["cases"]:
            boundaries = ", ".join(map(str, result["case"]["boundaries"]))
            figures = " | ".join(f"{value:.3f}" for value in result["top1"])
            lines.append(f"| {name.upper()} | {result['case']['label']} | [{boundaries}] | {figures} | {result['tau']:.2f} |")
    return "\n".join(lines)


def shortfalls(report: dict[str, Any]) -> list[str]:
    """What the pair was required to show and does not."""
    found = []
    if report["repeated_12_grams"] >= MOST_REPEATED:
        found.append(f"{report['repeated_12_grams']:.1%} of the 12-grams repeat")
    for name, drafter in report["drafters"].items():
        if drafter["cases"][0]["top1"][0] < LEAST_TOP1:
            found.append(f"drafter {name}: first-step top-1 {drafter['cases'][0]['top1'][0]:.3f} is under {LEAST_TOP1}")
        if drafter["ratio_to_other_recipe"] < LEAST_RATIO[name]:
            found.append(f"drafter {name}: {drafter['ratio_to_other_recipe']} times the other recipe is under {LEAST_RATIO[name]}")
    return found


def main() -> None:
    """Prints the table and the shares beside it; exits 1 if a requirement is missed."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--pair", type=Path, default=PAIR)
    parser.add_argument("--continuations", type=Path, default=CONTINUATIONS)
    parser.add_argument("--json", action="store_true", help="print the whole report as JSON instead")
    arguments = parser.parse_args()
    report = evaluate(arguments.pair, load_file(arguments.continuations)["input_ids"].long())
    if arguments.json:
        print(json.dumps(report, indent=2))
    else:
        print(table(report))
        print(f"\n{report['continuations']} continuations, {report['repeated_12_grams']:.2%} of their 12-grams repeat.")
        for name, drafter in report["drafters"].items():
            rows, coverage = drafter["cases"][0]["rows"], drafter["vocabulary_coverage"]
            print(
                f"Drafter {name.upper()}: {rows} rows per step, {coverage:.1%} of the target's choices are in its vocabulary, "
                f"right recipe {drafter['ratio_to_other_recipe']} times the other's."
            )
    missed = shortfalls(report)
    if missed:
        sys.exit("\n".join(missed))


if __name__ == "__main__":
    main()
