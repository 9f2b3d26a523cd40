"""Every rule of the kind ``eagle3``, for ``contract explain`` and the documentation. Importing this imports no torch."""

from __future__ import annotations

from typing import Final

from contract.findings import Rule
from eagle3_contract.check import ALL_RULES as CHECK_RULES
from eagle3_contract.diff.rules import RULES as DIFF_RULES
from eagle3_contract.drafter.rules import RULES as DRAFTER_RULES
from eagle3_contract.engines.gate_rules import RULES as GATE_RULES
from eagle3_contract.engines.rules import RULES as ENGINE_RULES
from eagle3_contract.export.rules import RULES as EXPORT_RULES
from eagle3_contract.init.rules import RULES as INIT_RULES
from eagle3_contract.readings.error_rules import RULES as READING_RULES
from eagle3_contract.stamp.rules import RULES as STAMP_RULES
from eagle3_contract.trainers.rules import RULES as TRAINER_RULES
from eagle3_contract.verify.rules import RULES as VERIFY_RULES
from eagle3_contract.verify.server.rules import RULES as SERVER_RULES

ALL_RULES: Final[tuple[Rule, ...]] = (
    *DIFF_RULES,
    *STAMP_RULES,
    *INIT_RULES,
    *CHECK_RULES,
    *VERIFY_RULES,
    *SERVER_RULES,
    *EXPORT_RULES,
    *ENGINE_RULES.values(),
    *GATE_RULES,
    *READING_RULES.values(),
    *TRAINER_RULES.values(),
    *DRAFTER_RULES.values(),
)
