"""The rules of the dynamic depth. No torch here: `contract explain` reads them."""

from __future__ import annotations

from typing import Final

from contract.findings import Depth, Rule, Severity
from eagle3_contract.verify.cost_rules import RULES as COST_RULES
from eagle3_contract.verify.engine_drafter.rules import RULES as ENGINE_DRAFTER_RULES
from eagle3_contract.verify.engine_runs.rules import RULES as ENGINE_RUN_RULES
from eagle3_contract.verify.state_rules import RULES as STATE_RULES


def _rule(
    id_: str, title: str, why: str, remedy: str, dimension: str, *, depth: Depth | None = Depth.VERIFY, severity: Severity = Severity.ERROR
) -> Rule:
    return Rule(id=id_, title=title, severity=severity, dimension=dimension, why=why, remedy=remedy, depth=depth)


GOLDEN_LOGITS: Final = _rule(
    "golden.logits",
    "The drafter reproduces its golden rows",
    "Golden rows are inputs and logits of the trainer's own forward. If the forward with the contract's wiring misses "
    "them, the contract does not state what training did (or the weights are not the ones that were trained): a flipped "
    "norm or residual moves logits by 5 to 7, a different feedback shows only from step 1 on. Served so, acceptance "
    "falls without any error.",
    "Compare the wiring fields of the contract with the trainer's code; the first step and row that part are named.",
    "wiring",
)
GOLDEN_STATES: Final = _rule(
    "golden.states",
    "The drafter reproduces the intermediate states of its golden rows",
    "A golden file may hold the stream behind fc and what each step hands to the next one. The first of them that is missed says where "
    "the forward parts from the trainer's: fc_out means the norms before fc, the recipe's order or fc itself; a state with fc_out kept "
    "means the layer, the rope or what is fed back.",
    "Compare the wiring fields of the contract with the trainer's code up to the first state that is missed.",
    "wiring",
)
GOLDEN_PROOF: Final = _rule(
    "golden.produced-by",
    "The golden rows were made by the trainer",
    "Rows made by this tool are a regression test of the forward. With a wrong switch in the contract they were made wrong as well.",
    "Let the trainer write the golden rows from its own forward.",
    "wiring",
    depth=None,
    severity=Severity.NOTE,
)
PATH_LOGITS: Final = _rule(
    "paths.logits",
    "Training path and inference path give the same logits",
    "The drafter was run with the contract's recipe and wiring on training states, and with the engine's recipe and "
    "wiring on captured states. Where their logits part, the engine runs another drafter than the one that was trained; "
    "text stays right, acceptance falls. A wrong feedback or position shows only from step 1 on, so every step is "
    "compared.",
    "Look at the place where the two paths part first: states mean the recipe, a norm or the residual means a wiring "
    "flag, attention means rope or window.",
    "wiring",
)
CLAIM: Final = _rule(
    "accuracy.claim",
    "The drafter reproduces its claimed training accuracy on its own samples",
    "The standalone test of the incident: fed the states it was trained on, a sound drafter gets the accuracy that "
    "training reported, in training's own definition (the same predictions are 0.77, 0.94 or 0.91, depending on who "
    "counts). If it does not, the weights, the wiring or the samples are not those of training; nothing about an engine "
    "can mend that.",
    "Compare the wiring in the contract with the trainer's code; look at the vocab map, the rope and the loss mask.",
    "metric",
)
DROP: Final = _rule(
    "accuracy.inference",
    "The inference path is as accurate as the training path",
    "Fed what the engine feeds it, the drafter predicts worse than on the states of training. This is what a mismatch "
    "costs; the states and the first differing tensor say why. Small faults (a layer early or late) hide in this "
    "figure; that is why it is not the only check.",
    "See the findings on states and logits.",
    "recipe",
)
LENGTH: Final = _rule(
    "acceptance.inference",
    "The inference path accepts as many drafts as the training path",
    "Accepted length is throughput. Measured as a paired difference over the samples with a bootstrap interval, because "
    "samples differ more from each other than the paths do.",
    "See the findings on states and logits.",
    "recipe",
)
FLOOR: Final = _rule(
    "acceptance.floor",
    "The accepted length is above the contract's floor",
    "Below the floor the drafter is not worth serving.",
    "See the findings on states and logits; if there are none, train longer or lower the floor deliberately.",
    "metric",
    depth=None,
)
COVERAGE: Final = _rule(
    "vocab.sample-coverage",
    "The draft vocabulary covers the samples' tokens as far as the claimed accuracy needs",
    "A token outside the draft vocabulary can never be proposed, so the coverage of the target's tokens is a ceiling "
    "for every accuracy over the full vocabulary.",
    "Check that the vocab map belongs to this target and tokenizer, and to this data.",
    "vocab",
)
RUNNABLE: Final = _rule(
    "paths.runnable",
    "The drafter runs under the contract and under the engine's reading",
    "A wiring that contradicts the checkpoint (a tensor is missing, a width does not fit) cannot be what training ran, "
    "or cannot be what the engine runs.",
    "Correct the wiring in the contract, or export the drafter with the tensors that it needs.",
    "wiring",
)
STATEMENTS: Final = _rule(
    "contract.unknown-statement",
    "The contract says enough to run the drafter",
    "A field that decides the arithmetic is stated as unknown, so neither path can be computed.",
    "Answer the unknown statements; the reason beside each says where to look.",
    "contract",
)
SAMPLES_THERE: Final = _rule(
    "samples.there",
    "There are training samples to verify on",
    "Without a sample nothing shows that the drafter reproduces its training, or that captured states are the trained ones.",
    "Give the samples with --samples, or commit them beside the contract.",
    "alignment",
)
SAMPLES_LISTED: Final = _rule(
    "samples.listed",
    "The samples are exactly the ones that the contract lists",
    "A sample that is missing, or one that nobody listed, changes every figure; a verification on a part of the samples "
    "is no verification.",
    "Restore the listed files, or list what belongs to the contract.",
    "alignment",
)
SAMPLES_DIGEST: Final = _rule(
    "samples.digest",
    "Every sample has its listed digest",
    "The sample is not the one that the contract was written for.",
    "Restore the file, or write the contract again from the samples that training used.",
    "alignment",
)
SAMPLES_LAYOUT: Final = _rule(
    "samples.layout",
    "Samples store what the contract says they store",
    "The contract says which states a sample stores, in stored order; picked by a wrong list, right samples feed a "
    "wrong recipe. The incident's dump was a list of four states of which `[:-1]` was fed.",
    "Correct training.samples.states, or write the samples again.",
    "recipe",
)
LAST_STATE: Final = _rule(
    "samples.last-state",
    "The last state of the samples is the one that the contract names, normed or not as it says",
    "Training's targets are the head's argmax over this state. A state that is stored behind the final norm and normed again, or stored "
    "before it and never normed, gives other targets than the model: the drafter learns them, its accuracy falls by some points, and no "
    "file looks wrong (speculators 0.3.0, custom_worker).",
    "Correct training.target_state, or write the samples again with the state that the trainer expects.",
    "alignment",
)
SAMPLES_ALIKE: Final = _rule(
    "samples.rows-alike",
    "The states of a sample differ from token to token",
    "A buffer that was never filled, or one row written everywhere, has right shapes and finite values. Whatever training did with it, it "
    "learned nothing; among many samples it only lowers the average.",
    "Write the sample again, or leave it out of the contract's list.",
    "alignment",
)
SAMPLES_APART: Final = _rule(
    "samples.apart",
    "No sample fares far worse than the others",
    "States of another text, or shifted against their tokens, are finite, of the right shape, and predict next to nothing. Among many "
    "samples such a one only lowers the average a little, and widens the interval that the average is judged by.",
    "Look at the sample that is named: do its states belong to its tokens? A capture of the same tokens tells (`--engine`). A text unlike "
    "the others may fare so, too.",
    "alignment",
    severity=Severity.WARNING,
)
CAPTURE_GREEDY: Final = _rule(
    "capture.greedy",
    "The target's tokens in the capture are those of its own final states",
    "Accepted drafts and accuracy are counted against these tokens. Where they are not what the target's head says about the states that "
    "the capture holds, they are of another row, of another target, or sampled.",
    "Record the argmax of the target's logits for each row.",
    "alignment",
)
CAPTURE_TARGET: Final = _rule(
    "capture.target",
    "The capture was taken from the contract's target",
    "States of another target (another depth, another tokenizer) say nothing about this drafter.",
    "Capture from the target that the contract names.",
    "pairing",
)
CAPTURE_TARGET_FILES: Final = _rule(
    "capture.target-files",
    "The target at hand is the one that the capture was taken from",
    "A capture names the digests of its target's files. Where --target has other ones, its embedding and head are not those whose states "
    "were captured: both paths are computed with tables of another model.",
    "Give the target of the capture, or capture again from this one.",
    "pairing",
)
EMBEDDING_ROWS: Final = _rule(
    "samples.embedding-rows",
    "Boundary 0 of the samples is the target's embedding of their tokens",
    "Another target of the same shapes (a fine-tune, an earlier release) passes every comparison of sizes. Where the contract does not "
    "know the target's fingerprint, the samples' own first states are the only witness.",
    "Give the target that the samples were made with; then state its fingerprint in the contract.",
    "pairing",
)
CAPTURE_DRAFTER: Final = _rule(
    "capture.drafter",
    "The capture was taken for this drafter's files",
    "The engine read another checkpoint than the one that is verified: a stale copy, or another revision.",
    "Serve the files that the contract lists, and capture again.",
    "pairing",
)
CAPTURE_SAMPLES: Final = _rule(
    "capture.samples",
    "The capture holds every sample",
    "Row-by-row comparison needs the same tokens on both sides; a sample that the capture lacks is not verified.",
    "Capture with `--samples`, so that every sample's tokens are run.",
    "alignment",
)
CAPTURE_PROMPT: Final = _rule(
    "capture.prompt",
    "Every request repeats the tokens of its sample",
    "The request says that it is a sample, and its tokens are others: the states belong to another prompt, or the "
    "tokenizer or the template changed.",
    "Run the sample's own token ids.",
    "alignment",
)

