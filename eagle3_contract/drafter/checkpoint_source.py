"""A checkpoint on disk as a ``WeightSource``: headers once, tensors and rows when they are asked for."""

from __future__ import annotations

from collections.abc import Collection, Mapping

from torch import Tensor

from contract.files.checkpoint import Checkpoint
from contract.files.tensors import TensorRef
from contract.files.torch_tensors import load_rows, load_tensor


class CheckpointSource:
    """The tensors of an open checkpoint. ``label`` is its path as the user named it.

    ``tensor`` and ``rows`` raise InputRejected (``files.*``) if the file changed, cannot be read, or holds a dtype that torch has not.
    """

    def __init__(self, checkpoint: Checkpoint) -> None:
        self._tensors: Mapping[str, TensorRef] = checkpoint.tensors
        self.label = str(checkpoint.path)

    @classmethod
    def of(cls, tensors: Mapping[str, TensorRef], label: str) -> CheckpointSource:
        """Tensors that were opened in another way (a training state)."""
        made = cls.__new__(cls)
        made._tensors, made.label = tensors, label
        return made

    def names(self) -> Collection[str]:
        return self._tensors.keys()

    def shape(self, name: str) -> tuple[int, ...]:
        return self._tensors[name].shape

    def tensor(self, name: str) -> Tensor:
        return load_tensor(self._tensors[name])

    def rows(self, name: str, ids_L: Tensor) -> Tensor:
        return load_rows(self._tensors[name], ids_L.tolist())
