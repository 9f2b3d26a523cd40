"""One capture on one worker: the spool, the probe, the start event, and for a server the prompts and outputs as the worker sees them."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch

from eagle3_contract.engines.spool import Spool
from eagle3_contract.engines.vllm.hook_points import REMOVED, HookPoints, find, installed_version
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
        self.facts = start_facts(points, worker.vllm_config, flags)
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

    def __init__(self, points: HookPoints, spool: Spool, *, run: str, **options: Any) -> None:
        self._run = run
        self._open: dict[str, tuple[int | None, list[int]]] = {}
        super().__init__(points, spool, **options)
        self._wrap(points.runner, REMOVED, self._removed)

    def before_request(self, name: str, state: Any) -> None:
        """The prompt event, at the first sight of a request."""
        if name in self._open:
            return
        sampling = state.sampling_params
        self._open[name] = (None if sampling is None else sampling.max_tokens, [])
        prompt = torch.tensor(list(state.prompt_token_ids), dtype=torch.int64)
        self._spool.event("prompt", {"input_ids": prompt}, request=name, prompt_id=name, sample=None, run=self._run)

    def after_sampling(self, name: str, tokens: list[int]) -> None:
        """Collects what was emitted."""
        self._open[name][1].extend(tokens)

    def close(self) -> None:
        """Write the outputs of all requests that are still open."""
        for name in list(self._open):
            self._output(name)

    def _removed(self, original: Callable[..., Any], req_id: str, *args: Any, **kwargs: Any) -> Any:
        name = self._name(req_id)
        if name in self._open:
            self._output(name)
        return original(req_id, *args, **kwargs)

    def _output(self, name: str) -> None:
        most, tokens = self._open.pop(name)
        self._spool.event("output", {"output_ids": torch.tensor(tokens[:most], dtype=torch.int64)}, request=name)


def start_facts(points: HookPoints, config: Any, flags: Mapping[str, str] | None) -> dict[str, Any]:
    """What the start event says, from the living engine; ``flags`` are what it was started with, if the caller knows (None: as it runs)."""
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
        "flags": running_flags(config) if flags is None else dict(flags),
    }


def running_flags(config: Any) -> dict[str, str]:
    """The settings that a capture depends on, as the engine runs, by the names of vLLM's arguments."""
    model, scheduler, cache, speculative = config.model_config, config.scheduler_config, config.cache_config, config.speculative_config
    found = {
        "dtype": str(model.dtype).removeprefix("torch."),
        "max_model_len": model.max_model_len,
        "max_num_seqs": scheduler.max_num_seqs,
        "max_num_batched_tokens": scheduler.max_num_batched_tokens,
        "async_scheduling": scheduler.async_scheduling,
        "enable_prefix_caching": cache.enable_prefix_caching,
        "block_size": cache.block_size,
        "enforce_eager": model.enforce_eager,
        "speculative_config": {"method": speculative.method, "num_speculative_tokens": speculative.num_speculative_tokens},
    }
    return {name: value if isinstance(value, str) else json.dumps(value) for name, value in found.items()}