CAPTURE_ALIASED: Final = _rule(
    "capture.aliased",
    "Different boundaries of a capture hold different values",
    "A target that adds to its stream in place, hooked by reference, yields the last layer for every boundary; so does one buffer that "
    "every layer writes. All slots then carry one state, whatever the ids say, and candidates that are equal can name nothing.",
    "Copy the stream in the hook, before the layer runs on.",
    "engine",
)
CAPTURE_POSITIONS: Final = _rule(
    "capture.positions",
    "Positions advance by one a row",
    "Rotary embeddings see differences of positions only: a constant offset costs nothing, rows out of order or all at one position cost "
    "the attention its order. A chunk that begins at 0 again, or rows of two requests, look like this.",
    "Look at the rows named: chunked prefill, a reused position buffer, rows joined by offset instead of request id.",
    "alignment",
)
CAPTURE_RECIPE: Final = _rule(
    "capture.recipe-fed",
    "The manifest says what the slots carry",
    "The inference path is run, and the remedy is written, for the recipe that the manifest states. Where the slots carry another one, the "
    "manifest was written by hand or belongs to other files.",
    "Capture again.",
    "recipe",
)

GOLDEN_MALFORMED: Final = _rule(
    "golden.malformed",
    "A golden file holds what its format says",
    "Rows that cannot be read prove nothing, and rows read in a lenient way could prove anything.",
    "Write the file with the trainer's stamp, in the format of docs/golden-format.md.",
    "files",
)
GOLDEN_SAMPLE: Final = _rule(
    "golden.no-sample",
    "There is a sample to make golden rows from",
    "Golden rows need a prefix of tokens with the states of the recipe.",
    "Give training samples with --samples.",
    "files",
)
TARGET_HEAD: Final = _rule(
    "target.head",
    "The target's logits can be computed from its stored last state",
    "Training accuracy is agreement with the target's own argmax. For families whose head is not known to be plain (caps, scales) "
    "it is not guessed.",
    "Give samples that record target_argmax, or a capture that records the target's greedy tokens.",
    "metric",
)
OFFERED: Final = _rule(
    "verify.not-offered",
    "This version does what is asked for",
    "What is not implemented is refused, and not passed over.",
    "See the message for what to use instead.",
    "tool",
)
CONTRACT_CHANGED: Final = _rule(
    "verify.contract-changed",
    "Every worker finds the contract that the run began with",
    "Counts under two contracts must not be added up.",
    "Leave the contract alone while it is verified, and let every machine see the same file.",
    "tool",
)
WORKER_DIED: Final = _rule(
    "verify.worker-died",
    "Every worker process lives to its end",
    "What a worker was measuring is lost, and figures over a part of the samples are no figures.",
    "Most often memory ran out: use fewer --workers. With --resume FILE nothing that was measured is lost.",
    "tool",
)
JOURNAL: Final = _rule(
    "verify.journal",
    "A journal that a run goes on with is of this very run, and whole",
    "Counts of another contract, other weights or another target, or a line that somebody edited, would pass as measured.",
    "Name another file with --resume, or delete this one to measure everything again.",
    "tool",
)
RAY_MISSING: Final = _rule(
    "verify.ray-missing",
    "The executor ray finds the package ray",
    "Ray is an extra: who verifies on one machine does not need it.",
    "Install it with pip install 'eagle3-contract[ray]', or leave --executor out.",
    "tool",
)
RAY_FAILED: Final = _rule(
    "verify.ray-failed",
    "The Ray cluster lives to the end of the run",
    "Figures over a part of the samples are no figures.",
    "Check `ray status`, and that every machine has this package and sees the same files; or leave --executor out.",
    "tool",
)
ENGINE_WIRING: Final = _rule(
    "drafter.engine-wiring",
    "The drafter can be run as the engine reads it",
    "An engine that refuses the checkpoint, or whose runners differ, has no single wiring to run.",
    "See `contract read` for what the engine makes of the drafter; name one runner.",
    "wiring",
)

