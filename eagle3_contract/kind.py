"""The kind ``eagle3``: what `contract` finds behind the entry point. Cheap to import; a body imports what it needs when it is called."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

from contract import requests

if TYPE_CHECKING:
    from contract.answers import Result
    from contract.findings import Json, Rule


class Eagle3:
    """EAGLE-3 drafters: contracts, readings, forward, verification."""

    name: Final = "eagle3"
    title: Final = "EAGLE-3 drafters (speculative decoding with fused target states)"

    def rules(self) -> Sequence[Rule]:
        from eagle3_contract.rules import ALL_RULES

        return ALL_RULES

    def contract_struct(self) -> type:
        from eagle3_contract.model.spec import Contract

        return Contract

    def init(self, request: requests.InitRequest) -> Result:
        from eagle3_contract.commands.init import init

        return init(request)

    def show(self, request: requests.ShowRequest) -> Result:
        from eagle3_contract.commands.show import show

        return show(request)

    def check(self, request: requests.CheckRequest) -> Result:
        from eagle3_contract.commands.check import check

        return check(request)

    def read(self, request: requests.ReadRequest) -> Result:
        from eagle3_contract.commands.read import read

        return read(request)

    def capture(self, request: requests.CaptureRequest) -> Result:
        from eagle3_contract.commands.capture import capture

        return capture(request)

    def draft(self, request: requests.DraftRequest) -> Result:
        from eagle3_contract.commands.draft import draft

        return draft(request)

    def verify(self, request: requests.VerifyRequest) -> Result:
        from eagle3_contract.commands.verify import verify

        return verify(request)

    def diff(self, request: requests.DiffRequest) -> Result:
        from eagle3_contract.commands.diff import diff

        return diff(request)

    def card(self, request: requests.CardRequest) -> Result:
        from eagle3_contract.commands.card import card

        return card(request)

    def export(self, request: requests.ExportRequest) -> Result:
        from eagle3_contract.commands.export import export

        return export(request)

    def demo(self, request: requests.DemoRequest) -> Result:
        from eagle3_contract.commands.demo import demo

        return demo(request)

    def environment(self, python: str | None) -> tuple[Json, Sequence[str]]:
        from eagle3_contract.commands.doctor import examine, lines

        found = examine(python)
        return found, list(lines(found))


KIND: Final = Eagle3()
