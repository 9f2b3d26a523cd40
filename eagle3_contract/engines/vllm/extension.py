"""The worker extension: vLLM mixes it into its worker, ``collective_rpc`` calls it, in process and over HTTP.

In process: ``LLM(worker_extension_cls="eagle3_contract.engines.vllm.extension.CaptureExtension")``. Served: ``vllm serve
--worker-extension-cls ...`` with ``VLLM_SERVER_DEV_MODE=1``, then ``POST /collective_rpc`` with the method and its arguments. Arguments
and results are JSON text, because vLLM hands only strings on over HTTP (entrypoints/serve/dev/rpc/api_router.py:43, vLLM 0.32.0).
"""

from __future__ import annotations

import json
from typing import Final

import torch

from eagle3_contract.engines.vllm.hook_points import HookPoints, find, installed_version
from eagle3_contract.engines.vllm.session import Session

OPTIONS: Final = frozenset({"folder", "limit_bytes", "sweep", "flags", "names", "only", "serve", "run"})


class CaptureExtension:
    """Methods of a worker. Only the first worker of a tensor-parallel group records; it sees what all see."""

    _eagle3_contract_session: Session | None

    def eagle3_contract_start(self, options: str) -> str:
        """Begin to record. ``options`` is JSON with ``folder`` and, if wanted, ``limit_bytes``, ``sweep``, ``flags`` (text to text),
        ``names`` (client's request id to name), ``only`` (names to record), ``serve`` (the worker itself writes prompts and outputs)
        and ``run``.

        Returns:
            The facts of the start event as JSON, ``null`` from a worker that does not record.

        Raises:
            RuntimeError: hook points are missing, the options are not understood, or a capture is running.
        """
        given = json.loads(options)
        unknown = sorted(set(given) - OPTIONS)
        if unknown or "folder" not in given:
            raise RuntimeError(f"a capture needs a folder and knows {sorted(OPTIONS)}; unknown: {unknown}")
        if self.__dict__.get("_eagle3_contract_session") is not None:
            raise RuntimeError("a capture is running; stop it first")
        if not records():
            return "null"
        session = Session(self, **given)
        self._eagle3_contract_session = session
        return json.dumps(session.facts)

    def eagle3_contract_event(self, event: str) -> str:
        """Write one event into the running capture: JSON with ``kind``, ``facts``, and ``tensors`` (name to list of integers)."""
        session = self.__dict__.get("_eagle3_contract_session")
        if session is not None:
            given = json.loads(event)
            tensors = {name: torch.tensor(ids, dtype=torch.int64) for name, ids in given.get("tensors", {}).items()}
            session.spool.event(given["kind"], tensors, **given.get("facts", {}))
        return "null"

    def eagle3_contract_names(self, names: str) -> str:
        """Names of further requests: JSON, client's request id to name."""
        session = self.__dict__.get("_eagle3_contract_session")
        if session is not None:
            session.probe.know(json.loads(names))
        return "null"

    def eagle3_contract_stop(self, counters: str = "{}") -> str:
        """Take the hooks off and write the end. ``counters`` is JSON, the engine's counters over the capture, mapped and raw."""
        session = self.__dict__.get("_eagle3_contract_session")
        self._eagle3_contract_session = None
        if session is not None:
            session.stop(json.loads(counters))
        return "null"

    def eagle3_contract_doctor(self) -> str:
        """Whether every hook point is there: JSON with ``version``, ``drafter``, ``target``, ``layer_ids``; raises if one is missing."""
        points: HookPoints = find(self)
        return json.dumps(
            {
                "version": installed_version(),
                "drafter": type(points.drafter).__name__,
                "target": type(points.target).__name__,
                "layer_ids": points.layer_ids,
            }
        )


def records() -> bool:
    """Whether this worker is the one that records: the first of its tensor-parallel group, on the stage that holds the drafter."""
    from vllm.distributed import get_pp_group, get_tensor_model_parallel_rank

    return get_tensor_model_parallel_rank() == 0 and bool(get_pp_group().is_last_rank)
