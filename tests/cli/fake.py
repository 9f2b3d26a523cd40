"""A drafter family whose command bodies do what a test tells them to."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import msgspec

from contract.answers import Answer, Result
from contract.findings import Rule, Severity
from contract.reporting import Report
from contract.requests import CheckRequest, ReadRequest, Request, ShowRequest, VerifyRequest

RULE = Rule(
    id="fake.rule",
    title="The fake is right",
    severity=Severity.ERROR,
    dimension="recipe",
    why="It was wrong once.",
    remedy="Mend it.",
)


class FakeSpec(msgspec.Struct, kw_only=True, forbid_unknown_fields=True):
    """A fake contract."""

    schema_version: int
    kind: str


@dataclass
class FakeKind:
    """``result`` is returned, or called, by every body; ``asked`` is the last request. Has no capture, draft, demo ..."""

    result: Result | Callable[[], Result] | BaseException = field(default_factory=lambda: Answer(text="said", data={"said": 1}))
    asked: Request | None = None
    name: str = "fake"
    title: str = "A fake"

    def rules(self) -> Sequence[Rule]:
        return [RULE]

    def contract_struct(self) -> type:
        return FakeSpec

    def _answer(self, request: Request) -> Result:
        self.asked = request
        if isinstance(self.result, BaseException):
            raise self.result
        return self.result() if callable(self.result) else self.result

    def show(self, request: ShowRequest) -> Result:
        return self._answer(request)

    def check(self, request: CheckRequest) -> Result:
        return self._answer(request)

    def read(self, request: ReadRequest) -> Result:
        return self._answer(request)

    def verify(self, request: VerifyRequest) -> Result:
        return self._answer(request)


def report(*, failed: int = 0, passed: int = 0) -> Report:
    checks = [*[RULE.failed("wrong", expected=1, actual=2)] * failed, *[RULE.passed("right")] * passed]
    return Report(command="check", subject={"spec": "c.yaml"}, checks=checks)
