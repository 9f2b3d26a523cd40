"""``contract read``."""

from __future__ import annotations

from contract.answers import Answer
from contract.findings import ExitCode
from contract.requests import ReadRequest
from eagle3_contract.readings.engines import parse_engine
from eagle3_contract.readings.engines import read as read_engine
from eagle3_contract.readings.load import load_drafter, load_target
from eagle3_contract.readings.reading import Outcome, as_json
from eagle3_contract.readings.serve_asked import flags_for, refuse_unmatched
from eagle3_contract.readings.text import readings_text


def read(request: ReadRequest) -> Answer:
    """What each engine makes of a drafter; exit 1 if one of them would refuse it.

    Raises:
        UserError: a file cannot be read, or an engine is not in the table.
    """
    refuse_unmatched(request.engines, request.serve_args)
    references = [parse_engine(e) for e in request.engines]
    view = load_drafter(request.drafter, allow_pickle=request.allow_pickle)
    target = load_target(request.target) if request.target is not None else None
    readings = [r for ref in references for r in read_engine(view, ref, target, flags_for(str(ref), request.serve_args))]
    data = [as_json(r) for r in readings]
    refused = any(r.outcome is not Outcome.OK for r in readings)
    return Answer(
        text=readings_text(readings),
        data=data[0] if len(data) == 1 else data,
        exit_code=ExitCode.VIOLATED if refused else ExitCode.KEPT,
    )
