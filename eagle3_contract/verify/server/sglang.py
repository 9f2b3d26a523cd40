"""SGLang's endpoints, as 0.5.23 answers them (entrypoints/http_server.py; seen on the running server).

``/server_info`` (before: ``/get_server_info``) shows every serving flag as it took effect, the keys of the API among them: nothing but the
names in ``FLAGS`` is taken from it. ``/generate`` counts verify steps per request (managers/tokenizer_manager.py:3138-3200), so that other
clients' requests are in no figure.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from contract.errors import UserError
from contract.findings import Json
from contract.jsonio import load_json
from eagle3_contract.verify.engine_runs.definitions import Counts, from_sglang_meta
from eagle3_contract.verify.server.client import Client
from eagle3_contract.verify.server.facts import Prompt, ServerFacts, Told, Window
from eagle3_contract.verify.server.greedy import GREEDY
from eagle3_contract.verify.server.rules import rejected
from eagle3_contract.verify.server.shape import count, flag, mapping, text, token_ids

INFO: Final = ("/server_info", "/get_server_info")
MODEL_INFO: Final = ("/model_info", "/get_model_info")
DRAFTER: Final = "speculative_draft_model_path"
FLAGS: Final = (
    "speculative_algorithm",
    "speculative_num_steps",
    "speculative_eagle_topk",
    "speculative_num_draft_tokens",
    "speculative_token_map",
    "speculative_use_rejection_sampling",
    "speculative_draft_model_quantization",
    "speculative_draft_window_size",
    "context_length",
    "quantization",
    "dtype",
    "device",
    "json_model_override_args",
    "max_running_requests",
    "model_path",
    "tp_size",
    "pp_size",
    "disaggregation_mode",
    "enable_flashinfer_allreduce_fusion",
    "enable_aiter_allreduce_fusion",
)
"""Serving flags that a reading looks at."""


class SglangServer:
    """One SGLang server."""

    def __init__(self, client: Client, facts: ServerFacts, average: float | None) -> None:
        self._client, self._facts, self._average = client, facts, average

    @property
    def facts(self) -> ServerFacts:
        return self._facts

    def since_start(self) -> float | None:
        """``avg_spec_accept_length`` as it stood at the beginning: bonus counted, the prefill's token not (internal_state.py:243-253)."""
        return self._average

    def ask(self, prompt: Prompt, tokens: int) -> Told:
        """Raises UserError: the server's answer is none, or speaks of another prompt."""
        what = f"POST /generate ({prompt.id})"
        body = {"input_ids": list(prompt.input_ids), "sampling_params": {**GREEDY, "max_new_tokens": tokens}, "stream": False}
        answer = mapping(self._client.post_json("/generate", body), what)
        meta = mapping(answer.get("meta_info"), what)
        made, ran = count(meta.get("completion_tokens")), count(meta.get("prompt_tokens"))
        if made is None or made > tokens:
            raise rejected("server.answer", f"{what}: completion_tokens is {meta.get('completion_tokens')!r:.40}, {tokens} were asked for")
        if ran != len(prompt.input_ids):
            raise rejected("server.answer", f"{what}: {ran} prompt tokens were run, {len(prompt.input_ids)} were sent")
        counts = from_sglang_meta(meta)
        window, detail = self._plausible(counts, made)
        ids = token_ids(answer.get("output_ids"), what, tokens)
        return Told(prompt=prompt, tokens=made, output_ids=ids, counts=counts, window=window, detail=detail)

    def _plausible(self, counts: Counts | None, made: int) -> tuple[Window, str]:
        if counts is None:
            return Window.OWN, ""
        found = list(counts.contradictions)
        deepest = self._facts.steps
        if deepest is not None and 1 + counts.rounds + counts.accepted > made + deepest:
            found.append(f"{counts.rounds} verify steps with {counts.accepted} accepted drafts make more than {made} tokens")
        return (Window.CONTRADICTORY, "; ".join(found)) if found else (Window.OWN, "")


def open_sglang(client: Client, max_length: int | None) -> SglangServer | None:
    """A server that answers as SGLang does; None if this is none.

    Args:
        client: asks it.
        max_length: what /v1/models says, if it does.

    Raises:
        UserError: see ``Client.ask``; ``server.answer`` if what it says of itself has another shape.
    """
    info = _first(client, INFO)
    if info is None or text(info.get("version")) is None or not {"speculative_algorithm", "model_path", "internal_states"} & info.keys():
        return None
    about = _first(client, MODEL_INFO) or {}
    # Flags that were not given stand there as null; a drafter that is not named is one, though: the target then drafts for itself.
    flags = {name: flag(info[name]) for name in FLAGS if info.get(name) is not None} | {DRAFTER: flag(info.get(DRAFTER))}
    flags["json_model_override_args"] = _overrides(flags.get("json_model_override_args"))
    algorithm = text(flag(info.get("speculative_algorithm")))
    facts = ServerFacts(
        engine="sglang",
        version=str(info["version"]).partition("+")[0],
        model=text(about.get("served_model_name")) or text(info.get("served_model_name")),
        model_path=text(about.get("model_path")) or text(info.get("model_path")),
        model_type=text(about.get("model_type")),
        drafter=text(info.get(DRAFTER)) if algorithm is not None else None,
        max_length=max_length or count(info.get("context_length")),
        speculates="speculative_algorithm" in info and algorithm is not None,
        algorithm=algorithm,
        steps=count(info.get("speculative_num_steps")),
        topk=count(info.get("speculative_eagle_topk")),
        draft_tokens=count(info.get("speculative_num_draft_tokens")),
        flags=flags,
        notes=("speculative_adaptive is on: steps follow the load",) if info.get("speculative_adaptive") is True else (),
    )
    return SglangServer(client, facts, _average(info.get("internal_states")))


def _first(client: Client, paths: tuple[str, ...]) -> Mapping[str, Any] | None:
    for path in paths:
        found = client.get_json(path)
        if found is not None:
            return mapping(found, f"GET {path}")
    return None


def _overrides(value: Json) -> Json:
    """``--json-model-override-args`` as a mapping; the server shows the text that it was given."""
    if not isinstance(value, str):
        return value
    try:
        return load_json(value.encode("utf-8", "surrogatepass"), file="json_model_override_args") or None
    except UserError:
        return None


def _average(states: Json) -> float | None:
    """Of all data-parallel ranks that have verified something; their numbers of steps are not shown, so that ranks count alike."""
    if not isinstance(states, list):
        return None
    values = [state.get("avg_spec_accept_length") for state in states if isinstance(state, dict)]
    lengths = [float(v) for v in values if isinstance(v, int | float) and not isinstance(v, bool)]
    return sum(lengths) / len(lengths) if lengths else None
