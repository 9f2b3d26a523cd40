"""What a bundle holds of one request's drafter: its forwards and its rounds, loaded.

Legend: n rows of a forward, R rounds, D proposed tokens, E emitted tokens, T tokens, C width of what reaches fc.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property

import torch
from torch import Tensor

from contract.files.bundle import BundleRequest
from contract.files.bundle_manifest import FORWARD, GREEDY, INPUT_IDS, PREFIX_IDS, ForwardInfo
from contract.files.torch_tensors import load_tensor
from eagle3_contract.verify.engine_drafter.fills import Fills, fills


@dataclass(frozen=True, slots=True, eq=False)
class Forward:
    """One forward of the drafter for one request, with the tensors that were recorded of it."""

    number: int
    info: ForwardInfo
    tensors: Mapping[str, Tensor]

    def __getitem__(self, name: str) -> Tensor:
        return self.tensors[name]

    def get(self, name: str) -> Tensor | None:
        """The tensor, or None if it was not recorded."""
        return self.tensors.get(name)

    def ints(self, name: str) -> list[int] | None:
        """Whole numbers [n], or None if they were not recorded."""
        held = self.get(name)
        return None if held is None else [int(i) for i in held.tolist()]


class Recorded:
    """One request. Everything is read when it is asked for, and kept.

    Attributes:
        id: of the request.
        run: the circumstances that it ran in.
        prompt: tokens of the prompt.
    """

    def __init__(self, request: BundleRequest) -> None:
        self._request = request
        self.id, self.run, self.prompt = request.id, request.info.run, request.info.prompt_tokens

    def _ints(self, name: str) -> list[int]:
        held = self._request.tensors.get(name)
        return [] if held is None else [int(i) for i in load_tensor(held).tolist()]

    def _table(self, name: str, padding: int) -> list[list[int]]:
        """A matrix whose rows end at the first pad."""
        held = self._request.tensors.get(name)
        rows: list[list[int]] = [] if held is None else load_tensor(held).tolist()
        return [row[: row.index(padding)] if padding in row else row for row in rows]

    @cached_property
    def prefix(self) -> list[int]:
        """The c tokens before the first row, from a prefix cache."""
        return self._ints(PREFIX_IDS)

    @cached_property
    def tokens(self) -> list[int]:
        """Every token that the target ran, those of the prefix too."""
        return self.prefix + self._ints(INPUT_IDS)

    @cached_property
    def greedy(self) -> list[int]:
        """The target's argmax after each token behind the prefix; empty if it was not recorded."""
        return self._ints(GREEDY)

    @cached_property
    def proposed(self) -> list[list[int]]:
        """Per round the tokens that were verified."""
        return self._table("round.proposed", -1)

    @cached_property
    def emitted(self) -> list[list[int]]:
        """Per round the tokens that verifying gave: the accepted drafts and one more."""
        return self._table("round.emitted", -1)

    @cached_property
    def tree(self) -> list[list[int]]:
        """Per round each proposed token's parent among the proposed, -1 for the root; empty for chains."""
        return self._table("round.parents", -2)

    @cached_property
    def forwards(self) -> tuple[Forward, ...]:
        """The drafter's forwards, in their order."""
        held: dict[int, dict[str, Tensor]] = {}
        for name, ref in self._request.tensors.items():
            if (m := FORWARD.fullmatch(name)) is not None:
                held.setdefault(int(m[1]), {})[m[2]] = load_tensor(ref)
        return tuple(Forward(k, info, held.get(k, {})) for k, info in enumerate(self._request.info.forwards))

    @cached_property
    def fills(self) -> Fills:
        """The prefills, and where each round's tokens stand in the text."""
        return fills(self.forwards, prompt=self.prompt, prefix=len(self.prefix), tokens=self.tokens, emitted=self.emitted)

    @cached_property
    def slots(self) -> Tensor:
        """What reaches fc for each token behind the prefix, the slots side by side [T, C]."""
        names = sorted((n for n in self._request.tensors if n.startswith("slot.")), key=lambda n: int(n[5:]))
        return torch.cat([load_tensor(self._request.tensors[n]) for n in names], dim=-1)
