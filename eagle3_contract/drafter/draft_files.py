"""``contract draft`` on files: captured states in, logits out, both safetensors.

In: ``input_ids`` [T] int64, ``hidden_states`` [T, C] float (what reaches fc, never re-ordered), optional ``position_ids`` [T] int64 and
``document_ids`` [T] int64 (-1 = padding). Both are unshifted: row t of both belongs to token t.
Out: ``logits_step0`` ... ``logits_step{N-1}`` [T-1, DV] float32; NaN where a row has no token to be fed.
Legend: T tokens, C = K*G width of what reaches fc, DV draft vocabulary.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Final

from torch import Tensor

from contract.errors import InputRejected, UsageError
from contract.files.atomic import atomic_writer
from contract.files.checkpoint import Checkpoint
from contract.files.tensors import TensorRef
from contract.files.torch_tensors import load_tensor
from contract.files.writing import encode_header
from contract.findings import Where
from eagle3_contract.drafter.devices import resolve_device
from eagle3_contract.drafter.drafter import Drafter
from eagle3_contract.drafter.forward import draft_steps
from eagle3_contract.drafter.taps import spread
from eagle3_contract.drafter.weights import WeightSource
from eagle3_contract.model.wiring import Wiring

MAX_STEPS: Final = 64
"""Steps of one call. Trainers unroll at most 7, engines draft at most about 16."""
MAX_POSITION: Final = 2**24
"""Rotary positions below this are exact in float32, the dtype in which every engine multiplies them."""
_NEEDED: Final = ("input_ids", "hidden_states")
_OPTIONAL: Final = ("position_ids", "document_ids")
_STATE_DTYPES: Final = ("F32", "F16", "BF16")


@dataclass(frozen=True, slots=True, kw_only=True)
class DraftInputs:
    """``input_ids`` [T] int64, ``hidden_states`` [T, C] as stored, ``position_ids`` and ``document_ids`` [T] int64 or None."""

    input_ids: Tensor
    hidden_states: Tensor
    position_ids: Tensor | None
    document_ids: Tensor | None


def read_inputs(path: str | Path, width: int) -> DraftInputs:
    """Read and check an inputs file.

    Args:
        path: a safetensors file.
        width: C, what the wiring feeds fc.

    Raises:
        InputRejected: ``files.*`` if the file cannot be read; ``drafter.input-names``, ``drafter.input-shape``,
            ``drafter.position-range``, ``drafter.not-finite``.
    """
    place = Path(path)
    if place.is_dir():
        raise _rejected("input-names", "is a folder, not a safetensors file", place, "Name the inputs file itself.")
    tensors = Checkpoint.open(place).tensors
    lacking = [name for name in _NEEDED if name not in tensors]
    strange = sorted(name for name in tensors if name not in _NEEDED + _OPTIONAL)
    if lacking or strange:
        found = [f"lacks {', '.join(lacking)}"] * bool(lacking) + [f"holds {', '.join(map(repr, strange))}"] * bool(strange)
        names = f"{' and '.join(_NEEDED)}, and at most {' and '.join(_OPTIONAL)} beside them"
        raise _rejected("input-names", " and ".join(found), place, f"Write {names}.")
    tokens = tensors["input_ids"].shape[0] if len(tensors["input_ids"].shape) == 1 else -1
    for name, ref in tensors.items():
        _check_header(place, ref, (tokens, width) if name == "hidden_states" else (tokens,))
    if tokens < 2:
        raise _rejected("input-shape", f"holds {tokens} tokens", place, "Give at least two tokens: a state is paired with the next token.")
    inputs = DraftInputs(
        input_ids=load_tensor(tensors["input_ids"]),
        hidden_states=load_tensor(tensors["hidden_states"]),
        position_ids=load_tensor(tensors["position_ids"]) if "position_ids" in tensors else None,
        document_ids=load_tensor(tensors["document_ids"]) if "document_ids" in tensors else None,
    )
    _check_values(place, inputs)
    return inputs


def draft(
    wiring: Wiring,
    source: WeightSource,
    target_source: WeightSource | None,
    inputs_path: str | Path,
    steps: int,
    output_path: str | Path,
    device: str = "cpu",
) -> None:
    """Run the drafter teacher forced in float32 over an inputs file, and write the logits of every step.

    One step's logits are held at a time; the output appears whole or not at all.

    Raises:
        InputRejected, UsageError, ToolError: as ``Drafter``, ``read_inputs``, ``draft_steps`` and ``resolve_device``; a token id out of
            range is refused even where it would not be fed; ``drafter.not-finite`` if a logit is not finite.
    """
    if not 1 <= steps <= MAX_STEPS:
        raise UsageError(f"{steps} steps cannot be drafted", rule="drafter.steps", fix=f"Ask for 1 to {MAX_STEPS} steps.")
    place = resolve_device(device)
    inputs = read_inputs(inputs_path, wiring.states * wiring.target_hidden_size)
    drafter = Drafter(wiring, source, target_source=target_source, device=place)
    real = inputs.input_ids if inputs.document_ids is None else inputs.input_ids[inputs.document_ids != -1]
    drafter.weights.embedding.check(real)
    rows = inputs.input_ids.shape[0] - 1
    header, _ = encode_header({f"logits_step{s}": ("F32", (rows, wiring.draft_vocab_size)) for s in range(steps)})
    outputs = draft_steps(
        drafter,
        inputs.input_ids,
        inputs.hidden_states,
        position_ids_T=inputs.position_ids,
        document_ids_T=inputs.document_ids,
        steps=steps,
    )
    with atomic_writer(output_path) as file:
        file.write(header)
        for out in outputs:
            if not bool(out.logits.isfinite().all()):
                raise InputRejected(
                    f"logits of step {out.step} are not finite at row {int(out.rows[(~out.logits.isfinite()).any(dim=1)][0])}",
                    rule="drafter.not-finite",
                    fix="Look for NaN or infinity in the drafter's weights (contract check --integrity values).",
                )
            file.write(spread(out.logits, out.rows, rows).cpu().contiguous().numpy().data)


def _check_header(place: Path, ref: TensorRef, shape: tuple[int, ...]) -> None:
    allowed = _STATE_DTYPES if ref.name == "hidden_states" else ("I64",)
    if ref.dtype not in allowed or ref.shape != shape:
        wanted = f"[T, {shape[1]}]" if len(shape) == 2 else "[T]"
        raise _rejected(
            "input-shape",
            f"{ref.name} is {ref.dtype} {list(ref.shape)}, not {' or '.join(allowed)} {wanted} with the T of input_ids",
            place,
            "Give unshifted inputs: row t of ids and states belongs to token t; the states side by side in the order fed.",
        )


def _check_values(place: Path, inputs: DraftInputs) -> None:
    positions, documents = inputs.position_ids, inputs.document_ids
    if positions is not None and not bool(((positions >= 0) & (positions < MAX_POSITION)).all()):
        raise _rejected(
            "position-range",
            f"position_ids reach from {int(positions.min())} to {int(positions.max())}",
            place,
            f"Give rotary positions from 0 to {MAX_POSITION - 1}.",
        )
    finite_T = inputs.hidden_states.isfinite().all(dim=1)
    finite_T[-1:] = True  # the state of a document's last token pairs with no token
    if documents is not None:
        finite_T[:-1] |= documents[:-1] != documents[1:]
        finite_T |= documents == -1
    if not bool(finite_T.all()):
        row = int((~finite_T).nonzero()[0, 0])
        raise _rejected("not-finite", f"hidden_states is not finite at token {row}", place, "Capture the states again.")


def _rejected(rule: str, message: str, place: Path, fix: str) -> InputRejected:
    return InputRejected(f"{place}: {message}", rule=f"drafter.{rule}", fix=fix, where=Where(file=str(place)))
