"""The rules that running the drafter can break; needs no torch."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from contract.findings import Depth, Rule, Severity

# fmt: off
_TABLE: Final[tuple[tuple[str, str, str, str, str], ...]] = (
    # id after "drafter.", dimension, title (true when all is well), why, remedy
    ("missing-tensor", "weights", "Every tensor that the wiring uses is there",
     "vLLM 0.32.0 and SGLang 0.5.23 do not notice a missing tensor: it stays uninitialised memory, random, or ones. The text stays "
     "right, acceptance collapses.",
     "Export the drafter again with these tensors, or correct the wiring if training ran without them."),
    ("tensor-shape", "shapes", "Every tensor has the shape that the wiring's sizes ask for",
     "Engines cut or pad some tensors silently (SGLang 0.5.23 cuts q/k/v/o and the MLP on the CPU), others fail at start.",
     "Correct the sizes in the configuration or the contract, or export the drafter again."),
    ("tensor-dtype", "dtype", "Weights are float32, float16 or bfloat16, and the vocab map is integers",
     "A quantised weight means nothing without its scales, and a rounded map points at other tokens.",
     "Give a checkpoint with plain weights; dequantise it first if need be."),
    ("two-names-one-tensor", "keys", "No two names of a checkpoint stand for the same tensor",
     "midlayer. and layers.0., with or without model., are one tensor to an engine; which copy wins depends on the order of loading.",
     "Remove one of the two."),
    ("target-needed", "weights", "The target is given where the wiring takes its embedding or head",
     "SGLang 0.5.23 always replaces the drafter's embedding by the target's; several trainers do not store one at all.",
     "Give the folder of the target (--target DIR)."),
    ("token-out-of-range", "vocab", "Every token id has a row in the embedding",
     "Tokens of another tokenizer, or an absolute vocab map read as offsets, lead outside of the table.",
     "Check that the tokens belong to this target, and how the vocab map is read."),
    ("vocab-map", "vocab", "d2t has one entry for each row of the head and leads into the target vocabulary",
     "An absolute map read as offsets fails on a CPU and gives garbage on a GPU; one that is too short fails at some later token.",
     "Check whether d2t holds offsets or absolute ids, and that it belongs to this target."),
    ("wiring", "wiring", "The wiring does not contradict itself",
     "No forward can follow it, so some part of it was read wrongly.",
     "Correct the wiring in the contract, or the configuration that it was read from."),
    ("rope-unsupported", "rope", "The rope type is one that drafters have",
     "Another rotation gives other logits on every row but the first.",
     "Correct the rope type."),
    ("rope-parameters", "rope", "The rope parameters are those of the type, complete and sensible",
     "A parameter under another name is ignored by one reader and used by the next.",
     "Correct the rope parameters."),
    ("hidden-act", "wiring", "The activation is one that drafters have",
     "Another activation gives other logits.",
     "Correct hidden_act."),
    ("dtype", "dtype", "The forward runs in float32, bfloat16 or float16",
     "No engine runs a drafter in another dtype.",
     "Choose one of the three."),
    ("device", "engine", "The device that was asked for is there",
     "A silent fall-back to another device would measure something else.",
     "Choose cpu, or install a build of torch that fits the machine."),
    ("steps", "flags", "The number of steps is one that can be drafted",
     "Trainers unroll at most 7 steps, engines draft at most about 16.",
     "Ask for at least one step, and no more than the drafter is served with."),
    ("not-prefilled", "flags", "A request is prefilled before it drafts",
     "The first proposal comes from the last row of the prompt.",
     "Prefill with the prompt's tokens and states first."),
    ("input-names", "files", "An inputs file holds input_ids and hidden_states, at most position_ids and document_ids beside them",
     "A misspelt optional tensor would be ignored, and the result would be that of other inputs.",
     "Write these names and no others."),
    ("input-shape", "alignment", "Ids, states, positions and documents are unshifted, of one length, in their dtypes",
     "Row t of ids and of states belongs to token t; inputs shifted by one pair every state with the wrong token.",
     "Give unshifted inputs, the states side by side in the order fed."),
    ("position-range", "alignment", "Rotary positions are not negative, and exact in float32",
     "Every engine multiplies positions in float32; beyond 2**24 neighbours share one.",
     "Give the rotary position of each row, from 0 on."),
    ("document-ids", "alignment", "Each packed document is one run of tokens with an id of its own",
     "Documents do not see each other; a document in two parts would lose its past.",
     "Number each document's run with one id, and padding with -1."),
    ("not-finite", "weights", "States and logits are finite",
     "NaN marks a row that has no token to be fed, and must mean nothing else; one NaN in a weight spreads to every row.",
     "Look for NaN in weights and captured states (contract check --integrity values)."),
)
# fmt: on

RULES: Final[Mapping[str, Rule]] = {
    f"drafter.{name}": Rule(
        id=f"drafter.{name}",
        title=title,
        severity=Severity.ERROR,
        dimension=dimension,
        why=why,
        remedy=remedy,
        depth=Depth.VERIFY,
    )
    for name, dimension, title, why, remedy in _TABLE
}
"""Every rule about running the drafter by id."""
