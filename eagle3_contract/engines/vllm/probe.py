"""The probe: hooks on one worker's living objects that write what target and drafter compute into a spool.

Methods are wrapped on the instances, modules get hooks; no class of vLLM is touched, and ``stop`` leaves everything as it was. Order of
one engine step (v1/worker/gpu_model_runner.py, vLLM 0.32.0): ``_model_forward`` runs the target over the rows of all requests,
``_sample`` accepts or rejects, then ``drafter.propose`` runs the drafter over the same rows and, a row for each request, for the further
drafts. Rows are split at the ``query_start_loc`` of the very step.

Legend: N rows of the batch, B requests, n rows of one request, D proposed tokens, E emitted tokens, G target width, H drafter width,
K slots, V vocabulary of the logits.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

import torch
from torch import Tensor, nn
from torch.utils.hooks import RemovableHandle

from eagle3_contract.engines.spool import Spool, copied
from eagle3_contract.engines.vllm.boundaries import Boundaries
from eagle3_contract.engines.vllm.hook_points import HookPoints
from eagle3_contract.engines.vllm.rows import Slice, emitted, request_name, sample_row, slices, target_phase

UNSET: Final = object()


@dataclass(slots=True)
class TargetStep:
    """One forward of the target, kept until the sampler has told what its rows were for."""

    rows: list[Slice]
    input_ids_N: Tensor
    position_ids_N: Tensor
    slots_NG: list[Tensor]
    boundaries_NG: dict[int, Tensor]
    final_norm_NG: Tensor


@dataclass(slots=True)
class Proposal:
    """One call of ``propose``: the drafter's forwards of one step of the engine."""

    first_rows: list[Slice]
    sample_rows: list[int]
    fc: dict[str, Tensor] = field(default_factory=dict)
    step: int = -1
    given: dict[str, Tensor] = field(default_factory=dict)
    made: dict[str, Tensor] = field(default_factory=dict)


