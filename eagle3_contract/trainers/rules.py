"""The rules about samples, trainers and metrics, for ``contract explain``."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from contract.findings import Depth, Rule, Severity

_REWRITE: Final = "Write the sample again with the trainer's own writer, or leave it out of the contract's list."
_BROKEN: Final = "A verification on half a sample, or on values that are no states, would prove nothing."
_RESAVE: Final = "Save the data set again with save_to_disk, without compression, and keep it beside the states."

_TABLE: Final[tuple[tuple[str, str, str, str, str], ...]] = (
    # id, dimension, title (true when all is well), why, remedy
    (
        "samples.unknown-format",
        "pairing",
        "Every sample is in a known format",
        "Names mean different things to different trainers: hidden_state "
        "is the last state to SpecForge and the fc input to early speculators.",
        "See docs/sample-format.md for the formats.",
    ),
    (
        "samples.format-version",
        "pairing",
        "The sample format's version is known",
        "A newer version may mean something else by the same tensor.",
        "Upgrade the tool, or write version 1.",
    ),
    (
        "samples.unknown-key",
        "pairing",
        "A sample holds nothing unknown",
        "A misspelt tensor would silently not be used.",
        "Correct the name.",
    ),
    ("samples.missing-tensor", "pairing", "A sample holds all that its format requires", _BROKEN, _REWRITE),
    (
        "samples.not-found",
        "pairing",
        "The samples are where they are said to be",
        "Nothing can be verified on samples that are not there.",
        "Check the path.",
    ),
    ("samples.shape", "shapes", "Shapes within a sample agree", _BROKEN, _REWRITE),
    ("samples.length", "alignment", "Every tensor of a sample has one row per token", _BROKEN, _REWRITE),
    ("samples.dtype", "dtype", "States are floats, tokens and masks whole numbers", _BROKEN, _REWRITE),
    ("samples.not-finite", "weights", "States are finite", "NaN equals nothing; SpecForge skips such records when it trains.", _REWRITE),
    ("samples.empty", "pairing", "A sample has tokens", _BROKEN, _REWRITE),
    ("samples.mask-values", "metric", "A loss mask is 0 or 1", "Anything else counts rows by halves or twice.", _REWRITE),
    ("samples.token-ids", "vocab", "Token ids are not negative", "A negative id reads the embedding from its end.", _REWRITE),
    (
        "samples.tokens-disagree",
        "pairing",
        "Dumped states and data set are of the same tokens",
        "The loss mask of another conversation would be applied.",
        "Use the data set that the states were dumped from.",
    ),
    (
        "samples.boundaries",
        "recipe",
        "The states that a sample names are those it holds",
        "A recipe of another length cannot be fed.",
        _REWRITE,
    ),
    (
        "samples.data-set",
        "files",
        "The training data set can be read",
        "The loss mask of speculators' dumps is there and nowhere else.",
        _RESAVE,
    ),
    ("samples.write", "pairing", "What is written as a sample can be read back", _BROKEN, "Hand over tensors as the docstring says."),
    (
        "trainers.wiring-unknown",
        "wiring",
        "What training did is known",
        "The same config keys mean different arithmetic to different trainers; a guess that is wrong costs acceptance and nothing else.",
        "Name a contract that states it, or answer with --set.",
    ),
    (
        "trainers.unknown-field",
        "contract",
        "Answers are given to statements that exist",
        "A misspelt answer would be lost.",
        "Correct the path.",
    ),
    (
        "trainers.layer-ids",
        "recipe",
        "Layer ids are whole numbers within the target",
        "An engine wraps or skips such an id silently.",
        "Correct the ids, or name the target they belong to.",
    ),
    (
        "trainers.unknown-trainer",
        "contract",
        "The trainer that is named is installed",
        "Its rules are not known.",
        "Name an installed one, or generic.",
    ),
    (
        "trainers.ambiguous",
        "contract",
        "One trainer recognises the checkpoint best",
        "Two trainers' rules would give two readings.",
        "Say which with --trainer.",
    ),
    (
        "trainers.adapter-broken",
        "files",
        "Every installed trainer's adapter loads",
        "A broken adapter might have been the right one.",
        "Reinstall or remove the package that brings it.",
    ),
    (
        "vocab.no-map",
        "vocab",
        "A vocab map file holds a vocab map",
        "The map that training used would not be compared.",
        "Name a vocab map.",
    ),
    (
        "drafter.config",
        "files",
        "The drafter has a config.json that is an object",
        "Without it nothing says what the tensors are.",
        "Put the drafter's config.json beside its weights.",
    ),
    (
        "drafter.training-state",
        "files",
        "A training state holds the drafter's weights",
        "Another strategy's state has another layout.",
        "Name the training state of an EAGLE-3 run, or an export of it.",
    ),
    (
        "metrics.loss-mask-missing",
        "metric",
        "Accuracy is counted under the loss mask",
        "Every trainer counts only rows under it; without it the figure is another one.",
        "Give the training data set that holds loss_mask.",
    ),
    (
        "metrics.target-logits-missing",
        "metric",
        "What an accuracy is defined by is at hand",
        "speculators and ModelOpt compare with the target's "
        "best token within the draft vocabulary, which an argmax over the full one does not tell.",
        "Give the target.",
    ),
)

RULES: Final[Mapping[str, Rule]] = {
    id_: Rule(id=id_, dimension=dimension, title=title, severity=Severity.ERROR, why=why, remedy=remedy, depth=Depth.VERIFY)
    for id_, dimension, title, why, remedy in _TABLE
}
"""By id. All are required where they apply: an input that breaks one cannot be used."""
