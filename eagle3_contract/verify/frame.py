"""The frame of a verification: whatever ends it, there is a report, with all that was found until then. No torch."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from contract.errors import UserError
from contract.findings import Json, check_from_error
from contract.limits import Limits
from contract.reporting import Report
from contract.requests import VerifyRequest
from contract.structs import SpecInvalid
from eagle3_contract.model.ceilings import under_ceilings
from eagle3_contract.model.load import LoadedContract, load_contract
from eagle3_contract.verify.collect import Findings, Stopped
from eagle3_contract.verify.flow import verified_flow


@dataclass(kw_only=True, eq=False)
class Frame:
    """What a verification fills: checks, measurements, provenance. ``subject`` may still change until the report is made."""

    request: VerifyRequest
    limits: Limits
    subject: dict[str, Json]
    found: Findings = field(init=False)
    measurements: dict[str, Json] = field(default_factory=dict)
    provenance: dict[str, Json] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.found = Findings(self.request.fail_fast, self.limits)

    def report(self, run: Callable[[LoadedContract], None], *, dimension: str, before: Callable[[], None] | None = None) -> Report:
        """Load the contract, run, and report. Never raises a ``UserError``: what was unusable is in the report (exit 2).

        Args:
            run: verifies a contract.
            dimension: of an unusable input that is not the contract.
            before: is called before the contract is read.
        """
        complete = True
        try:
            if before is not None:
                before()
            loaded = under_ceilings(load_contract(self.request.spec, limits=self.limits), self.request.ceilings)
            try:
                run(loaded)
            finally:
                self.measurements["flow"] = verified_flow(loaded.contract, self.found.checks).as_json()
        except Stopped as stopped:
            self.provenance["stopped"] = str(stopped)
        except KeyboardInterrupt:
            complete = False
        except SpecInvalid as error:
            self.found.checks.extend(error.problems)
        except UserError as error:
            self.found.checks.append(check_from_error(error, dimension="contract" if error.rule.startswith("contract.") else dimension))
        return Report(
            command="verify",
            subject=self.subject,
            checks=self.found.checks,
            measurements=self.measurements,
            provenance=self.provenance,
            complete=complete,
        )


def subject_of(request: VerifyRequest, names: tuple[str, ...]) -> dict[str, Json]:
    """What a report is about: the parts of the request that are named and were given."""
    given: Mapping[str, Json] = {name: getattr(request, name) for name in names}
    return {name: value for name, value in given.items() if value is not None}
