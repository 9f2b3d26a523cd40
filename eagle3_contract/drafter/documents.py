"""Which rows of a packed sequence are alive at which step.

Row t of the sequence pairs state g[t] with token x[t + shift]. Documents do not see each other, so a document is a run of rows of its
own, and at step s its first rows, as many as have a token to be fed, are alive.
Legend: T tokens, R = T - 1 rows, L alive rows.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from contract.errors import InputRejected


@dataclass(frozen=True, slots=True)
class Document:
    """Tokens ``start`` ... ``start + tokens - 1`` of the sequence."""

    start: int
    tokens: int


def documents(document_ids_T: Tensor | None, tokens: int) -> list[Document]:
    """The documents of a sequence of T tokens, in order; -1 marks padding. Without ids it is one document.

    Raises:
        InputRejected: ``drafter.document-ids`` if an id is below -1 or comes back after another one.
    """
    if document_ids_T is None:
        return [Document(0, tokens)] if tokens else []
    values, counts = torch.unique_consecutive(document_ids_T.to("cpu"), return_counts=True)
    found: list[Document] = []
    seen: set[int] = set()
    start = 0
    for value, count in zip(values.tolist(), counts.tolist(), strict=True):
        if value >= 0 and value not in seen:
            found.append(Document(start, count))
            seen.add(value)
        elif value != -1:
            complaint = "is below -1" if value < 0 else "comes back after another document"
            raise InputRejected(
                f"document id {value} {complaint} at token {start}",
                rule="drafter.document-ids",
                fix="Number each document's run of tokens with one id of its own, and padding with -1.",
            )
        start += count
    return found


def alive(document: Document, step: int, shift: int, *, own_tokens: bool) -> int:
    """How many of a document's first rows are alive at a step.

    A row needs the token x[t + shift + step]; with ``own_tokens`` (the drafter is fed its own argmax) only the first step does. The
    last token's row is never among them: its next token is not known, so nothing could be said about its prediction.
    """
    reach = shift + (0 if own_tokens else step)
    return max(0, min(document.tokens - 1, document.tokens - reach))


def rows_of(docs: list[Document], lengths: list[int], device: torch.device) -> Tensor:
    """Row numbers [L] int64 of the first ``lengths[i]`` rows of each document."""
    parts = [torch.arange(d.start, d.start + n, device=device) for d, n in zip(docs, lengths, strict=True)]
    return torch.cat(parts) if parts else torch.zeros(0, dtype=torch.int64, device=device)
