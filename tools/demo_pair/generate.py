"""Lets the target write: continuations to train the drafters on, held-out ones to judge them on, and the states of both.

Shapes: B batch, T tokens of one row, V vocabulary, K kept boundaries, H hidden size.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import random
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

import torch
from safetensors.torch import save_file
from transformers import DynamicCache, LlamaForCausalLM

from tools.demo_pair import settings
from tools.demo_pair.settings import SCALES, SEEDS, Scale
from tools.demo_pair.target import be_deterministic, load

REPEAT_WINDOW: Final = 12
STATE_BATCH: Final = 32
# One training sequence in four is greedy, as an engine at temperature 0 would write it; held-out ones are all sampled.
GREEDY_SHARE: Final = 4


@contextmanager
def boundary_hooks(model: LlamaForCausalLM) -> Iterator[dict[int, torch.Tensor]]:
    """Collects boundary n -> states [B, T, H] during a forward: what enters layer n, and for boundary LAYERS what the last layer returns.

    Copies are taken inside the hook, so a layer that updates the stream in place cannot change them afterwards.
    """
    seen: dict[int, torch.Tensor] = {}
    handles = []
    for index, layer in enumerate(model.model.layers):

        def entering(_: torch.nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any], *, boundary: int = index) -> None:
            states = args[0] if args else kwargs["hidden_states"]
            seen[boundary] = states.detach().clone()

        handles.append(layer.register_forward_pre_hook(entering, with_kwargs=True))

    def leaving(_: torch.nn.Module, __: tuple[Any, ...], output: Any) -> None:
        states = output[0] if isinstance(output, tuple) else output
        seen[settings.LAYERS] = states.detach().clone()

    handles.append(model.model.layers[-1].register_forward_hook(leaving))
    try:
        yield seen
    finally:
        for handle in handles:
            handle.remove()


@torch.inference_mode()
def continue_prompts(model: LlamaForCausalLM, prompts_BT: torch.Tensor, temperatures_B: torch.Tensor) -> torch.Tensor:
    """Prompts with NEW_TOKENS more each [B, SEQUENCE]; temperature 0 is greedy. <s> and </s> are never drawn, so all have one length."""
    cache = DynamicCache(config=model.config)
    greedy_B1 = (temperatures_B == 0)[:, None]
    divisor_B1 = temperatures_B.clamp(min=0.1)[:, None]
    tokens = [prompts_BT]
    for _ in range(settings.NEW_TOKENS):
        # By place: the fourth argument is called past_key_values or cache, depending on the release of transformers.
        output = model(tokens[-1], None, None, cache, use_cache=True, logits_to_keep=1)
        logits_BV = output.logits[:, -1].float()
        logits_BV[:, [settings.BOS_ID, settings.EOS_ID]] = -torch.inf
        drawn_B1 = torch.multinomial((logits_BV / divisor_B1).softmax(-1), 1)
        tokens.append(torch.where(greedy_B1, logits_BV.argmax(-1, keepdim=True), drawn_B1))
    return torch.cat(tokens, dim=1)


@torch.inference_mode()
def record_states(model: LlamaForCausalLM, ids_BT: torch.Tensor, boundaries: Sequence[int]) -> tuple[torch.Tensor, torch.Tensor]:
    """States [B, T, K, H] bfloat16 of `boundaries` from hooks, and the target's own argmax [B, T] for the following token."""
    states, choices = [], []
    for ids_bT in torch.split(ids_BT, STATE_BATCH):
        with boundary_hooks(model) as seen:
            logits_bTV = model(input_ids=ids_bT, use_cache=False).logits
        states.append(torch.stack([seen[boundary] for boundary in boundaries], dim=2))
        choices.append(logits_bTV.float().argmax(-1))
    return torch.cat(states), torch.cat(choices)


def repeated_share(ids_BT: torch.Tensor) -> float:
    """Share of the 12-grams of the generated part that occurred before in the same row."""
    repeated = total = 0
    for row in ids_BT[:, settings.PROMPT_TOKENS :].tolist():
        seen: set[tuple[int, ...]] = set()
        for start in range(len(row) - REPEAT_WINDOW + 1):
            window = tuple(row[start : start + REPEAT_WINDOW])
            repeated += window in seen
            total += 1
            seen.add(window)
    return repeated / total


def _prompts(documents: list[list[int]], count: int, seed: int) -> torch.Tensor:
    """`count` document beginnings [B, PROMPT_TOKENS], each only once."""
    beginnings = sorted({tuple(ids[: settings.PROMPT_TOKENS]) for ids in documents if len(ids) > settings.PROMPT_TOKENS})
    random.Random(seed).shuffle(beginnings)
    if len(beginnings) < count:
        raise SystemExit(f"{count} prompts wanted, the corpus has {len(beginnings)}")
    return torch.tensor(beginnings[:count])


def generate(out: Path, scale: Scale) -> None:
    """Reads `corpus.json` and `target/`; writes `training.safetensors`, `heldout.safetensors` (token ids only) and `generate.json`."""
    corpus = json.loads((out / "corpus.json").read_text(encoding="utf-8"))
    model = load(out / "target")
    be_deterministic(SEEDS["generate"])
    prompts_BT = _prompts(corpus["training"], scale.train_sequences, SEEDS["generate"])
    temperatures_B = torch.full((scale.train_sequences,), settings.TEMPERATURE)
    temperatures_B[::GREEDY_SHARE] = 0.0
    parts = [
        continue_prompts(model, prompts, temperatures)
        for prompts, temperatures in zip(
            torch.split(prompts_BT, scale.generate_batch), torch.split(temperatures_B, scale.generate_batch), strict=True
        )
    ]
    ids_BT = torch.cat(parts)
    states_BTKH, choices_BT = record_states(model, ids_BT, settings.KEPT_BOUNDARIES)
    save_file({"input_ids": ids_BT, "states": states_BTKH, "choices": choices_BT}, out / "training.safetensors")

    be_deterministic(SEEDS["heldout"])
    seen_in_training = {tuple(ids[: settings.PROMPT_TOKENS]) for ids in corpus["training"]}
    unseen = [ids for ids in corpus["held_out"] if tuple(ids[: settings.PROMPT_TOKENS]) not in seen_in_training]
    held_out_BT = _prompts(unseen, scale.heldout_sequences, SEEDS["heldout"])
    held_out_BT = continue_prompts(model, held_out_BT, torch.full((len(held_out_BT),), settings.TEMPERATURE))
    save_file({"input_ids": held_out_BT.to(torch.int32)}, out / "heldout.safetensors")
    record = {
        "training_sequences": len(ids_BT),
        "training_ids_sha256": hashlib.sha256(ids_BT.numpy().tobytes()).hexdigest(),
        "held_out_sequences": len(held_out_BT),
        "held_out_repeated_12_grams": round(repeated_share(held_out_BT), 4),
    }
    (out / "generate.json").write_text(json.dumps(record), encoding="utf-8")


def main() -> None:
    """Command line of this step alone."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--scale", choices=sorted(SCALES), default="full")
    arguments = parser.parse_args()
    generate(arguments.out, SCALES[arguments.scale])


if __name__ == "__main__":
    main()
