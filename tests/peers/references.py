"""Every trainer's reference, brought to the alignment of ``contract draft``: unshifted inputs, row t = (g[t], x[t+1])."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path

import torch
from safetensors.torch import load_file
from torch import Tensor

from eagle3_contract.drafter.weights import MemorySource
from eagle3_contract.model.wiring import Feedback, NormBeforeFc, Owner, Rope, Wiring

DATA = Path(__file__).parent / "data"
STEPS = 3

PLAIN = Wiring(
    hidden_size=64,
    target_hidden_size=64,
    states=3,
    layers=1,
    heads=4,
    kv_heads=2,
    head_dim=16,
    intermediate_size=128,
    draft_vocab_size=128,
    target_vocab_size=512,
    rms_norm_eps=1e-5,
    hidden_act="silu",
    rope=Rope(type="default", theta=10000.0),
    embedding=Owner.TARGET,
)
"""Plain EAGLE-3 (SpecForge classic, EAGLE) at the sizes of the references."""


@dataclass(frozen=True)
class Reference:
    """``expected_steps[s]`` [T-1, DV] and ``layer_out_steps[s]`` [T-1, H] (where saved), NaN on rows that the reference does not
    define."""

    name: str
    wiring: Wiring
    tensors: dict[str, Tensor]
    input_ids: Tensor
    hidden_states: Tensor
    expected_steps: list[Tensor]
    position_ids: Tensor | None = None
    document_ids: Tensor | None = None
    layer_input_steps: list[Tensor] | None = None
    layer_out_steps: tuple[Tensor, ...] = ()


def target_source() -> MemorySource:
    return MemorySource(load_file(DATA / "target_tiny" / "model-00001-of-00008.safetensors"), "target")


def _alive(logits_RV: Tensor, live: int) -> Tensor:
    out = torch.full_like(logits_RV, float("nan"))
    out[:live] = logits_RV[:live]
    return out


def _unpack(shifted_R: Tensor, documents_R: Tensor, before: float | None, after: float | None) -> Tensor:
    """Each document's rows with one entry put before (tokens) or after (states) them; padding rows dropped."""
    parts = []
    for document in documents_R.unique_consecutive().tolist():
        if document != -1:
            rows = shifted_R[documents_R == document]
            filler = torch.full_like(rows[:1], before if before is not None else after or 0)
            parts.append(torch.cat([filler, rows] if before is not None else [rows, filler]))
    parts.append(torch.full_like(shifted_R[:2], 0))
    return torch.cat(parts)


def _speculators(name: str, wiring: Wiring) -> Reference:
    folder = DATA / "speculators-0.9.0" / name
    r = {k: v[0] for k, v in load_file(folder / "reference.safetensors").items() if v.ndim > 0}
    docs = r["document_ids"]
    ids = _unpack(r["input_ids"], docs, before=0, after=None)
    # The state of each document's last token pairs with no token: NaN proves that it is not used.
    states = _unpack(r["hidden_states"], docs, before=None, after=float("nan"))
    positions = _unpack(r["position_ids"], docs, before=None, after=99)
    kept = [d for d in docs.unique_consecutive().tolist() if d != -1]
    unpacked_docs = torch.cat([torch.full((int((docs == d).sum()) + 1,), d) for d in kept] + [torch.full((2,), -1)])
    expected, layer_inputs = [], []
    for step in range(STEPS):
        for found, key in ((expected, f"logits_step{step}"), (layer_inputs, f"layer0_input_step{step}")):
            rows = [_alive(torch.cat([r[key][docs == d], r[key][:1]]), int((docs == d).sum()) - step) for d in kept]
            found.append(torch.cat([*rows, torch.full_like(r[key][:1], float("nan"))]))
    return Reference(
        f"speculators {name}",
        wiring,
        load_file(folder / "model.safetensors"),
        ids,
        states,
        expected,
        positions,
        unpacked_docs,
        layer_inputs,
    )


def speculators_classic() -> Reference:
    return _speculators("eagle3_classic", replace(PLAIN, embedding=Owner.OWN, norm_before_residual=True))


def speculators_default() -> Reference:
    wiring = replace(
        PLAIN,
        embedding=Owner.OWN,
        norm_before_residual=True,
        norms_before_fc=(NormBeforeFc.INPUT_NORM,),
        feedback=Feedback.POST_NORM,
        window=2048,
        window_follows_steps=False,
    )
    return _speculators("default_0.9.0", wiring)


