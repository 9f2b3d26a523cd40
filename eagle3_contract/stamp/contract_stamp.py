"""Stamp a drafter with what training did. Copy this one file into a trainer (torch and safetensors are all it needs) and call ``stamp``
when it saves: it writes ``contract_stamp.json`` (what the trainer declares) and ``golden/golden.safetensors`` (rows of the trainer's own
forward; in a folder of their own, because engines load every safetensors file beside the weights).

    from contract_stamp import stamp

    stamp(
        save_path,
        forward=lambda input_ids, hidden_states: my_rollout(model, input_ids, hidden_states),
        input_ids=sample["input_ids"],            # [T] token ids of a short sample, unshifted
        hidden_states=sample["hidden_states"],    # [T, K*G] what reaches the drafter, row t belongs to token t
        embedding=model.embed_tokens,             # only if the embedding is not saved with the drafter
        declare={"training.trainer": "mine", "hidden_states.boundaries": [2, 15, 27], "wiring.feedback": "post_norm", ...},
    )

``forward`` returns the logits of each drafting step, a list of tensors of T-1 or T rows (and, if at hand, a dict of intermediate states:
``fc_out`` and ``state_step{s}``, what step s hands to the next). Row t of step s is what the drafter says after it was fed the state of
token t and, step by step, the tokens t+1, ..., t+1+s (with ``training.rollout: own_argmax`` token t+1 and then its own proposals). Rows
that have no such token (the last ones of the sample, or of a document) are left out for you.

``declare`` maps fields of the contract file to values, by their dotted names; what is not declared stays open, and nothing is guessed.
"""

from __future__ import annotations

import hashlib
import json
import os
import tempfile
from collections.abc import Callable, Mapping
from typing import Any

import torch
from safetensors.torch import save
from torch import Tensor

FORMAT, FORMAT_VERSION = "eagle3-contract-stamp", 1
STAMP, GOLDEN = "contract_stamp.json", "golden/golden.safetensors"
RECOMMENDED = (
    "training.trainer", "training.version", "training.rollout", "hidden_states.boundaries", "hidden_states.point", "vocab.map",
    "wiring.norms_before_fc", "wiring.norm_before_residual", "wiring.feedback", "wiring.double_norm", "wiring.final_norm",
    "wiring.rope.type", "wiring.rope.theta", "wiring.window", "alignment.positions_start", "alignment.step_positions",
    "training.target_state.boundary", "training.target_state.normed", "training.target_state.norm_applied_by_trainer",
    "training.data.loss_mask_rule", "training.metrics.definition", "training.metrics.accuracy",
)  # fmt: skip


