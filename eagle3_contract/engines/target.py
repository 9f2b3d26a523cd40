"""A target running under transformers, on this machine: what its forward shows, and its own greedy continuation.

Legend: T tokens, G width of the stream, V vocabulary.
"""

from __future__ import annotations

import inspect
from collections.abc import Collection, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import torch
from torch import Tensor, nn

from eagle3_contract.engines.recorder import StreamRecorder
from eagle3_contract.engines.rules import rejected, tool_error
from eagle3_contract.engines.structure import Stream, find_stream, layer_count
from eagle3_contract.model.states import State

DTYPES: Final = ("auto", "float32", "bfloat16", "float16", "float64")


@dataclass(frozen=True, slots=True, eq=False)
class Forward:
    """One forward: the states that were asked for, [T, G] each in the target's dtype, and the argmax of every row, int64 [T]."""

    input_ids: Tensor
    position_ids: Tensor
    states: dict[State, Tensor]
    greedy: Tensor


class Target:
    """A loaded target.

    Attributes:
        model: a causal language model in eval mode; ``model(input_ids).logits`` is [1, T, V].
        stream: where its residual stream can be seen.
        layers: N.
        version: of transformers; empty for a model that was not loaded by it.
    """

    def __init__(self, model: nn.Module, *, layers: int | None = None, version: str = "") -> None:
        """Raises ToolError (``engine.target-structure``) if the stream cannot be found."""
        self.model = model.eval()
        self.layers = layers if layers is not None else layer_count(model.config)
        self.stream: Stream = find_stream(model, self.layers)
        self.version = version
        self._parameters = inspect.signature(model.forward).parameters

    @property
    def device(self) -> torch.device:
        weight: Tensor = self.stream.embedding.get_parameter("weight")
        return weight.device

    @property
    def dtype(self) -> str:
        """The dtype of the embedding, in which the stream starts (``bfloat16``)."""
        return str(self.stream.embedding.get_parameter("weight").dtype).removeprefix("torch.")

    @property
    def model_type(self) -> str | None:
        """As the config calls it (``llama``)."""
        found = getattr(self.model.config, "model_type", None)
        return found if isinstance(found, str) else None

    @torch.no_grad()
    def forward(self, input_ids: Sequence[int] | Tensor, wanted: Collection[State] | None = None) -> Forward:
        """Run one sequence, from position 0 and without a cache, and record what the hooks see.

        Args:
            input_ids: T token ids.
            wanted: the states to keep; None keeps every boundary and ``final_norm``.

        Raises:
            InputRejected: ``engine.prompt``.
            ToolError: ``engine.hooks-complete``.
        """
        ids_T = self._checked(input_ids)
        positions_T = torch.arange(len(ids_T), device=self.device)
        more: dict[str, Any] = {"position_ids": positions_T[None]} if "position_ids" in self._parameters else {}
        if "use_cache" in self._parameters:
            more["use_cache"] = False
        with StreamRecorder(self.stream, wanted) as recorder:
            logits_TV: Tensor = self.model(input_ids=ids_T[None], **more).logits[0]
            states = recorder.take(len(ids_T))
        return Forward(ids_T.cpu(), positions_T.cpu(), states, logits_TV.argmax(dim=-1).cpu())

    @torch.no_grad()
    def continuation(self, input_ids: Sequence[int] | Tensor, new_tokens: int, *, stop: Collection[int] = ()) -> list[int]:
        """The target's own greedy tokens after a prompt, one at a time with its KV cache: the argmax (the lowest id of equals) and
        nothing else, no generation config.

        In 16-bit dtypes near ties may fall otherwise than in one forward over the whole text: other shapes, other kernels.

        Args:
            input_ids: the prompt.
            new_tokens: how many at most.
            stop: ids that end the text; the one that occurred is the last one returned.

        Raises:
            InputRejected: ``engine.prompt``.
        """
        step_T = self._checked(input_ids)
        # transformers 5.2x renamed the argument; the old name warns there.
        name = "past_key_values" if "past_key_values" in self._parameters else "cache"
        cache: Any = None
        made: list[int] = []
        while len(made) < new_tokens:
            output = self.model(input_ids=step_T[None], use_cache=True, **({name: cache} if cache is not None else {}))
            cache = output[name]
            made.append(int(output.logits[0, -1].argmax()))
            if made[-1] in stop:
                break
            step_T = torch.tensor(made[-1:], device=self.device)
        return made

    def _checked(self, input_ids: Sequence[int] | Tensor) -> Tensor:
        ids_T = torch.as_tensor(input_ids)
        if ids_T.dim() != 1 or ids_T.numel() == 0 or ids_T.is_floating_point() or ids_T.dtype is torch.bool:
            raise rejected("engine.prompt", f"a prompt is a list of token ids, not {ids_T.dtype} {list(ids_T.shape)}")
        ids_T = ids_T.to(self.device, torch.int64)
        vocabulary = len(self.stream.embedding.get_parameter("weight"))
        low, high = int(ids_T.min()), int(ids_T.max())
        if low < 0 or high >= vocabulary:
            raise rejected("engine.prompt", f"token ids reach from {low} to {high}; the target has 0 to {vocabulary - 1}")
        return ids_T


