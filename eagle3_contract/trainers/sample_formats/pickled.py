"""The pickle-based dumps: a dict of tensors each, told apart by their keys.

The same names mean different things: SpecForge's ``hidden_state`` is the target's last state, speculators' early one is the fc input;
ModelOpt's and AngelSlim's ``hidden_states`` are the last state and the fc input.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final, TypeAlias

from torch import Tensor

from contract.files.names import shown
from contract.files.pickled import Tree
from contract.files.tensors import TensorRef
from contract.files.torch_tensors import load_tensor
from eagle3_contract.model.states import FINAL_NORM
from eagle3_contract.trainers.sample import TrainingSample, mask_row, rejected, require_states, split_states, state_rows, token_row

Record: TypeAlias = Mapping[str, Tree]

_EXTRAS: Final = ("last_hidden_prenorm", "target_argmax")


def read_record(tree: Tree, *, name: str, file: str) -> TrainingSample:
    """The sample in a loaded pickle.

    Raises:
        SampleRejected: no known set of keys, or tensors that contradict each other.
    """
    if not isinstance(tree, dict) or not all(isinstance(key, str) for key in tree):
        raise rejected("unknown-format", f"holds a {type(tree).__name__}, not a record of named tensors", file, _FIX)
    for keys, layout in _LAYOUTS:
        if keys <= tree.keys() and ("hidden_states" not in keys or isinstance(tree["hidden_states"], list) is (layout is _list_of_states)):
            return layout(tree, name, file)
    raise rejected("unknown-format", f"the keys {', '.join(sorted(map(shown, tree)))[:300] or '(none)'} are no trainer's", file, _FIX)


def _list_of_states(tree: Record, name: str, file: str) -> TrainingSample:
    """speculators 0.2 to 0.4: ``hidden_states`` [K+1 x [T, G]], the last one last (0.3.0 train/data.py:111-129: fc gets list[:-1]).

    With a ``last_hidden_state`` beside it, the whole list are states, and that is the last one.
    """
    ids, mask = _tokens(tree, file)
    listed = tree["hidden_states"]
    if len(listed) < 2:
        raise rejected("shape", f"hidden_states lists {len(listed)} states; at least one and the last one are due", file)
    require_states(len(listed), "hidden_states", file)
    states = tuple(state_rows(_tensor(s, f"hidden_states[{i}]", file), f"hidden_states[{i}]", len(ids), file) for i, s in enumerate(listed))
    if len({s.shape[1] for s in states}) > 1:
        raise rejected("shape", f"the states are {', '.join(str(s.shape[1]) for s in states)} wide; all are of one target", file)
    own = _rows(tree, "last_hidden_state", len(ids), file) if "last_hidden_state" in tree else None
    if own is not None and own.shape[1] != states[0].shape[1]:
        raise rejected("shape", f"last_hidden_state is {own.shape[1]} wide, the states are {states[0].shape[1]}", file)
    extras = {key: _tensor(tree[key], key, file) for key in _EXTRAS if key in tree}
    return TrainingSample(
        name=name,
        file=file,
        format="speculators.list_of_states",
        input_ids_T=ids,
        loss_mask_T=mask,
        states_THk=states if own is not None else states[:-1],
        last_TG=own if own is not None else states[-1],
        extras=extras,
    )


def _fused(layout: str, fed: str, last: str, *, normed: bool) -> Callable[[Record, str, str], TrainingSample]:
    """A record with the fc input under one key and the last state under another."""

    def read(tree: Record, name: str, file: str) -> TrainingSample:
        ids, mask = _tokens(tree, file)
        last_rows = _rows(tree, last, len(ids), file)
        fused = _rows(tree, fed, len(ids), file)
        return TrainingSample(
            name=name,
            file=file,
            format=layout,
            input_ids_T=ids,
            loss_mask_T=mask,
            states_THk=split_states(fused, last_rows.shape[1], fed, file),
            last_TG=last_rows,
            last=FINAL_NORM if normed else None,
        )

    return read


_LAYOUTS: Final = (
    # SpecForge 0.2.0 algorithms/eagle3/data.py:10-27; the stored last state is normed (offline_capture/sglang_backend/utils.py:85-91).
    (frozenset({"aux_hidden_state", "hidden_state"}), _fused("specforge", "aux_hidden_state", "hidden_state", normed=True)),
    # ModelOpt 0.47.0: Hugging Face and TensorRT-LLM norm the last state, vLLM does not, and the file does not say.
    (frozenset({"aux_hidden_states", "hidden_states"}), _fused("modelopt", "aux_hidden_states", "hidden_states", normed=False)),
    # AngelSlim 0.5.0 offline_dataset_builder.py:124-129; transformers' hidden_states[-1] is normed (target_model_wrapper.py:801).
    (frozenset({"target_hiddens", "hidden_states"}), _fused("angelslim", "hidden_states", "target_hiddens", normed=True)),
    # speculators' first layout ("v0", 0.3.0 train/data.py:75-110).
    (frozenset({"hidden_state", "target"}), _fused("speculators.v0", "hidden_state", "target", normed=False)),
    (frozenset({"hidden_states"}), _list_of_states),
)
_FIX: Final = "Name samples of speculators, SpecForge, ModelOpt or AngelSlim, or convert them (docs/sample-format.md)."


def _tokens(tree: Record, file: str) -> tuple[Tensor, Tensor | None]:
    if "input_ids" not in tree:
        raise rejected("unknown-format", "has no input_ids", file, _FIX)
    ids = token_row(_tensor(tree["input_ids"], "input_ids", file), "input_ids", file)
    mask = tree.get("loss_mask")
    return ids, None if mask is None else mask_row(_tensor(mask, "loss_mask", file), "loss_mask", len(ids), file)


def _rows(tree: Record, key: str, tokens: int, file: str) -> Tensor:
    return state_rows(_tensor(tree[key], key, file), key, tokens, file)


def _tensor(value: Tree, key: str, file: str) -> Tensor:
    if not isinstance(value, TensorRef):
        raise rejected("dtype", f"{key} is a {type(value).__name__}, not a tensor", file)
    return load_tensor(value)
