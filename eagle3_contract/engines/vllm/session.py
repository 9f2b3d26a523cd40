"""One capture on one worker: the spool, the probe, the start event, and for a server the prompts and outputs as the worker sees them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import torch

from eagle3_contract.engines.spool import Spool
from eagle3_contract.engines.vllm.hook_points import HookPoints, find, installed_version
from eagle3_contract.engines.vllm.probe import Probe


class Session:
    """A running capture. ``facts`` are those of the start event.

    ``serve``: nobody else knows the prompts, so that the probe writes a prompt event when it first sees a request, and an output event of
    the tokens it saw emitted (cut at ``max_tokens``) when vLLM has dropped the request or the capture ends.
    """

    def __init__(
        self,
        worker: Any,
        *,
        folder: str,
        limit_bytes: int | None = None,
        sweep: bool = False,
        flags: Mapping[str, str] | None = None,
        names: Mapping[str, str] | None = None,
        only: Sequence[str] | None = None,
        serve: bool = False,
        run: str = "",
    ) -> None:
        points = find(worker)
        self.facts = start_facts(points, worker.vllm_config, dict(flags or {}))
        if sweep and self.facts["mode"] != "eager":
            raise RuntimeError(
                "a sweep of all boundaries hooks the target's layers, which a compiled model does not call: start with enforce_eager"
            )
        self.spool = Spool(folder, limit_bytes=limit_bytes)
        self.spool.event("start", **self.facts)
        wanted = None if only is None else frozenset(only)
        if serve:
            self.probe: Probe = ServedProbe(points, self.spool, sweep=sweep, known=names, only=wanted, run=run)
        else:
            self.probe = Probe(points, self.spool, sweep=sweep, known=names, only=wanted)

    def stop(self, counters: Mapping[str, float]) -> None:
        """Take the hooks off; write the outputs that are still open, and the end."""
        self.probe.stop()
        if isinstance(self.probe, ServedProbe):
            self.probe.close()
        self.spool.event("end", counters=dict(counters))


class ServedProbe(Probe):
    """A probe that also writes prompts and outputs, from vLLM's own state of each request."""

    def __init__(self, *args: Any, run: str, **kwargs: Any) -> None:
        self._run = run
        self._open: dict[str, tuple[str, int | None, list[int]]] = {}
        super().__init__(*args, **kwargs)

    def before_request(self, name: str, state: Any) -> None:
        """The prompt event, at the first sight of a request; the outputs of those that are gone."""
        seen = self._open
        if name not in seen:
            sampling = state.sampling_params
            seen[name] = (state.req_id, None if sampling is None else sampling.max_tokens, [])
            prompt = torch.tensor(list(state.prompt_token_ids), dtype=torch.int64)
            self._spool.event("prompt", {"input_ids": prompt}, request=name, prompt_id=name, sample=None, run=self._run)
        for other in [n for n, (internal, _, _) in seen.items() if internal not in self._runner.requests]:
            self._output(other)

    def after_sampling(self, name: str, tokens: list[int]) -> None:
        """Collects what was emitted."""
        self._open[name][2].extend(tokens)

    def close(self) -> None:
        """Write the outputs of all requests that are still open."""
        for name in list(self._open):
            self._output(name)

    def _output(self, name: str) -> None:
        _, most, tokens = self._open.pop(name)
        self._spool.event("output", {"output_ids": torch.tensor(tokens[:most], dtype=torch.int64)}, request=name)


def start_facts(points: HookPoints, config: Any, flags: dict[str, str]) -> dict[str, Any]:
    """What the start event says, from the living engine; ``flags`` are what it was started with."""
    from vllm.config import CompilationMode

    parallel, model = config.parallel_config, config.model_config
    eager = model.enforce_eager or config.compilation_config.mode == CompilationMode.NONE
    return {
        "engine": "vllm",
        "version": installed_version(),
        "runner": "v1",  # the V2 runner lacks the hook points
        "mode": "eager" if eager else "graph",
        "tp": parallel.tensor_parallel_size,
        "pp": parallel.pipeline_parallel_size,
        "device": str(points.runner.device),
        "dtype": str(model.dtype).removeprefix("torch."),
        "layer_ids": points.layer_ids,
        "layers": model.get_total_num_hidden_layers(),
        "target_class": type(points.target).__name__,
        "drafter_class": type(points.drafter).__name__,
        "flags": flags,
    }
