"""What a config says besides the wiring, what every trainer does alike, and what no trainer records."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from contract.findings import Json
from eagle3_contract.init.ledger import Ledger
from eagle3_contract.init.samples import Scan
from eagle3_contract.init.target import OpenTarget, target_dtype
from eagle3_contract.model.view import DrafterView

_MODALITIES: Final = {"LLM": "text", "VLM": "vision", "Audio": "audio", "TTS": "audio"}
"""AngelSlim 0.5.0's modal_type."""
_NO_TARGET: Final = "no --target was given"
_NEVER: Final[Mapping[str, str]] = {
    "target.id": "no file names the target",
    "target.revision": "no file names the target's commit",
    "target.model_type": _NO_TARGET,
    "target.layers": _NO_TARGET,
    "target.quantization": _NO_TARGET,
    "target.tokenizer_sha256": _NO_TARGET,
    "target.fingerprint": _NO_TARGET,
    "target.dtype": "neither samples nor target were given",
    "vocab.target_padded_size": "no --target with weights was given",
    "training.commit": "no trainer records its own commit",
    "training.max_length": "no run config was found that says it",
    "training.data.chat_template_sha256": "no trainer records the template it used",
    "training.data.thinking": "no trainer records it",
    "training.data.modality": "no file says it",
    "training.metrics.accuracy": "no machine-readable log was found",
    "serving.steps": "no file says it",
    "serving.topk": "no file says it",
    "serving.draft_tokens": "no file says it",
    "acceptance.aggregation": "not stated yet",
    "acceptance.counts_bonus": "not stated yet",
    "acceptance.counts_prefill": "not stated yet",
    "acceptance.k": "not stated yet",
    "acceptance.temperature": "not stated yet",
    "acceptance.floor": "not stated yet",
}


def state_config(ledger: Ledger, view: DrafterView) -> None:
    """State what config.json says of target, data and serving."""
    speculators = view.section("speculators_config")
    verifier = speculators.get("verifier")
    name = verifier.get("name_or_path") if isinstance(verifier, Mapping) else None
    if isinstance(name, str) and name:
        ledger.fill("target.id", name, "config", "speculators_config.verifier.name_or_path")
    steps = _proposed(speculators.get("proposal_methods"))
    if steps is not None:
        ledger.fill("serving.steps", steps, "config", "speculators_config.proposal_methods[0].speculative_tokens")
    modality = view.config.get("modal_type")
    if isinstance(modality, str) and modality in _MODALITIES:
        ledger.fill("training.data.modality", _MODALITIES[modality], "config", "modal_type")
    if not any(key.endswith("vision_config") for key in view.config):
        ledger.fill("hidden_states.point", "residual", "code_rule", "every trainer read takes the whole residual stream")


def state_dtype(ledger: Ledger, scan: Scan | None, target: OpenTarget | None, *, ran: bool) -> None:
    """State in which dtype the target ran: that of the stored states, if the target's own is not another one.

    Args:
        ran: whether the stored states were found to be the target's own.
    """
    stored = None if scan is None or scan.layout is None else scan.layout.dtype
    declared = None if target is None else target_dtype(target)
    if stored is None:
        if declared is not None:
            ledger.fill("target.dtype", declared, "assumed", "dtype of the target's config; no states are at hand that would show it")
        return
    if declared is None:
        ledger.fill("target.dtype", stored, "assumed", "dtype of the stored states; a dump may have been cast")
    elif declared == stored:
        ledger.fill("target.dtype", stored, "measured" if ran else "config", "dtype of the stored states and of the target")
    else:
        reason = f"the states are stored in {stored}, and the target's config says {declared}: one of the two was cast"
        ledger.leave_open("target.dtype", reason)


def state_rest(ledger: Ledger, view: DrafterView) -> None:
    """Everything that is still unstated gets its reason."""
    table = view.shape("embed_tokens.weight")
    if table is not None:
        ledger.fill("vocab.target_padded_size", table[0], "assumed", "rows of the drafter's own embed_tokens.weight")
    for path, reason in _NEVER.items():
        ledger.leave_open(path, reason)


def _proposed(methods: Json) -> int | None:
    first = methods[0] if isinstance(methods, list) and methods else None
    steps = first.get("speculative_tokens") if isinstance(first, Mapping) else None
    return steps if isinstance(steps, int) and not isinstance(steps, bool) and steps > 0 else None
