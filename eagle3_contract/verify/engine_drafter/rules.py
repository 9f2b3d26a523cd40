"""The rules about the engine's drafter, as a capture shows it. No torch here: `contract explain` reads them."""

from __future__ import annotations

from typing import Final

from contract.findings import Depth, Rule, Severity

_SILENT: Final = "Speculation stays lossless, so the text stays right and nothing crashes; only acceptance falls. "


def _rule(name: str, title: str, why: str, remedy: str, *, dimension: str = "engine") -> Rule:
    return Rule(id=f"engine.{name}", title=title, severity=Severity.ERROR, dimension=dimension, why=why, remedy=remedy, depth=Depth.VERIFY)


COUNTS: Final = _rule(
    "forwards-counted",
    "As many forwards, rounds and requests were recorded as the engine counted",
    "A forward that no hook saw (a captured graph, another worker, a full disk) is a forward that nobody looked at. The engine's own "
    "counters "
    "say how many there were.",
    "Capture in eager mode, with one worker, or with a larger limit; then look at the forwards that are missing.",
)
ROWS: Final = _rule(
    "rows-accounted",
    "Every row that the drafter ran is used or known junk",
    "Engines run rows by design that nobody uses: rejected drafts behind the accepted ones, drafts after each chunk of a prompt, drafts "
    "that are "
    "never verified at the end. Any other row, and a committed token whose row never ran from the target's states, is a fault of the "
    "loop: its "
    "slot of the key/value cache holds something else than training saw. " + _SILENT,
    "Look at the forward that is named: how the engine chose its rows from what was accepted.",
)
IDS: Final = _rule(
    "input-ids",
    "Every row is fed its token: row p token p+1, a draft step the token proposed before it",
    "Training pairs state g[p] with token x[p+1]. An engine that shifts by none or by two, or feeds a token from another row, makes the "
    "drafter predict another place of the text; at a chunk's last row only the next token of the prompt is right. " + _SILENT,
    "See which token was fed instead: shift, chunk boundaries and what is taken for the sampled token.",
)
POSITIONS: Final = _rule(
    "positions",
    "Every row stands at its position: row p at p, draft step s of row p at p+s",
    "A rotary embedding knows only distances: one constant offset changes nothing for a plain rope (it does where the frequencies "
    "depend on the "
    "length), but draft rows that stay at one position, or stand one further than the committed rows, turn every key against every "
    "other. " + _SILENT,
    "See whether the offset is constant, in the draft steps only, or grows: the engine's positions after verifying are where this goes "
    "wrong.",
)
FC_INPUT: Final = _rule(
    "fc-input",
    "What reaches fc in a row are the captured states of that row's token",
    "The states were captured rightly (the rules states.*), and then rows or slots were mixed up on their way to fc: another token's, "
    "another "
    "request's, the slots in another order. " + _SILENT,
    "See whose states the row carries: indices into a padded or flattened batch are the usual cause.",
)
FC_OUTPUT: Final = _rule(
    "fc-output",
    "fc gives what ours gives on the same input",
    "The norms before fc, its columns' order, its bias or its weights are not the contract's; or fc is skipped: SGLang 0.5.23 skips it, "
    "its "
    "norms too, wherever one state of the drafter's own width is fed (llama_eagle3.py:238). " + _SILENT,
    "See which variant reproduces the engine; `contract read` shows what the engine makes of the flags.",
    dimension="wiring",
)
HIDDEN_INPUT: Final = _rule(
    "hidden-input",
    "Rows of the prompt and of verified tokens are handed what fc gave for them",
    "Between fc and the layers rows are gathered, padded and copied into buffers. A row that carries the neighbour's, or a raw state, was "
    "never seen in training. " + _SILENT,
    "See what the row carries instead.",
)
FEEDBACK: Final = _rule(
    "feedback",
    "A draft step is handed the state that its parent row gave out",
    "Training unrolls the drafter on its own state. A stale buffer, a sibling's state or another request's looks like a weak drafter "
    "from step "
    "1 on and like nothing at step 0; the state behind the final norm instead of the one before it shows only in later steps. " + _SILENT,
    "See what the row carries: after the norm means the key norm_output, another row means how the engine picks the last accepted one.",
)
FORWARD: Final = _rule(
    "drafter-forward",
    "The engine's layers give what ours give on the same inputs",
    "Ids, positions, states handed in and the key/value cache are the engine's own in both; what is left is the arithmetic of its "
    "layers, or a "
    "cache that holds other rows. No hypothesis that was tried reproduces it. " + _SILENT,
    "Start at the row that is named: the rows before it agree. The distance and the nearest hypothesis say how far off it is.",
)
WIRING: Final = _rule(
    "drafter-wiring",
    "The engine wires the drafter as the contract says",
    "The engine's layers give something else than the contract's wiring on the same inputs, and one other wiring gives the engine's "
    "numbers: this is "
    "what it runs. A flipped norm_before_residual moves states by half their length. " + _SILENT,
    "Set the key that the engine reads for this field (`contract read` names it), or train for what the engine does.",
    dimension="wiring",
)
KV: Final = _rule(
    "draft-kv",
    "Every row sees the committed rows and its own branch, and nothing else",
    "The drafter's key/value cache must hold one row for each committed token, computed from the target's states, and this round's "
    "ancestors. "
    "Rejected rows that stay, speculative rows that are not rewritten, a branch that reads another branch's rows, a neighbour's cache: "
    "each "
    "needs accepted drafts to show, and then grows with them. " + _SILENT,
    "The state of the cache that reproduces the engine is named: look at how it computes lengths and slots after verifying.",
)
LOGITS: Final = _rule(
    "logits",
    "The engine's logits are our head on the engine's own final state",
    "A head that the engine shares from the target instead of the drafter's, cuts to its first rows, or scales, gives logits of "
    "something else. " + _SILENT,
    "See which head reproduces the logits; `contract read` shows where the engine takes its head from.",
)
VOCAB_MAP: Final = _rule(
    "vocab-map",
    "Draft ids become the target's tokens as the contract's map says",
    "d2t holds offsets for some and absolute ids for others: an absolute map that is read as offsets stays in range and proposes wrong "
    "tokens without a word; a map in another order than the head's rows does the same. " + _SILENT,
    "Write d2t in the form that the engine reads, with one entry for each row of the head.",
    dimension="vocab",
)
PROPOSALS: Final = _rule(
    "proposals",
    "The engine proposes what its own logits rank first",
    "Greedy drafting proposes the argmax, a tree the best few. A proposal that the logits do not rank there was taken from another row, "
    "another "
    "step or another request, or sampled. " + _SILENT,
    "See which row's argmax was proposed.",
)
VERIFICATION: Final = _rule(
    "verification",
    "What was emitted follows from what was proposed and from the target's own tokens",
    "Verifying accepts the longest prefix (in a tree: path) of the proposals that the target itself would have written and adds one "
    "token. A "
    "right draft that is refused costs throughput, a wrong one that is accepted changes the text.",
    "Look at the round that is named.",
)

RULES: Final = (
    *(COUNTS, ROWS, IDS, POSITIONS, FC_INPUT, FC_OUTPUT, HIDDEN_INPUT, FEEDBACK, FORWARD, WIRING, KV, LOGITS, VOCAB_MAP, PROPOSALS),
    VERIFICATION,
)
