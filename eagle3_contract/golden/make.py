"""Golden rows from training samples, by this tool's own forward (``produced_by: tool``).

They show a later change of the contract's wiring or of the forward. Made under a wrong contract they are wrong as well, which only samples
(`contract verify --samples`) or rows of the trainer's own forward (docs/stamp.md) can show. Format: docs/golden-format.md.

Legend: T tokens, K states, G target hidden size, DV draft vocabulary, L embedding rows.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Final, Literal

import torch

from contract.errors import InputRejected, UserError
from contract.files.checkpoint import Checkpoint
from contract.files.paths import open_path
from contract.limits import DEFAULT_LIMITS, Limits
from eagle3_contract.drafter.checkpoint_source import CheckpointSource
from eagle3_contract.drafter.drafter import Drafter
from eagle3_contract.drafter.weights import WeightSource
from eagle3_contract.model.load import LoadedContract
from eagle3_contract.model.resolve import resolve
from eagle3_contract.model.wiring import Owner, Reading, Wiring
from eagle3_contract.trainers.sample import TrainingSample
from eagle3_contract.verify.golden import FC_OUT, STATE, write_golden
from eagle3_contract.verify.golden_compare import run_rows
from eagle3_contract.verify.sample_set import layout_problem, open_samples

STEPS: Final = 3
"""What is fed back shows from step 1 on, and again in step 2."""
FEWEST_TOKENS: Final = STEPS + 2
"""So that the last step has a row."""
MOST_TOKENS: Final = 64
BYTES: Final = 8 * 1024 * 1024
"""Size that a golden file is kept to: it is committed beside the drafter, and a row of logits of 32,000 draft tokens takes 128 kB."""


@dataclass(frozen=True, slots=True, kw_only=True)
class GoldenMade:
    """A golden file that was written: where, its digest, from which sample, over how many of its tokens."""

    path: Path
    digest: str
    sample: str
    tokens: int
    steps: int
    produced_by: Literal["tool"] = "tool"


def make_golden(
    loaded: LoadedContract,
    samples: str | Path | None,
    target: str | Path | None,
    out: str | Path,
    *,
    allow_pickle: bool = False,
    limits: Limits = DEFAULT_LIMITS,
) -> GoldenMade:
    """Run the drafter as a contract says over the beginning of its first long enough sample, and write golden rows.

    Args:
        loaded: the contract.
        samples: folder or file of training samples; None takes the contract's own.
        target: folder of the target, for a drafter that uses the target's embedding or head.
        out: the golden file.

    Raises:
        UserError: a statement is unknown, the drafter or the samples cannot be used (``golden.no-sample`` if none is long enough), the
            target is needed and not given, or the place cannot be written.
    """
    reading = resolve(loaded.contract)
    found, _ = open_samples(loaded, None if samples is None else str(samples), reading.recipe, allow_pickle=allow_pickle, limits=limits)
    source = _open(loaded.drafter_folder, limits)
    target_source = None if target is None else _open(Path(target), limits)
    for sample in found.read(limits=limits) if found is not None else ():
        if isinstance(sample, UserError):
            raise sample
        if (
            found is not None
            and sample.tokens >= FEWEST_TOKENS
            and layout_problem(sample, found, reading.wiring.target_hidden_size) is None
        ):
            return make_rows(Path(out), reading, sample, found.picked, source, target_source)
    raise InputRejected(
        f"no sample stores the states of the recipe for {FEWEST_TOKENS} tokens or more",
        rule="golden.no-sample",
        fix="Give training samples with --samples.",
    )


def make_rows(
    out: Path, reading: Reading, sample: TrainingSample, picked: tuple[int, ...], source: WeightSource, target: WeightSource | None
) -> GoldenMade:
    """Golden rows over the beginning of one sample; ``picked`` are the indices of the recipe's states in it.

    Raises:
        UserError: the drafter does not run, the sample is too short (``golden.no-sample``), or the place cannot be written.
    """
    tokens = min(sample.tokens, tokens_for(reading.wiring))
    if tokens < FEWEST_TOKENS:
        raise InputRejected(
            f"{sample.name} has {tokens} tokens; {FEWEST_TOKENS} are needed", rule="golden.no-sample", fix="Give a longer sample."
        )
    drafter = Drafter(reading.wiring, source, target_source=target)
    ids_T = sample.input_ids_T[:tokens].contiguous()
    documents_T = None if sample.document_ids_T is None else sample.document_ids_T[:tokens].contiguous()
    fed_TC = sample.fc_input(picked)[:tokens].contiguous()
    run = run_rows(drafter, ids_T, fed_TC, steps=STEPS, rollout=reading.rollout, document_ids_T=documents_T)
    embedding_ids_L = embedding_rows_LH = None
    if reading.wiring.embedding is Owner.TARGET:
        embedding_ids_L = torch.unique(torch.cat([ids_T, run.fed_ids]))
        embedding_rows_LH = drafter.weights.embedding.rows(embedding_ids_L)
    write_golden(
        out,
        input_ids_T=ids_T,
        hidden_states_TC=fed_TC,
        logits_steps=run.logits_steps,
        embedding_ids_L=embedding_ids_L,
        embedding_rows_LH=embedding_rows_LH,
        document_ids_T=documents_T,
        fc_out_RH=run.states.get(FC_OUT),
        state_steps={step: run.states[f"{STATE}{step}"] for step in range(STEPS)},
    )
    with open_path(out) as written:
        digest = f"sha256:{written.sha256()}"
    return GoldenMade(path=out, digest=digest, sample=sample.name, tokens=tokens, steps=STEPS)


def tokens_for(wiring: Wiring) -> int:
    """How many tokens keep a golden file within ``BYTES`` (at least ``FEWEST_TOKENS`` whatever it takes, at most ``MOST_TOKENS``)."""
    floats = STEPS * (wiring.draft_vocab_size + wiring.hidden_size) + 2 * wiring.hidden_size + wiring.states * wiring.target_hidden_size
    return max(FEWEST_TOKENS, min(MOST_TOKENS, BYTES // (4 * floats)))


def _open(folder: Path, limits: Limits) -> CheckpointSource:
    checkpoint = Checkpoint.open(folder, limits=limits)
    checkpoint.raise_if_rejected()
    return CheckpointSource(checkpoint)
