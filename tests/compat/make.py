"""Write the fixtures of a version: a target, a drafter with contract, waivers and samples, two captures, a policy and a report.

Run once, when a version of a file format is released (``python -m compat.make FOLDER`` from tests/), and never again for it: what was
written then must be read for ever.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

import yaml
from verify.scenario import build, write_target

from contract import __version__
from contract.reporting import report_as_json

WAIVER = {
    "rule": "reading.window",
    "scope": {"engine": "sglang", "versions": ">=0.5,<0.6"},
    "reason": "kept as an example of version 1",
    "measured": "nothing: this waiver never meets a failure",
    "expires": "2999-12-31",
}
POLICY = {
    "schema_version": 1,
    "tolerances": {"states": 0.05, "logits": 0.01},
    "integrity": "digests",
    "waivers": {"forbidden": ["reading.boundaries", "states.*"], "max_days": None},
    "limits": {"tensors": 1000},
}


def make(folder: Path) -> None:
    """Write everything into a new folder."""
    folder.mkdir(parents=True)
    scenario = build(folder / "drafter", write_target(folder / "target"))
    scenario.capture((0, 3, 5), "right").rename(folder / "capture-right")
    scenario.capture((3, 5, 8), "incident").rename(folder / "capture-incident")
    report = scenario.verify(folder / "capture-incident")
    document = report_as_json(report, tool_version=__version__)
    text = json.dumps(document, indent=1).replace(str(folder), "v1")
    (folder / "report.json").write_text(text + "\n")
    (folder / "drafter" / "contract.waivers.yaml").write_text(yaml.safe_dump({"schema_version": 1, "waivers": [WAIVER]}, sort_keys=False))
    (folder / "policy.yaml").write_text(yaml.safe_dump(POLICY, sort_keys=False))


if __name__ == "__main__":
    make(Path(sys.argv[1]).resolve())
