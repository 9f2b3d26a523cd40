"""The rules of ``contract init``. No torch: ``contract explain`` reads them."""

from __future__ import annotations

from typing import Final

from contract.findings import Rule, Severity


def _rule(name: str, title: str, dimension: str, why: str, remedy: str, *, severity: Severity = Severity.ERROR) -> Rule:
    depth = {} if severity is Severity.ERROR else {"depth": None}
    return Rule(id=f"init.{name}", title=title, severity=severity, dimension=dimension, why=why, remedy=remedy, **depth)


OPEN: Final = _rule(
    "open-question", "The files or the answers say everything that decides recipe and arithmetic", "contract",
    "What nobody states, nothing can verify; a value guessed from a default is how a drafter with 74.7% accuracy was served at 1.8 of 6.",
    "Answer with --set, or give what tells: --samples, --target.",
)  # fmt: skip
NOT_KNOWN: Final = _rule(
    "not-known", "Everything else is known too", "contract",
    "What is unknown is not verified.",
    "Answer with --set when it becomes known.", severity=Severity.NOTE,
)  # fmt: skip
CONTRADICTION: Final = _rule(
    "contradiction", "What the files say of the training does not contradict itself", "recipe",
    "A config says what was meant, a dump what was done. Where they differ, the drafter was trained on something that no reader of "
    "the config will feed it.",
    "Find out which side training used; the contract states what was measured.",
)  # fmt: skip
LAST_STATE: Final = _rule(
    "target-state", "The state that gave the training targets is the target's last one", "metric",
    "Logits computed from an earlier state are not what the target says: the drafter learns to predict something that is never "
    "accepted, while its training accuracy looks fine. speculators 0.3 takes the last of its list of states for it, whichever that is.",
    "Dump the states again with the last one among them, and train again.",
)  # fmt: skip
OTHER_TARGET: Final = _rule(
    "target-of-samples", "The stored states are states of the target that was given", "pairing",
    "States that no boundary of the target explains come from another model, another revision or quantisation, or another tokenisation.",
    "Give the target that the states were dumped from.",
)  # fmt: skip
VOCAB: Final = _rule(
    "vocab-maps-agree", "Every place that holds the vocab map holds the same one", "vocab",
    "A map from another data set sends every draft id to another token; EAGLE's cache.pt is reused blindly (traineagle3/cnets.py:667).",
    "Keep the map that training used, and export it with the drafter.",
)  # fmt: skip
COVERAGE: Final = _rule(
    "coverage", "The draft vocabulary covers the tokens of the samples", "vocab",
    "A token outside of it can never be drafted: its share is a ceiling for the accuracy.",
    "Make the draft vocabulary from the data that is served.", severity=Severity.NOTE,
)  # fmt: skip
HEAD_ROWS: Final = _rule(
    "head-rows", "The rows of the head belong to the tokens that the vocab map says", "vocab",
    "TorchSpec's prune after training picks rows by offset instead of by id (6f21829 tools/convert_to_hf.py:235,309,312): a head of the "
    "wrong tokens.",
    "Prune the full head again, by id.",
)  # fmt: skip
SAMPLES: Final = _rule(
    "samples-alike", "All samples store the same states", "pairing",
    "One recipe cannot pick from samples of different layouts.",
    "Give the samples of one run.",
)  # fmt: skip
NOTE: Final = _rule(
    "note", "Nothing about this trainer or checkpoint needs a warning", "contract",
    "Known faults of the trainer's version, and what the checkpoint says twice and differently.",
    "Read the note.", severity=Severity.NOTE,
)  # fmt: skip
NOT_COMPARED: Final = _rule(
    "not-compared", "Everything that was found was looked at", "files",
    "A vocab map or a measurement that was left out might have contradicted the rest.",
    "Give what is missing.", severity=Severity.NOTE,
)  # fmt: skip
WRITTEN: Final = _rule(
    "written", "The contract was written and reads back as what was collected", "files",
    "A contract that does not load back would be noticed only when it is needed.",
    "Report this as a bug.",
)  # fmt: skip
TRAINING_STATE: Final = _rule(
    "training-state", "The folder holds a drafter that engines load", "files",
    "A training state is not served. The contract states what it says of the training.",
    "Export the drafter, and run `contract init` on the export with the answers of this contract.", severity=Severity.WARNING,
)  # fmt: skip
ELSEWHERE: Final = _rule(
    "written-elsewhere", "The contract lies beside its drafter, or above it", "files",
    "A contract names no folder outside of its own, so that one that came with a download cannot point anywhere else.",
    "Write the contract into the drafter's folder.", severity=Severity.WARNING,
)  # fmt: skip
UNKNOWN_FIELD: Final = _rule(
    "unknown-field", "Answers are given to fields that exist", "contract",
    "A misspelt answer would be lost.", "Correct the path.",
)  # fmt: skip
BAD_ANSWER: Final = _rule(
    "bad-answer", "Answers have the type of their field", "contract",
    "An answer of another type was meant otherwise than it would be read.", "Write the answer as it would stand in the contract.",
)  # fmt: skip
RULES: Final = (
    OPEN, NOT_KNOWN, CONTRADICTION, LAST_STATE, OTHER_TARGET, VOCAB, COVERAGE, HEAD_ROWS, SAMPLES, NOTE, NOT_COMPARED, WRITTEN,
    TRAINING_STATE, ELSEWHERE, UNKNOWN_FIELD, BAD_ANSWER,
)  # fmt: skip
