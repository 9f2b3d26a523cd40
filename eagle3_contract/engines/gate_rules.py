"""The rules of the start-up gate: what a running engine holds, against the contract beside its drafter."""

from __future__ import annotations

from typing import Final

from contract.findings import Depth, Rule, Severity

VARIABLE: Final = "EAGLE3_CONTRACT_GATE"
"""The environment variable that switches the gate on: ``warn`` or ``refuse``."""


def _rule(name: str, title: str, dimension: str, why: str, remedy: str) -> Rule:
    return Rule(id=f"gate.{name}", title=title, severity=Severity.ERROR, dimension=dimension, why=why, remedy=remedy, depth=Depth.CHECK)


MODE: Final = _rule(
    "mode",
    f"{VARIABLE} is warn or refuse",
    "tool",
    "A gate that was meant to be on and is off by a slip of the pen lets everything through.",
    f"Set {VARIABLE} to warn or to refuse, or unset it.",
)
REFUSED: Final = _rule(
    "refused",
    "The engine serves the drafter as its contract says",
    "tool",
    "The gate was told to refuse: serving with another recipe, wiring or weights than training's loses the acceptance, and nothing else "
    "would show it.",
    f"Mend what the report lists; with {VARIABLE}=warn the engine starts all the same.",
)
CONTRACT: Final = _rule(
    "contract",
    "contract.yaml lies beside the drafter and is about it",
    "contract",
    "Without a contract nothing says what training did, so that nothing can be compared.",
    "Commit contract.yaml in the drafter's folder (`contract init`), with drafter.path `.`; `contract export` copies it.",
)
READING: Final = _rule(
    "reading",
    "What this version of the engine does with a drafter is in the tables",
    "engine",
    "Layer ids, tensors and the vocab map are compared as they are; norms, rope and feedback of a version that nobody read are not known.",
    "Serve with a version that `contract doctor` lists, or verify this one with a live capture (`contract verify --engine`).",
)
LAYER_IDS: Final = _rule(
    "layer-ids",
    "The running target captures the states of the recipe",
    "recipe",
    "The ids of config.json are not what counts: vLLM 0.32.0 sorts them and drops repeated ones (models/interfaces.py:1578), SGLang 0.5.23 "
    "adds one or does not (models/llama.py:929-941, deepseek_v2.py:3458-3473), and both take defaults where they look for another key.",
    "Write the ids that this engine reads (`contract export`), or retrain on the states that it captures.",
)
LAYERS: Final = _rule(
    "layers",
    "The running target has as many layers as the contract's",
    "pairing",
    "A boundary of another target is another state.",
    "Serve the target that the contract names.",
)
TENSORS: Final = _rule(
    "tensors",
    "Every tensor that training used is in the engine's memory, with the values of the checkpoint",
    "weights",
    "Neither engine notices what it did not load (vLLM 0.32.0 llama_eagle3.py:467, SGLang 0.5.23 model_loader/loader.py:1033-1063): a name "
    "it skips, a second file that wins, a cut or a fused order leave no trace but the acceptance.",
    "Export the checkpoint in the names and shapes of this engine (`contract export`), with one weight file for each tensor.",
)
LEFT: Final = _rule(
    "left-at-init",
    "The engine runs on no parameter that no file filled",
    "weights",
    "A parameter without a tensor keeps what the engine built it with: ones, a random init or uninitialised memory, silently.",
    "Store the tensor, or switch off the flag that makes the engine build the parameter.",
)
SHARED: Final = _rule(
    "shared",
    "The engine takes embedding and head from where training took them",
    "weights",
    "SGLang always takes the target's embedding unless the widths differ (SGLang 0.5.23 eagle_worker_v2.py:363); vLLM takes the target's "
    "first rows for a head that is missing (vLLM 0.32.0 llm_base_proposer.py:1484-1550).",
    "Store the tensor that training used, or serve with an engine that shares as training did.",
)
VOCAB: Final = _rule(
    "vocab-map",
    "Every draft id stands for the target token that it had in training",
    "vocab",
    "Every engine adds the draft id to d2t, whatever was stored; without d2t draft ids are target ids.",
    "Store d2t as offsets (target = i + d2t[i]); `contract export` converts it.",
)
RULES: Final = (MODE, REFUSED, CONTRACT, READING, LAYER_IDS, LAYERS, TENSORS, LEFT, SHARED, VOCAB)
