"""The rules about a running server. No torch."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from contract.errors import InputRejected, ToolError, UsageError
from contract.findings import Depth, Rule, Severity

_E, _W, _N = Severity.ERROR, Severity.WARNING, Severity.NOTE
_HTTP: Final = (
    "What a server sends is as hostile as any file: nothing of it is believed that does not parse, and nothing is read without end."
)

# fmt: off
_TABLE: Final[tuple[tuple[str, Severity, str, str, str, str], ...]] = (
    # id after "server.", severity, dimension, title (true when all is well), why, remedy
    ("url", _E, "engine", "The server is named by an http or https URL without credentials",
     "A URL ends up in reports and logs, and so would a password in it. A query or a fragment has no meaning for a server's root.",
     "Write --server http://HOST:PORT, without /v1; the API key goes into the environment variable EAGLE3_CONTRACT_API_KEY."),
    ("api-key", _E, "engine", "The API key is one that a header can carry",
     "A line end in a header would start another one.",
     "Set EAGLE3_CONTRACT_API_KEY to the key alone: printable ASCII, no line end."),
    ("unreachable", _E, "engine", "The server answers",
     "Nothing can be said of a server that cannot be reached, or that stops in the middle of an answer.",
     "Check the address, and from where it can be reached."),
    ("too-slow", _E, "engine", "The server answers within the time that a request, and the whole run, may take",
     "A server that answers drop by drop would hold whoever asks for ever; the limits are server_request_seconds and server_seconds.",
     "Ask for fewer tokens (--max-new-tokens) or fewer prompts (--prompts); look at the server's load."),
    ("denied", _E, "engine", "The server lets this client ask",
     "Without its key a server answers 401 or 403, and nothing was measured.",
     "Set EAGLE3_CONTRACT_API_KEY in the environment."),
    ("redirect", _E, "engine", "The server answers itself",
     "A redirect would send prompts and the API key to a place that nobody named.",
     "Name the address that the redirect leads to, if it is the server."),
    ("answer", _E, "engine", "The server's answers are what its engine sends",
     _HTTP,
     "See the message; ask the engine itself, not a proxy that rewrites its answers."),
    ("limit-exceeded", _E, "engine", "Prompts, tokens and answers stay within the limits",
     _HTTP,
     "Ask for less; limits (docs/limits.md) can be lowered, not raised."),
    ("engine", _E, "engine", "The server is vLLM or SGLang",
     "Counters mean different things in different engines: a figure of another one would be compared with something that it is not.",
     "Name the root of a vLLM or SGLang server (not a router before it, and without /v1)."),
    ("prompts", _E, "alignment", "There are prompts to send",
     "Acceptance depends on the text: it is measured on the contract's own prompts, as token ids, so that no template lies in between.",
     "Give samples with --samples, or a file with --prompts ({\"id\": ..., \"input_ids\": [...]} on each line)."),
    ("speculation", _E, "flags", "The server drafts",
     "A server whose drafter is absent or switched off is healthy and answers right, one token at a time. SGLang drafts nothing without "
     "--speculative-algorithm, vLLM nothing without --speculative-config, and both drop their counters then.",
     "Start the server with the drafter; `contract card` has the command line."),
    ("serving", _E, "flags", "The server drafts as many steps, branches and tokens as the contract's serving section says",
     "SGLang overwrites num_draft_tokens by steps + 1 at topk 1 with one warning line: --speculative-num-steps 1 limited 16 draft "
     "tokens to 2 in the incident that this project was born from.",
     "Give the server the flags of the contract's serving section."),
    ("model", _E, "pairing", "The server runs the target of the contract",
     "A drafter follows one target. A merged, quantised or newer one under the same API has other states.",
     "Serve the contract's target, or train and state a drafter for this one."),
    ("drafter", _W, "pairing", "The server runs the drafter of the contract",
     "A server goes on with the drafter that it was started with, whatever has been committed since.",
     "Start the server with the folder of this contract."),
    ("version-read", _W, "engine", "The engine's version is one whose reading is known",
     "What an engine makes of a checkpoint changes between releases; the readings cover the releases that were read.",
     "Capture from this version, or verify with the nearest one that is known (`contract check --engine`)."),
    ("counters", _E, "metric", "The server's counters show the requests that were sent",
     "Counters that shrink, stand still or are no numbers come from another process than the one that answered (a restart, a load "
     "balancer), or statistics are off (vLLM --disable-log-stats): every figure made of them would be wrong.",
     "Ask one replica, and do not restart it in between; leave the engine's statistics on."),
    ("traffic", _E, "metric", "Enough requests ran without others counted beside them",
     "vLLM has no counters of a single request: what other clients get in between is in the difference too, and is no answer to these "
     "prompts. A request with foreign tokens beside it is left out.",
     "Ask again when the replica is idle, or take it out of rotation for a minute."),
    ("answers", _W, "metric", "Every prompt was run",
     "A prompt that is too long for the server, or whose answer ends at once, says nothing about drafting.",
     "Give prompts that leave room for an answer."),
    ("rounds", _E, "metric", "The requests made enough verify steps to judge by",
     "A handful of steps gives any figure.",
     "Give more prompts, or more tokens with --max-new-tokens."),
    ("predicted", _E, "metric", "The server accepts as many drafts as the training path does on the samples",
     "The drafter with the states of training shows what it can do; a server that stays significantly below it feeds it something else. "
     "The server's own text is not the samples', which moves the figure a little: only a difference beyond the interval counts.",
     "Run `contract check --engine` for the reading, and verify a capture: states name the place, acceptance only the loss."),
    ("decoding", _W, "metric", "Nothing at the server bends greedy decoding",
     "Acceptance is measured greedy. A server that relaxes acceptance, or adapts its drafts to the load, counts something else.",
     "See the message for the flag."),
)
_BASELINE: Final = Rule(
    id="acceptance.baseline", severity=_E, dimension="metric", depth=None,
    title="The accepted length reaches what the contract recorded for this engine",
    why="The floor says from where on a drafter is worth serving, a baseline what it did once on this engine: in between lies the "
    "regression that nobody notices (vLLM#41838: 3.07 to 2.8 within hours).",
    remedy="Compare flags and version with the day on which the baseline was taken; its source is in the contract.",
)
# fmt: on

TABLE: Final[Mapping[str, Rule]] = {
    f"server.{name}": Rule(
        id=f"server.{name}", title=title, severity=severity, dimension=dimension, why=why, remedy=remedy, depth=Depth.LIVE
    )
    for name, severity, dimension, title, why, remedy in _TABLE
}
RULES: Final = (*TABLE.values(), _BASELINE)
SPECULATION: Final = TABLE["server.speculation"]
SERVING: Final = TABLE["server.serving"]
MODEL: Final = TABLE["server.model"]
DRAFTER: Final = TABLE["server.drafter"]
VERSION_READ: Final = TABLE["server.version-read"]
COUNTERS: Final = TABLE["server.counters"]
TRAFFIC: Final = TABLE["server.traffic"]
ANSWERS: Final = TABLE["server.answers"]
ROUNDS: Final = TABLE["server.rounds"]
PREDICTED: Final = TABLE["server.predicted"]
DECODING: Final = TABLE["server.decoding"]
ENGINE: Final = TABLE["server.engine"]
BASELINE: Final = _BASELINE


def usage(rule: str, message: str) -> UsageError:
    """The command line names something that cannot be asked."""
    return UsageError(message, rule=rule, fix=TABLE[rule].remedy)


def failed(rule: str, message: str) -> ToolError:
    """The server did not answer, or not in time."""
    return ToolError(message, rule=rule, fix=TABLE[rule].remedy)


def rejected(rule: str, message: str) -> InputRejected:
    """The server answered something that is not to be believed."""
    return InputRejected(message, rule=rule, fix=TABLE[rule].remedy)
