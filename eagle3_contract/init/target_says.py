"""What the target says after each token of a sample, from the last states that the sample stores.

Legend: T tokens, G target hidden size, DV draft vocabulary.
"""

from __future__ import annotations

import torch
from torch import Tensor

from contract.errors import UserError
from contract.files.torch_tensors import load_rows, load_tensor
from eagle3_contract.check.open_target import text_part
from eagle3_contract.drafter.norms import rms_norm
from eagle3_contract.init.probe import Says
from eagle3_contract.init.stored_states import Slot
from eagle3_contract.init.target import OpenTarget
from eagle3_contract.model.states import FINAL_NORM
from eagle3_contract.trainers.sample import TrainingSample
from eagle3_contract.verify.target_tokens import RMS_FAMILIES


def target_says(target: OpenTarget | None, last: Slot | None, layers: int | None) -> Says | None:
    """A reader of the target's log probabilities over the draft vocabulary; None unless the last state was measured to be the target's,
    before or after its final norm, and the family's head is a plain one."""
    if target is None or last is None or last.state not in (layers, FINAL_NORM) or last.state is None:
        return None
    text = text_part(target.config.config)
    head, norm, eps = target.head, target.final_norm, text.get("rms_norm_eps")
    if head is None or norm is None or not isinstance(eps, float) or text.get("model_type") not in RMS_FAMILIES:
        return None
    norm_G: Tensor | None = None if last.state == FINAL_NORM else load_tensor(norm).float()
    held: dict[int, Tensor] = {}

    def says(sample: TrainingSample, ids_D: Tensor) -> Tensor:
        if len(ids_D) not in held:
            held[len(ids_D)] = load_rows(head, ids_D.tolist()).float()
        assert sample.last_TG is not None  # the layout has a last state
        x_TG = sample.last_TG.float()
        x_TG = x_TG if norm_G is None else rms_norm(x_TG, norm_G, eps)
        return torch.log_softmax(x_TG @ held[len(ids_D)].T, dim=-1)

    try:
        load_rows(head, [0])
    except UserError:
        return None
    return says
