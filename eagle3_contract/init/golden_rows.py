"""Golden rows from the first sample, so that a later change of the contract's wiring shows. Made by the tool: a regression test, no proof.

Legend: T tokens, L embedding rows.
"""

from __future__ import annotations

from pathlib import Path
from typing import Final

import torch

from eagle3_contract.drafter.drafter import Drafter
from eagle3_contract.drafter.forward import teacher_forced
from eagle3_contract.drafter.weights import WeightSource
from eagle3_contract.model.wiring import Owner, Reading
from eagle3_contract.trainers.sample import TrainingSample
from eagle3_contract.verify.golden import write_golden

TOKENS: Final = 24
STEPS: Final = 3
"""What is fed back shows from step 1 on, and again in step 2."""
SMALLEST: Final = 5


def write_rows(
    path: Path, reading: Reading, sample: TrainingSample, picked: tuple[int, ...], source: WeightSource, target: WeightSource | None
) -> bool:
    """Run the drafter over the first tokens of a sample and write inputs, logits of three steps, and the embedding rows it took from the
    target. False if the sample is too short, or the head is the target's, which golden rows do not hold.

    Raises:
        UserError: the drafter does not run, or the place cannot be written.
    """
    if sample.tokens < SMALLEST or reading.wiring.lm_head in (Owner.TARGET, Owner.TIED_TO_TARGET):
        return False
    drafter = Drafter(reading.wiring, source, target_source=target)
    ids_T = sample.input_ids_T[:TOKENS]
    documents_T = None if sample.document_ids_T is None else sample.document_ids_T[:TOKENS]
    fed_TC = sample.fc_input(picked)[:TOKENS].to(torch.float32).contiguous()
    output = teacher_forced(drafter, ids_T, fed_TC, document_ids_T=documents_T, steps=STEPS, rollout=reading.rollout)
    embedding_ids_L = embedding_rows = None
    if reading.wiring.embedding is Owner.TARGET:
        needed = [ids_T, *(drafter.target_ids[z[z.isfinite().all(1)].argmax(-1)] for z in output.logits_steps)]
        embedding_ids_L = torch.unique(torch.cat(needed))
        embedding_rows = drafter.weights.embedding.rows(embedding_ids_L)
    path.parent.mkdir(parents=True, exist_ok=True)
    write_golden(
        path,
        input_ids_T=ids_T.contiguous(),
        hidden_states_TC=fed_TC,
        logits_steps=output.logits_steps,
        embedding_ids_L=embedding_ids_L,
        embedding_rows_LH=embedding_rows,
        document_ids_T=documents_T,
    )
    return True
