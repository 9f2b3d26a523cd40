"""The rule about what an engine's other reading costs. No torch here."""

from __future__ import annotations

from typing import Final

from contract.findings import Rule, Severity

COST: Final = Rule(
    id="reading.cost",
    title="The engine's reading accepts as much as training's on the training samples",
    severity=Severity.WARNING,
    dimension="metric",
    why="The other findings say that an engine computes something else; this one says what that costs, by running the drafter both ways on "
    "the samples (teacher forced, greedy, in rounds). It is no detector: ids off by one cost 4%, a normed feedback shows from step 2 on.",
    remedy="Mend what the other findings about this engine name; `contract export` writes a config.json that it reads rightly.",
    depth=None,
)
RULES: Final = (COST,)
