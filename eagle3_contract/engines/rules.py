"""The rules about running an engine and capturing from it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from contract.errors import InputRejected, ToolError
from contract.findings import Depth, Rule, Severity

# fmt: off
_TABLE: Final[tuple[tuple[str, str, str, str], ...]] = (
    # id after "engine.", title (true when all is well), why, remedy
    ("transformers-installed", "transformers is installed",
     "Without it no target can be run here.",
     "pip install 'eagle3-contract[transformers]'"),
    ("target-load", "The target loads from its folder, whole and without code of its own",
     "A weight that is missing is initialised at random by transformers with no more than a warning, and the capture is then noise.",
     "Give a local folder with config.json and all safetensors of a model that transformers knows by itself."),
    ("target-structure", "Decoder layers, embedding and final norm of the target can be told",
     "A hook on the wrong module captures a state under the wrong number, silently.",
     "Report the model type; until it is known, capture with another engine."),
    ("hooks-complete", "Every decoder layer and the final norm ran once per forward, in order, on one stream",
     "A layer that is skipped or run twice shifts every later boundary.",
     "Switch off what skips or repeats layers (early exit, layer drop, gradient checkpointing)."),
    ("boundaries-repeat", "No two boundaries are equal bit for bit",
     "A target whose layers update the stream in place gives one storage under many names to a capture that does not copy at once "
     "(vLLM and SGLang both had this); each boundary then is the last one.",
     "Look for a capture without a copy. If layers of this target really change nothing, allow repeats."),
    ("prompt", "Prompts are token ids of the target",
     "An id outside of the vocabulary is another text than the one in training.",
     "Tokenize the prompts with the target's own tokenizer."),
    ("recipe", "The states to feed are states of the target",
     "A boundary beyond the last layer does not exist.",
     "Name boundaries from 0 to the number of layers, or final_norm."),
    ("not-run-here", "The engine is one that this tool can run",
     "A reading is a prediction; only a running engine shows what is really fed.",
     "Let transformers imitate the engine's reading (--imitate), or check the reading alone (contract check --engine)."),
    ("imitate", "The engine to imitate would feed its drafter something, and it is clear what",
     "An engine that refuses the drafter, or whose runners feed different states, has no recipe to imitate.",
     "See `contract read`; name one runner, such as vllm[v1]==0.32.0."),
    ("prompts-file", "A prompts file holds one JSON object with token ids on each line",
     "Text would have to be tokenized and templated, and a difference there would look like a difference of the engine.",
     'Write {"id": "p1", "input_ids": [1, 2, 3]} on each line.'),
    ("samples-needed", "There are tokens to run",
     "Without prompts or samples nothing is captured.",
     "Give samples with --samples, or commit them beside the contract."),
    ("target-needed", "A capture has a target to run",
     "The states are the target's.",
     "Give the target's folder with --target."),
    ("device", "The device that was asked for is there",
     "A capture on another device is another capture.",
     "Name a device that torch has, or auto."),
)
# fmt: on

RULES: Final[Mapping[str, Rule]] = {
    f"engine.{name}": Rule(
        id=f"engine.{name}", title=title, severity=Severity.ERROR, dimension="engine", why=why, remedy=remedy, depth=Depth.LIVE
    )
    for name, title, why, remedy in _TABLE
}
"""Every rule about engines by id."""


def tool_error(rule: str, message: str, *, fix: str | None = None) -> ToolError:
    """The engine failed."""
    return ToolError(message, rule=rule, fix=fix or RULES[rule].remedy)


def rejected(rule: str, message: str) -> InputRejected:
    """What the engine was given is unusable."""
    return InputRejected(message, rule=rule, fix=RULES[rule].remedy)
