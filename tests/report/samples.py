"""Reports of every kind that a renderer meets."""

from __future__ import annotations

from dataclasses import replace

from contract.errors import InputRejected
from contract.findings import Rule, Severity, Where, check_from_error
from contract.report.flow import Edge, Flow
from contract.reporting import Report

RECIPE = Rule(
    id="recipe.boundaries",
    title="The engine feeds the states of the contract",
    severity=Severity.ERROR,
    dimension="recipe",
    why="fc was trained on other states.",
    remedy="Write the layer ids that make the engine feed the contract's boundaries.",
)
VOCAB = replace(RECIPE, id="vocab.map", dimension="vocab", title="d2t is an offset map")
HINT = replace(RECIPE, id="weights.untrained", dimension="weights", severity=Severity.WARNING, title="Weights look trained")
NOTE = replace(RECIPE, id="files.header-leading-space", dimension="files", severity=Severity.NOTE)

PASSED = VOCAB.passed("d2t is an offset map of 32000 entries", where=Where(file="contract.yaml", line=20, column=3, key="vocab.map"))
FAILED = RECIPE.failed(
    "the engine feeds [3, 31, 59], the contract wants [0, 3, 31]: slots 0, 1 and 2 differ",
    where=Where(file="contract.yaml", line=14, column=3, key="hidden_states.boundaries"),
    expected=[0, 3, 31],
    actual=[3, 31, 59],
    fix="Set eagle_aux_hidden_state_layer_ids to [-1, 2, 30].",
)
UNDECIDED = RECIPE.undecided("the target's config.json was not named, so that its default layers are not known")
NOTICED = HINT.failed("norm.weight is all ones, as a fresh one is", where=Where(tensor="norm.weight"))
SPACE = NOTE.failed("the header starts with a blank", where=Where(file="model.safetensors"))
SKIPPED = VOCAB.skipped("the vocabulary is full, so that there is no map")
WAIVED = replace(FAILED, status=type(FAILED.status).WAIVED, message="feeds other states; waived until 2027-01-01: measured, no loss")
REJECTED = check_from_error(
    InputRejected(
        "a tab in the indentation",
        rule="contract.yaml-tab",
        fix="Replace the tab by spaces.",
        where=Where(file="contract.yaml", line=3, column=1),
    ),
    dimension="contract",
)
NAN = VOCAB.failed("logits differ", expected=float("nan"), actual={"worst": float("inf"), "rows": (1, 2)}, evidence={"p": [float("-inf")]})

DISTANCES = {
    "what": "median per-row relative error",
    "slots": [0, 1, 2],
    "states": ["boundary 0", "boundary 3", "boundary 31", "boundary 59", "final_norm"],
    "median": [[0.97, 2e-6, 0.98, 1.1, None], [1.2, 0.9, 3e-6, 0.8, float("nan")], [1.3, 1.2, 0.99, 1e-6, 0.7]],
    "expected": ["boundary 0", "boundary 3", "boundary 31"],
}
PATHS = {
    "claimed": {"accuracy": [0.747]},
    "training_path": {"accuracy": [0.747, 0.61, None], "accepted_length": 2.4, "samples": 10},
    "inference_path": {"accuracy": [0.31, 0.2, 0.1], "accepted_length": 1.3},
}
TOKENS = {"sample-00.safetensors": {"training": "..+++--++++.", "inference": "..-+-----+--"}, "sample-01": {"training": "++-"}}
FLOW = Flow(
    nodes={
        "states": "states [0, 3, 31]",
        "embedding": "embedding",
        "fc": "fc 21504 to 7168",
        "layer": "layer",
        "head": "head and vocab map",
    },
    edges=[
        Edge(source="states", target="fc", dimensions=["recipe", "pairing"]),
        Edge(source="fc", target="layer", dimensions=["wiring"]),
        Edge(source="embedding", target="layer", dimensions=["weights"]),
        Edge(source="layer", target="head", dimensions=["vocab"]),
    ],
)
SUBJECT = {"spec": "contract.yaml", "engines": ["vllm==0.32.0", "sglang==0.5.23"], "target": None}
PROVENANCE = {"python": "3.11", "command_line": ["contract", "check", "contract.yaml"]}


def report(*checks: object, **more: object) -> Report:
    return Report(command="check", subject=SUBJECT, checks=list(checks), provenance=PROVENANCE, **more)  # type: ignore[arg-type]  # samples


REPORTS = {
    "kept": report(PASSED, SKIPPED, NOTICED, SPACE),
    "violated": report(
        PASSED,
        FAILED,
        UNDECIDED,
        NOTICED,
        WAIVED,
        SKIPPED,
        measurements={"distances": DISTANCES, **PATHS, "flow": FLOW.as_json(), "tokens": TOKENS, "rows": 40},
    ),
    "unknown": report(PASSED, UNDECIDED),
    "nothing": report(),
    "rejected": report(FAILED, REJECTED),
    "interrupted": report(PASSED, complete=False),
    "non_finite": report(NAN, measurements={"worst": float("nan")}),
}

HOSTILE = (
    "\x1b[31mred\x1b]0;title\x07 \x9b1m\r\n::error file=x::pwned\n##[error]x ##vso[task.setvariable]y \u202ereversed\u2028\u200b"
    " <script>alert(1)</script> ]]> &amp; \"'`|* [link](http://x) @user \ud800 %0A \x00\x7f"
)