def load_target(target_dir: str | Path, *, dtype: str = "auto", device: str = "auto") -> Target:
    """Load a causal language model from a local folder: safetensors only, eager attention, no code from the folder, no network.

    Args:
        target_dir: config.json and weights.
        dtype: one of ``DTYPES``; ``auto`` is what the config says.
        device: of torch, or ``auto`` for CUDA where there is one.

    Raises:
        ToolError: ``engine.transformers-installed``, ``engine.device``, ``engine.target-load`` (with the reason, or the weights that are
            missing) or ``engine.target-structure``.
    """
    try:
        import transformers
    except ImportError as error:
        raise tool_error("engine.transformers-installed", f"transformers cannot be imported: {error}") from error
    if dtype not in DTYPES:
        raise tool_error("engine.target-load", f"dtype {dtype!r} is none of {', '.join(DTYPES)}")
    place = _device(device)
    folder = Path(target_dir)
    if not (folder / "config.json").is_file():
        raise tool_error("engine.target-load", f"{folder} holds no config.json")
    settings: dict[str, Any] = {
        "trust_remote_code": False,
        "local_files_only": True,
        "use_safetensors": True,
        "attn_implementation": "eager",
        "output_loading_info": True,
        _dtype_argument(transformers.__version__): "auto" if dtype == "auto" else getattr(torch, dtype),
    }
    try:
        with _quiet(transformers):
            loaded: Any = transformers.AutoModelForCausalLM.from_pretrained(str(folder), **settings)
    except (OSError, ValueError, RuntimeError, ImportError, KeyError, TypeError, AttributeError) as error:
        raise tool_error("engine.target-load", f"{folder} does not load: {type(error).__name__}: {error}") from error
    model, info = loaded
    for what in ("missing_keys", "mismatched_keys"):
        if info.get(what):
            names = sorted(str(key) for key in info[what])
            raise tool_error("engine.target-load", f"{folder}: {what.replace('_', ' ')}: {', '.join(names[:5])} ({len(names)} in all)")
    return Target(model.to(place), version=transformers.__version__)


def _dtype_argument(version: str) -> str:
    """transformers 4.56 renamed ``torch_dtype``."""
    major, minor = (int(part) for part in version.split(".")[:2])
    return "dtype" if (major, minor) >= (4, 56) else "torch_dtype"


def _device(name: str) -> torch.device:
    if name == "auto":
        return torch.device("cuda" if torch.cuda.is_available() else "cpu")
    try:
        device = torch.device(name)
        torch.empty(0, device=device)
    except (RuntimeError, AssertionError) as error:
        raise tool_error("engine.device", f"device {name!r}: {error}") from error
    return device


@contextmanager
def _quiet(transformers: Any) -> Iterator[None]:
    """No progress bar: this is a library."""
    log = transformers.utils.logging
    shown = log.is_progress_bar_enabled()
    log.disable_progress_bar()
    try:
        yield
    finally:
        if shown:
            log.enable_progress_bar()
