"""The kept rows of a request's states, piece by piece behind each other. No torch, unless ranks have to be joined.

Legend: n rows of a piece, T rows kept, K slots, G width of a state.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TypeAlias

from contract.errors import InputRejected
from contract.files.bundle_manifest import INPUT_IDS, POSITION_IDS
from contract.files.bundle_writer import Entry
from contract.files.names import shown
from contract.files.tensors import TensorRef
from eagle3_contract.engines.committed import Committed, Piece
from eagle3_contract.engines.spool_events import SLOT, Drafter, Target
from eagle3_contract.engines.spool_read import RequestEvents, Stored, integers, spool_error

Table: TypeAlias = Mapping[str, TensorRef]
Rows: TypeAlias = tuple[str, int, bytes]
"""dtype, width, and the bytes of n rows."""
FC_IN = "fc_in"
MANY_LAYERS = 64
"""Decoder layers that the rounding of a row run twice may come from."""


def joined_rows(request: RequestEvents, made: Committed, names: Sequence[str], *, ranks: int, width: int | None) -> dict[str, Entry]:
    """Every named state [T, G] of a request.

    Args:
        request: its events, of all ranks.
        made: which rows are kept.
        names: states that every piece has.
        ranks: of tensor parallelism; where several wrote events, theirs are joined.
        width: G, which joining needs.

    Raises:
        InputRejected: ``engine.spool-row`` (a row has two values), ``engine.spool-read`` (dtype or width changes) or ``engine.shards``.
    """
    tables = [_tables(request, piece, ranks) for piece in made.pieces]
    found = {}
    for name in names:
        pieces = []
        for piece, held in zip(made.pieces, tables, strict=True):
            if len(held) == 1:
                ref = held[0][name]
                pieces.append((ref.dtype, ref.shape[1], bytes(ref.read_rows(piece.rows))))
            else:
                pieces.append(_of_ranks(request, piece, held, name, width))
        found[name] = _placed(request, made, name, pieces)
    return found


def _placed(request: RequestEvents, made: Committed, name: str, pieces: Sequence[Rows]) -> Entry:
    dtype, width, _ = pieces[0]
    if any((d, w) != (dtype, width) for d, w, _ in pieces):
        kinds = ", ".join(dict.fromkeys(f"{d} {w} wide" for d, w, _ in pieces))
        raise _error("spool-read", request, f"{name} is {kinds} in different forwards")
    data = bytearray()
    for piece, (_, _, rows) in zip(made.pieces, pieces, strict=True):
        row = len(rows) // len(piece.rows)
        at = (piece.first - made.first) * row
        again = min(len(data) - at, len(rows))
        if data[at : at + again] != rows[:again]:
            differing = _other_row(bytes(data[at : at + again]), rows[:again], dtype, width)
            if differing is not None:
                raise _error("spool-row", request, f"token {piece.first + differing} was run twice, with two values of {name}")
        data += rows[again:]
    return dtype, (made.end - made.first, width), bytes(data)


def _other_row(a: bytes, b: bytes, dtype: str, width: int) -> int | None:
    """The first row that was run twice and is another one. Rounding makes none: a preempted request is run again in other batches, by other
    kernels."""
    # Imported here because of torch, which a capture without such rows does not need.
    import torch

    from contract.files.torch_tensors import TORCH_DTYPES
    from contract.numerics.statistics import row_errors
    from contract.numerics.tolerance import ROUNDING, NoTolerance, tolerance_for

    kind = TORCH_DTYPES[dtype]
    a_NG, b_NG = (torch.frombuffer(bytearray(x), dtype=kind).view(-1, width) for x in (a, b))
    name = str(kind).removeprefix("torch.")
    bound = tolerance_for(name, layers=MANY_LAYERS) if name in ROUNDING else None
    if bound is None or isinstance(bound, NoTolerance):
        near_N = (a_NG == b_NG).all(1)
    else:
        near_N = row_errors(b_NG.float(), a_NG.float()) <= bound.worst
    apart = (~near_N).nonzero().flatten().tolist()
    return apart[0] if apart else None


def _tables(request: RequestEvents, piece: Piece, ranks: int) -> list[Table]:
    """The tensors of a piece, of every rank that wrote them."""
    own = piece.event.tensors()
    others = [_of_rank(request, rank) for rank in range(1, ranks)]
    if not any(others):
        return [own]
    at = _of_rank(request, 0).index(piece.event)
    found = [own]
    for rank, events in enumerate(others, start=1):
        if len(events) <= at:
            raise _error("spool-order", request, f"rank {rank} wrote {len(events)} rows' events of the target, rank 0 more")
        table = events[at].tensors()
        if any(integers(table[n]) != integers(own[n]) for n in (INPUT_IDS, POSITION_IDS)) or table.keys() != own.keys():
            raise _error("spool-order", request, f"rank {rank} ran other tokens than rank 0, or recorded other states: {events[at].file}")
        found.append(table)
    return found


def _of_rank(request: RequestEvents, rank: int) -> list[Stored]:
    return [e for e in request.events if isinstance(e.event, Target) and (e.event.rank or 0) == rank]


def _of_ranks(request: RequestEvents, piece: Piece, held: Sequence[Table], name: str, width: int | None) -> Rows:
    # Imported here because of torch, which a capture of one rank does not need.
    from contract.files.bundle_tensors import entries
    from contract.files.torch_tensors import load_tensor
    from eagle3_contract.engines.shards import join

    if width is None:
        raise _error("shards", request, "ranks cannot be joined without the width of the target's states")
    slot, fed = SLOT.fullmatch(name), _fed(request, piece)
    full = None
    if slot is not None and fed is not None:
        full = load_tensor(fed)[:, int(slot[1]) * width : (int(slot[1]) + 1) * width]
    joined = join([load_tensor(table[name]) for table in held], width=width, full_NG=full)
    dtype, shape, data = entries({name: joined.state_NG[list(piece.rows)]})[name]
    return dtype, shape[1], bytes(data)


def _fed(request: RequestEvents, piece: Piece) -> TensorRef | None:
    """What the drafter was fed of a piece's rows [n, K*G]: of the forward that follows it, unless there is none or it ran other rows."""
    after = request.events[request.events.index(piece.event) + 1 :]
    found = next((e for e in after if isinstance(e.event, Drafter) and not e.event.rank and e.event.phase != "draft"), None)
    table: Table = {} if found is None else found.tensors()
    ref = table.get(FC_IN)
    return ref if ref is not None and ref.shape[0] == piece.event.tensors()[INPUT_IDS].shape[0] else None


def _error(rule: str, request: RequestEvents, message: str) -> InputRejected:
    return spool_error(rule, f"request {shown(request.start.request)}: {message}")