def stamp(
    folder: str | os.PathLike[str],
    *,
    forward: Callable[[Tensor, Tensor], Any],
    input_ids: Tensor,
    hidden_states: Tensor,
    declare: Mapping[str, Any],
    embedding: Any = None,
    position_ids: Tensor | None = None,
    document_ids: Tensor | None = None,
    fed_ids: Tensor | None = None,
    tokens: int = 32,
) -> list[str]:
    """Write the stamp and the golden rows of one short sample into ``folder``. Returns the recommended fields that were not declared.

    Args:
        folder: where the drafter is saved.
        forward: the trainer's own forward, see the module's text. Called once, in eval mode if you put it there, without gradients.
        input_ids: [T] or [1, T] integers; at least 5 tokens. Only the first ``tokens`` of T are used.
        hidden_states: [T, K*G] or [1, T, K*G].
        declare: contract field to value.
        embedding: the embedding module, or its weight [V, H], where the checkpoint does not hold it.
        position_ids, document_ids: [T], where the forward is given any (documents: -1 is padding).
        fed_ids: further tokens that the forward looks up in ``embedding``: the proposals of an own_argmax rollout.

    Raises:
        ValueError: shapes do not fit, or the forward gives rows that are not finite.
    """
    ids = _row(input_ids)[:tokens].to(torch.int64)
    fed = _batchless(hidden_states, 2)[:tokens]
    if len(ids) < 5 or len(fed) != len(ids):
        raise ValueError(f"{len(ids)} tokens and {len(fed)} states: give at least 5 of each, as many of one as of the other")
    documents = None if document_ids is None else _row(document_ids)[:tokens].to(torch.int64)
    ahead = 0 if declare.get("training.rollout") == "own_argmax" else 1
    with torch.no_grad():
        result = forward(ids, fed)
    logits, states = result if isinstance(result, tuple) else (result, {})
    rows = {f"logits_step{step}": _rows(z, step * ahead, len(ids), documents) for step, z in enumerate(logits)}
    for name, x in states.items():
        step = int(name.removeprefix("state_step")) if name != "fc_out" else 0
        rows[name] = _rows(x, step * ahead, len(ids), documents)
    if not logits:
        raise ValueError("the forward gave no step")
    tensors = {"input_ids": ids, "hidden_states": fed, **rows}
    if position_ids is not None:
        tensors["position_ids"] = _row(position_ids)[:tokens].to(torch.int64)
    if documents is not None:
        tensors["document_ids"] = documents
    if embedding is not None:
        table = getattr(embedding, "weight", embedding)
        tensors["embedding_ids"] = torch.unique(ids if fed_ids is None else torch.cat([ids, fed_ids.flatten().to(ids)]))
        tensors["embedding_rows"] = table.detach()[tensors["embedding_ids"].to(table.device)]
    tensors = {name: x.detach().to("cpu").contiguous() for name, x in tensors.items()}
    golden = save(tensors, metadata={"format": "eagle3-contract-golden", "format_version": "1"})
    document = {
        "format": FORMAT,
        "format_version": FORMAT_VERSION,
        "declared": dict(sorted(declare.items())),
        "golden": {"file": GOLDEN, "sha256": "sha256:" + hashlib.sha256(golden).hexdigest(), "tokens": len(ids), "steps": len(logits)},
        "weights": _digests(folder),
        "made_with": {"torch": torch.__version__},
    }
    text = (
        json.dumps(document, indent=1, allow_nan=False) + "\n"
    )  # before anything is written: a value that is no JSON must leave no half stamp
    os.makedirs(os.path.dirname(os.path.join(folder, GOLDEN)), exist_ok=True)
    _write(os.path.join(folder, GOLDEN), golden)
    _write(os.path.join(folder, STAMP), text.encode())
    return [field for field in RECOMMENDED if field not in declare]


def _row(x: Any) -> Tensor:
    return _batchless(x, 1)


def _batchless(x: Any, dims: int) -> Tensor:
    value: Tensor = torch.as_tensor(x)
    value = value[0] if value.ndim == dims + 1 and len(value) == 1 else value
    if value.ndim != dims:
        raise ValueError(f"shape {list(value.shape)}: {dims} dimensions are due, or one more of size 1 before them")
    return value


def _rows(x: Any, ahead: int, tokens: int, documents: Tensor | None) -> Tensor:
    """[T-1, width] float32 with NaN where the row has no token left to be fed within its document."""
    x = _batchless(x, 2).detach().to("cpu", torch.float32)[: tokens - 1]
    if len(x) < tokens - 1 - ahead:
        raise ValueError(f"{len(x)} rows for {tokens} tokens; T-1 or T are due")
    alive = [t + 1 + ahead < tokens for t in range(tokens - 1)]
    if documents is not None:
        ids = documents.tolist()
        alive = [a and ids[t] >= 0 and len(set(ids[t : t + 2 + ahead])) == 1 for t, a in enumerate(alive)]
    out = torch.full((tokens - 1, x.shape[1]), float("nan"))
    keep = torch.tensor(alive)
    out[keep] = x[keep[: len(x)].nonzero().flatten()]
    if not bool(torch.isfinite(out[keep]).all()):
        raise ValueError("the forward gives NaN or infinity in a row that counts")
    return out


def _digests(folder: str | os.PathLike[str]) -> dict[str, str]:
    """Digest of every weight file beside the stamp, so that a stamp that was left from other weights is told."""
    found = {}
    for name in sorted(os.listdir(folder)):
        if name.endswith((".safetensors", ".bin", ".pt")) and os.path.isfile(os.path.join(folder, name)):
            digest = hashlib.sha256()
            with open(os.path.join(folder, name), "rb") as file:
                while block := file.read(1 << 20):
                    digest.update(block)
            found[name] = "sha256:" + digest.hexdigest()
    return found


def _write(path: str, data: bytes) -> None:
    """The whole file or none of it."""
    fd, temporary = tempfile.mkstemp(dir=os.path.dirname(path) or ".", suffix=".tmp")
    with os.fdopen(fd, "wb") as file:
        file.write(data)
    os.chmod(temporary, 0o644)
    os.replace(temporary, path)
