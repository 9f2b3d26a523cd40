"""vLLM's endpoints, as 0.32.0 answers them (entrypoints/serve, v1/metrics/loggers.py; seen on the running server).

Nothing of ``/version``, ``/v1/models`` and ``/metrics`` shows the drafter or the flags, but for the number of draft tokens: one
``position`` of a counter each. ``/server_info`` does, where the server runs in development mode. There is no counter of one request:
``/metrics`` is read before and after each, and ``traffic`` tells whether others were counted in between.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import Any, Final

from contract.errors import UserError
from contract.findings import Json
from eagle3_contract.verify.engine_runs.definitions import Counts
from eagle3_contract.verify.server.client import Client
from eagle3_contract.verify.server.facts import Prompt, ServerFacts, Told
from eagle3_contract.verify.server.greedy import GREEDY
from eagle3_contract.verify.server.rules import rejected
from eagle3_contract.verify.server.shape import count, flag, mapping, text, token_ids
from eagle3_contract.verify.server.traffic import Reading, judge_window, read_counters

ANSWER: Final[Mapping[str, Json]] = {"n": 1, "stream": False, "return_token_ids": True}
METRICS: Final = "/metrics"
DEVELOPMENT: Final = "/server_info?config_format=json"
"""There only under VLLM_SERVER_DEV_MODE=1 (entrypoints/serve/dev/server_info/api_router.py)."""
SETTLING: Final = (0.0, 0.02, 0.05, 0.1, 0.2, 0.4, 0.8)
"""Seconds between readings until a request that was answered is in the counters: an answer is sent before its step is counted."""


class VllmServer:
    """One vLLM server."""

    def __init__(self, client: Client, facts: ServerFacts, first: Reading) -> None:
        self._client, self._facts, self._first = client, facts, first

    @property
    def facts(self) -> ServerFacts:
        return self._facts

    def since_start(self) -> float | None:
        """From the counters as they stood at the beginning."""
        drafted: Counts | None = self._first.drafted
        return drafted.length if drafted is not None and drafted.rounds else None

    def ask(self, prompt: Prompt, tokens: int) -> Told:
        """Raises UserError: the server's answer is none, or speaks of another prompt; its counters cannot be read."""
        what = f"POST /v1/completions ({prompt.id})"
        before = self._read()
        body = {**GREEDY, **ANSWER, "model": self._facts.model, "prompt": list(prompt.input_ids), "max_tokens": tokens}
        answer = mapping(self._client.post_json("/v1/completions", body), what)
        usage = mapping(answer.get("usage"), what)
        made, ran = count(usage.get("completion_tokens")), count(usage.get("prompt_tokens"))
        if made is None or made > tokens:
            raise rejected("server.answer", f"{what}: completion_tokens is {usage.get('completion_tokens')!r:.40}, {tokens} were asked for")
        if ran != len(prompt.input_ids):
            raise rejected("server.answer", f"{what}: {ran} prompt tokens were run, {len(prompt.input_ids)} were sent")
        choices = answer.get("choices")
        choice = choices[0] if isinstance(choices, list) and choices and isinstance(choices[0], dict) else {}
        after = self._settled(before, made)
        window, counts, detail = judge_window(before, after, tokens=made, deepest=self._facts.steps)
        ids = token_ids(choice.get("token_ids"), what, tokens)
        return Told(prompt=prompt, tokens=made, output_ids=ids, counts=counts, window=window, detail=detail)

    def _read(self) -> Reading:
        return read_counters(self._client.get_text(METRICS), f"GET {METRICS}")

    def _settled(self, before: Reading, made: int) -> Reading:
        """Read until the answered tokens and the request are counted, or no longer is waited."""
        for pause in SETTLING:
            time.sleep(pause)
            after = self._read()
            if after.generated is None or before.generated is None or after.generated < before.generated:
                break
            counted = after.generated - before.generated >= made
            if counted and (after.finished is None or before.finished is None or after.finished > before.finished):
                break
        return after


def open_vllm(client: Client, model: str | None, model_path: str | None, max_length: int | None) -> VllmServer | None:
    """A server that answers as vLLM does; None if this is none. Raises UserError, see ``Client.ask``."""
    said = client.get_json("/version")
    version = text(mapping(said, "GET /version").get("version")) if said is not None else None
    if version is None:
        return None
    first = read_counters(client.get_text(METRICS), f"GET {METRICS}")
    config = _development(client)
    asked = config.get("speculative_config")
    speculative: Mapping[str, Any] = asked if isinstance(asked, dict) else {}
    flags: dict[str, Any] = {} if max_length is None else {"max_model_len": max_length}
    if config:
        names = ("method", "model", "num_speculative_tokens", "rejection_sample_method", "quantization")
        flags["speculative_config"] = {n: flag(speculative[n]) for n in names if speculative.get(n) is not None} or None
    steps = count(speculative.get("num_speculative_tokens")) or first.positions
    synthetic = speculative.get("rejection_sample_method") == "synthetic"
    facts = ServerFacts(
        engine="vllm",
        version=version.partition("+")[0],
        model=model,
        model_path=_model_path(config) or model_path,
        drafter=text(speculative.get("model")),
        max_length=max_length,
        speculates=None if first.generated is None else first.drafted is not None,
        algorithm=text(flag(speculative.get("method"))),
        steps=steps,
        topk=None if steps is None else 1,
        draft_tokens=None if steps is None else steps + 1,
        flags=flags,
        notes=("rejection_sample_method is synthetic: acceptance is drawn, not decided by the target",) if synthetic else (),
    )
    return VllmServer(client, facts, first)


def _development(client: Client) -> Mapping[str, Any]:
    """``vllm_config`` of a server in development mode; empty elsewhere, also where a gateway refuses what it does not know."""
    try:
        found = client.get_json(DEVELOPMENT)
    except UserError as error:
        if error.rule not in ("server.denied", "server.redirect", "server.answer"):
            raise
        return {}
    config = found.get("vllm_config") if isinstance(found, dict) else None
    return config if isinstance(config, dict) else {}


def _model_path(config: Mapping[str, Any]) -> str | None:
    model = config.get("model_config")
    return text(model.get("model")) if isinstance(model, dict) else None
