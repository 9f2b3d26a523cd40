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
    ("unknown", "The engine is one that this tool can run",
     "A reading is a prediction; only a running engine shows what is really fed.",
     "Name transformers, vllm or sglang; let transformers imitate another engine's reading (--imitate)."),
    ("not-installed", "The engine can be imported by the interpreter that is to run it",
     "A live capture runs the engine itself.",
     "Install the engine, or name the interpreter of the environment that has it with --engine-python."),
    ("version", "The installed engine is the version that was asked for, and one whose hook points are known",
     "Hooks are placed on functions and modules that change between releases; on another release they may record something else.",
     "Install the version, or name the installed one; `contract doctor` lists versions and hook points."),
    ("options", "Options and flags mean something to the engine they are given for",
     "An option that is ignored in silence gives another capture than the one that was asked for.",
     "Leave the option out, or name an engine that knows it."),
    ("failed", "The engine ran to its end",
     "A capture of a run that broke off is no evidence.",
     "Read the engine's log, which is kept."),
    ("timeout", "The engine finishes within the time limit",
     "An engine that hangs would hold its memory and its devices for ever.",
     "Run fewer or shorter prompts; the limit is engine_seconds."),
    ("recipe-unknown", "What the engine makes of the drafter's files is known, and it is what it was seen to feed",
     "The states in the capture have to be named before they are compared; what a running engine had set is in its own numbering.",
     "See `contract read --engine` for what is not known, and report it if the engine runs the drafter all the same."),
    ("spool-read", "What the hooks wrote can be read: whole events of known kinds, with the tensors of their kind",
     "An event that means something else than it says would become a state that nobody fed.",
     "Capture again with the version that reads it."),
    ("spool-order", "Events of a request come in the order in which engines run: prompt, rows of the target, round by round",
     "Rows are put into their places by this order.",
     "Report the engine, its version and flags: its hooks do not see all that it does."),
    ("spool-row", "Every token that the target ran has one row, without a gap, and with one value",
     "A row that is missing or that has two values cannot be compared, and one put into another's place is a difference that is not there.",
     "Report the engine, its version and flags: its hooks do not see all that it does."),
    ("spool-tokens", "Every output token is explained by a forward of the target that was recorded",
     "A token without a forward is a row that the hooks did not see.",
     "Report the engine, its version and flags: its hooks do not see all that it does."),
    ("spool-full", "The recording fits its limit",
     "What came after the limit was reached was not recorded.",
     "Run fewer or shorter prompts; the limit is capture_bytes."),
    ("spool-end", "The recording was ended by the engine's own end",
     "A recording without an end was cut off, and requests or rows may be missing.",
     "Capture again."),
    ("shards", "How the ranks of a parallel engine share a state can be told: copies, column shards or partial sums",
     "A partial sum taken for a state, or shards joined in another order, is a state that no rank ever fed.",
     "Capture with tensor parallelism of 1, or record the full state, too."),
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


def rejected(rule: str, message: str, *, fix: str | None = None) -> InputRejected:
    """What the engine was given is unusable."""
    return InputRejected(message, rule=rule, fix=fix or RULES[rule].remedy)