def _one_sequence(
    name: str,
    wiring: Wiring,
    tensors: dict[str, Tensor],
    ids: Tensor,
    states: Tensor,
    saved: dict[str, Tensor],
    outs: str = "",
    roll: int = 0,
) -> Reference:
    """``saved`` holds this sequence's rows only, ``outs`` is the saved name of the layer's output. At step s the reference's row j is
    our row j - s * roll."""
    tokens = ids.shape[0]

    def steps(prefix: str) -> list[Tensor]:
        found = [saved[f"{prefix}_step{s}"] for s in range(STEPS) if f"{prefix}_step{s}" in saved]
        rows = [_alive(value[roll * s :], tokens - 1 - s) for s, value in enumerate(found)]
        return [torch.cat([e, e.new_full((tokens, e.shape[1]), float("nan"))])[: tokens - 1] for e in rows]

    return Reference(name, wiring, tensors, ids, states, steps("logits"), layer_out_steps=tuple(steps(outs)))


def _row(tensors: dict[str, Tensor], row: int) -> dict[str, Tensor]:
    return {name: value[row] for name, value in tensors.items()}


def _specforge(name: str, wiring: Wiring, row: int) -> Reference:
    folder = DATA / "specforge-0.2.0" / name
    r = _row(load_file(folder / "reference.safetensors"), row)
    tensors = torch.load(folder / "run-step1" / "training_state.pt", weights_only=True)["draft_state_dict"]
    ids = torch.cat([torch.zeros(1, dtype=torch.int64), r["in.input_ids"][:-1]])
    return _one_sequence(f"SpecForge {name} row {row}", wiring, tensors, ids, r["in.hidden_state"], r, "midlayer_out_hidden")


def _eagle_tensors() -> dict[str, Tensor]:
    return torch.load(DATA / "eagle-official" / "ckpt" / "pytorch_model.bin", weights_only=True)


def _eagle_train(row: int) -> Reference:
    r = _row(load_file(DATA / "eagle-official" / "ref_train.safetensors"), row)
    ids, states = r["in.input_ids_raw"], r["aux_hidden_states"]
    return _one_sequence(f"EAGLE training row {row}", PLAIN, _eagle_tensors(), ids, states, r, "midlayer_out_hidden")


def eagle_infer() -> Reference:
    r = _row(load_file(DATA / "eagle-official" / "ref_infer.safetensors"), 0)
    ids = torch.cat([torch.zeros(1, dtype=torch.int64), r["input_ids"][:-1]])
    saved = {"logits_step0": r["logits"], "hidden_out_step0": r["hidden_out"]}
    return _one_sequence("EAGLE inference", PLAIN, _eagle_tensors(), ids, r["aux"], saved, "hidden_out")


def modelopt() -> Reference:
    folder = DATA / "modelopt-0.47.0"
    r = _row(load_file(folder / "ref_offline.safetensors"), 0)
    tensors = load_file(folder / "export_offline" / "model.safetensors")
    wiring = replace(PLAIN, double_norm=True)
    return _one_sequence("ModelOpt", wiring, tensors, r["in.input_ids"], r["in.aux_hidden_states"], r, "eagle_out_prenorm", roll=1)


def angelslim() -> Reference:
    r = _row(load_file(DATA / "angelslim-0.5.0" / "ref.safetensors"), 0)
    tensors = load_file(DATA / "angelslim-0.5.0" / "ckpt_full" / "model.safetensors")
    wiring = replace(PLAIN, embedding=Owner.OWN)
    return _one_sequence("AngelSlim", wiring, tensors, r["in.input_ids"], r["in.hidden_states"], r, "midlayer_out_hidden")


REFERENCES: dict[str, Callable[[], Reference]] = {
    "speculators-classic": speculators_classic,
    "speculators-default": speculators_default,
    "specforge-classic-0": lambda: _specforge("classic", PLAIN, 0),
    "specforge-classic-1": lambda: _specforge("classic", PLAIN, 1),
    "specforge-norm-output-false-0": lambda: _specforge("norm_output_false", replace(PLAIN, final_norm=False), 0),
    "specforge-norm-output-false-1": lambda: _specforge("norm_output_false", replace(PLAIN, final_norm=False), 1),
    "eagle-train-0": lambda: _eagle_train(0),
    "eagle-train-1": lambda: _eagle_train(1),
    "eagle-infer": eagle_infer,
    "modelopt": modelopt,
    "angelslim": angelslim,
}