class Probe:
    """Records until ``stop``. ``known`` gives requests a name by their client's id; ``only``, if given, names those to record."""

    def __init__(
        self,
        points: HookPoints,
        spool: Spool,
        *,
        sweep: bool = False,
        known: Mapping[str, str] | None = None,
        only: Collection[str] | None = None,
    ) -> None:
        self._points, self._spool = points, spool
        self._runner, self._proposer, self._drafter = points.runner, points.proposer, points.drafter
        self._known: dict[str, str] = dict(known or {})
        self._only = only
        self._step: TargetStep | None = None
        self._proposal: Proposal | None = None
        self._phases: dict[str, str] = {}
        self._handles: list[RemovableHandle] = []
        self._undo: list[Callable[[], None]] = []
        self._boundaries = Boundaries(points.layers) if sweep else None
        self._wrap(self._runner, "_model_forward", self._model_forward)
        self._wrap(self._runner, "_sample", self._sample)
        self._wrap(self._proposer, "propose", self._propose)
        self._wrap(self._drafter, "combine_hidden_states", self._combine)
        self._wrap(self._drafter, "compute_logits", self._logits)
        self._handles.append(self._drafter.register_forward_pre_hook(self._before_draft, with_kwargs=True))
        self._handles.append(self._drafter.register_forward_hook(self._after_draft, with_kwargs=True))

    def know(self, known: Mapping[str, str]) -> None:
        """Names of further requests, by their client's ids."""
        self._known.update(known)

    def stop(self) -> None:
        """Take every hook off."""
        for handle in self._handles:
            handle.remove()
        for undo in reversed(self._undo):
            undo()
        if self._boundaries is not None:
            self._boundaries.remove()
        self._handles.clear()
        self._undo.clear()

    # -- the target

    def _model_forward(self, original: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
        made = original(*args, **kwargs)
        batch = self._runner.input_batch
        rows = slices(batch.req_ids, self._runner.query_start_loc.np)
        if not isinstance(made, tuple) or len(made) != 2:
            raise RuntimeError(f"the target gave {type(made).__name__}, not its states beside the slots: nothing is fed to a drafter")
        final_NG, slots = made
        given = inspect.signature(original).bind(*args, **kwargs).arguments
        positions = given["positions"]
        positions_N = positions[0] if positions.dim() == 2 else positions
        ids = given.get("input_ids")
        ids_N = self._runner.input_ids.gpu if ids is None else ids
        n = rows[-1].stop if rows else 0
        self._step = TargetStep(
            rows=rows,
            input_ids_N=copied(ids_N[:n]),
            position_ids_N=copied(positions_N[:n]),
            slots_NG=[copied(s[:n]) for s in slots],
            boundaries_NG={} if self._boundaries is None else self._boundaries.take(),
            final_norm_NG=copied(final_NG[:n]),
        )
        return made

    def _sample(self, original: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
        made = original(*args, **kwargs)
        step, self._step = self._step, None
        if step is None:
            return made
        metadata = inspect.signature(original).bind(*args, **kwargs).arguments["spec_decode_metadata"]
        drafts = [0] * len(step.rows) if metadata is None else list(metadata.num_draft_tokens)
        proposed = [] if metadata is None else metadata.draft_token_ids.tolist()
        sampled = made.sampled_token_ids.tolist()
        discarded = self._runner.discard_request_mask.np
        at = 0
        for i, rows in enumerate(step.rows):
            drafted = proposed[at : at + drafts[i]]
            at += drafts[i]
            self._target(step, rows, drafted, [] if discarded[i] else emitted(sampled[i], self._runner.input_batch.vocab_size))
        return made

    def _target(self, step: TargetStep, rows: Slice, drafted: list[int], tokens: list[int]) -> None:
        state = self._runner.requests[rows.id]
        part = slice(rows.start, rows.stop)
        first = int(step.position_ids_N[rows.start]) if rows.stop > rows.start else 0
        phase = target_phase(rows.stop - rows.start, len(drafted), first, state.num_prompt_tokens)
        self._phases[rows.id] = "prefill" if phase == "prefill" else "extend"
        name = self._name(rows.id)
        if name is None:
            return
        self.before_request(name, state)
        tensors: dict[str, Tensor | None] = {"input_ids": step.input_ids_N[part], "position_ids": step.position_ids_N[part]}
        tensors |= {f"slot.{k}": slot[part] for k, slot in enumerate(step.slots_NG)}
        tensors |= {f"boundary.{k}": state_NG[part] for k, state_NG in sorted(step.boundaries_NG.items())}
        tensors["final_norm"] = step.final_norm_NG[part]
        self._spool.event("target", tensors, request=name, phase=phase)
        self.after_sampling(name, tokens)
        if drafted:
            self._spool.event("round", {"proposed": _ids(drafted), "emitted": _ids(tokens)}, request=name)

    def before_request(self, name: str, state: Any) -> None:
        """Called before each event of the target; ``state`` is vLLM's own of that request."""

    def after_sampling(self, name: str, tokens: list[int]) -> None:
        """Called with the tokens that a step of the target gave a request."""

    # -- the drafter

    def _propose(self, original: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
        given = inspect.signature(original).bind(*args, **kwargs).arguments
        common, places = given["common_attn_metadata"], given.get("token_indices_to_sample")
        rows = slices(self._runner.input_batch.req_ids, common.query_start_loc_cpu.tolist())
        ends = [r.stop - 1 for r in rows] if places is None else places.tolist()
        self._proposal = Proposal(rows, [sample_row(place, r) for place, r in zip(ends, rows, strict=True)])
        try:
            return original(*args, **kwargs)
        finally:
            self._write_draft()
            self._proposal = None

    def _combine(self, original: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
        proposal = self._proposal
        if proposal is not None:
            proposal.fc["fc_in"] = copied(args[0] if args else kwargs["hidden_states"])
        made = original(*args, **kwargs)
        if proposal is not None:
            proposal.fc["fc_out"] = copied(made)
        return made

    def _before_draft(self, module: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        proposal = self._proposal
        if proposal is None:  # a dummy run
            return
        self._write_draft()
        proposal.step += 1
        given = inspect.signature(module.forward).bind(*args, **kwargs).arguments
        positions = given["positions"]
        proposal.given = {
            "input_ids": copied(given["input_ids"]),
            "position_ids": copied(positions[0] if positions.dim() == 2 else positions),
            "hidden_in": copied(given["hidden_states"]),
        }

    def _after_draft(self, module: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any], made: Any) -> None:
        if self._proposal is not None:
            normed, state = made
            self._proposal.made = {"final_normed": copied(normed), "state_out": copied(state)}

    def _logits(self, original: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
        made = original(*args, **kwargs)
        if self._proposal is not None and self._proposal.given:
            self._proposal.made["logits"] = copied(made)
        return made

    def _write_draft(self) -> None:
        """Write the last forward, whose logits have come by now."""
        proposal = self._proposal
        if proposal is None or not proposal.given:
            return
        first = proposal.step == 0
        for i, rows in enumerate(proposal.first_rows):
            name = self._name(rows.id)
            if name is None:
                continue
            part = slice(rows.start, rows.stop) if first else slice(i, i + 1)
            held = proposal.given | proposal.made | (proposal.fc if first else {})
            tensors: dict[str, Tensor | None] = {key: value[part] for key, value in held.items() if key != "logits"}
            if "logits" in held:
                tensors["logits"] = held["logits"][i : i + 1]
                tensors["logit_rows"] = _ids([proposal.sample_rows[i] if first else 0])
            phase = self._phases[rows.id] if first else "draft"
            self._spool.event("drafter", tensors, request=name, phase=phase, step=proposal.step)
        proposal.given, proposal.made = {}, {}

    # -- the rest

    def _name(self, internal: str) -> str | None:
        name = request_name(internal, self._known)
        return name if self._only is None or name in self._only else None

    def _wrap(self, owner: Any, name: str, around: Callable[..., Any]) -> None:
        original, held = getattr(owner, name), vars(owner).get(name, UNSET)

        @functools.wraps(original)
        def wrapped(*args: Any, **kwargs: Any) -> Any:
            return around(original, *args, **kwargs)

        vars(owner)[name] = wrapped

        def undo() -> None:
            if held is UNSET:
                vars(owner).pop(name, None)
            else:
                vars(owner)[name] = held

        self._undo.append(undo)


def _ids(tokens: list[int]) -> Tensor:
    return torch.tensor(tokens, dtype=torch.int64)