GOLDEN_STEPS: Final = _rule(
    "golden.steps",
    "Golden rows hold three steps",
    "What is fed back shows only from step 1 on, and a normed state fed back from step 2: rows of fewer steps leave that unproven.",
    "Let the trainer write at least three steps.",
    "wiring",
    depth=None,
    severity=Severity.NOTE,
)
PATH_WIRING: Final = _rule(
    "paths.wiring",
    "On the same states, the engine's wiring gives the logits of training's",
    "Both wirings were run on the states that the engine fed, so noise of the capture cannot hide a difference: what is left is "
    "the wiring's. A wrong "
    "norm, residual, feedback, rope or window costs acceptance and changes no text.",
    "Look at the intermediate tensor named: a norm or the residual means a flag, attention means rope or window; `contract read` "
    "shows the engine's value.",
    "wiring",
)

RULES: Final = (
    GOLDEN_STEPS,
    PATH_WIRING,
    *STATE_RULES,
    *COST_RULES,
    *ENGINE_RUN_RULES,
    *ENGINE_DRAFTER_RULES,
    GOLDEN_LOGITS,
    GOLDEN_STATES,
    GOLDEN_PROOF,
    PATH_LOGITS,
    CLAIM,
    DROP,
    LENGTH,
    FLOOR,
    COVERAGE,
    RUNNABLE,
    STATEMENTS,
    SAMPLES_THERE,
    SAMPLES_LISTED,
    SAMPLES_DIGEST,
    SAMPLES_LAYOUT,
    LAST_STATE,
    SAMPLES_ALIKE,
    SAMPLES_APART,
    CAPTURE_TARGET,
    CAPTURE_TARGET_FILES,
    EMBEDDING_ROWS,
    CAPTURE_DRAFTER,
    CAPTURE_SAMPLES,
    CAPTURE_PROMPT,
    CAPTURE_ALIASED,
    CAPTURE_POSITIONS,
    CAPTURE_RECIPE,
    CAPTURE_GREEDY,
    GOLDEN_MALFORMED,
    GOLDEN_SAMPLE,
    TARGET_HEAD,
    OFFERED,
    CONTRACT_CHANGED,
    WORKER_DIED,
    JOURNAL,
    RAY_MISSING,
    RAY_FAILED,
    ENGINE_WIRING,
)
