"""Run by test_speculators.py in an environment with the real package: train a tiny EAGLE-3 drafter with speculators for a few steps,
save it, and stamp it. Nothing of this project but contract_stamp.py is imported here.

    python speculators_step.py OUT CONTRACT_STAMP.PY
"""

from __future__ import annotations

import importlib.util
import sys
from importlib.metadata import version
from pathlib import Path
from typing import Any

import torch
from speculators.models.eagle3 import shift_batch
from speculators.models.eagle3.core import Eagle3DraftModel
from speculators.train.vocab_mapping import build_vocab_mappings_from_distribution
from transformers import LlamaConfig, LlamaForCausalLM

BOUNDARIES = [2, 4, 5]
LAYERS, VOCAB, DRAFT_VOCAB, TOKENS, STEPS = 8, 96, 24, 24, 3


def target(folder: Path) -> LlamaForCausalLM:
    torch.manual_seed(1)
    config = LlamaConfig(
        vocab_size=VOCAB, hidden_size=32, intermediate_size=48, num_hidden_layers=LAYERS, num_attention_heads=4, num_key_value_heads=2,
        head_dim=8, tie_word_embeddings=False, initializer_range=0.25,
    )  # fmt: skip
    model = LlamaForCausalLM(config).eval()
    model.save_pretrained(folder)
    return model


def sample(model: LlamaForCausalLM) -> dict[str, torch.Tensor]:
    """What speculators' data pipeline hands on for one document: states by hidden_states index, the last one before the final norm."""
    ids_T = torch.randint(0, VOCAB, (TOKENS,))
    seen: list[torch.Tensor] = []
    handle = model.model.norm.register_forward_pre_hook(lambda _, args: seen.append(args[0]))
    with torch.no_grad():
        states = model(ids_T[None], output_hidden_states=True).hidden_states
    handle.remove()
    return {
        "input_ids": ids_T,
        "hidden_states": torch.cat([states[b][0] for b in BOUNDARIES], dim=-1),
        "verifier_last_hidden_states": seen[0][0],
        "loss_mask": torch.ones(TOKENS, dtype=torch.bool),
        "lengths": torch.tensor([TOKENS]),
        "position_ids": torch.arange(TOKENS),
    }


def batched(shifted: dict[str, torch.Tensor]) -> dict[str, torch.Tensor]:
    """One document as a packed batch of one."""
    batch = {name: value[None] for name, value in shifted.items() if name != "lengths"}
    return {**batch, "document_ids": torch.zeros_like(batch["input_ids"])}


def drafter(folder: Path) -> Any:
    d2t, t2d = build_vocab_mappings_from_distribution({i * 3: 100 - i for i in range(DRAFT_VOCAB)}, DRAFT_VOCAB, VOCAB)
    layer = LlamaConfig(
        vocab_size=VOCAB, hidden_size=32, intermediate_size=48, num_hidden_layers=1, num_attention_heads=4, num_key_value_heads=2,
        head_dim=12, max_position_embeddings=256, layer_types=["full_attention"],
    )  # fmt: skip
    return Eagle3DraftModel.from_training_args(
        layer, t2d=t2d, d2t=d2t, draft_vocab_size=DRAFT_VOCAB, norm_before_residual=True, norm_output=True, norm_before_fc=True,
        target_layer_ids=[*BOUNDARIES], ttt_steps=STEPS, verifier_name_or_path=str(folder), draft_attn_impl="eager",
    )  # fmt: skip


def own_forward(model: Any, ids_T: torch.Tensor, fed_TC: torch.Tensor) -> tuple[list[torch.Tensor], dict[str, torch.Tensor]]:
    """The trainer's own forward on the trainer's own shift of the inputs; logits and states are seen by hooks on its modules."""
    logits: list[torch.Tensor] = []
    normed: list[torch.Tensor] = []
    fused: list[torch.Tensor] = []
    hooks = [
        model.lm_head.register_forward_hook(lambda _, args, out: logits.append(out)),
        model.norm.register_forward_hook(lambda _, args, out: normed.append(out)),
        model.fc.register_forward_hook(lambda _, args, out: fused.append(out)),
    ]
    tokens = len(ids_T)
    whole = {
        "input_ids": ids_T, "hidden_states": fed_TC, "verifier_last_hidden_states": torch.zeros(tokens, 1),
        "loss_mask": torch.ones(tokens, dtype=torch.bool), "lengths": torch.tensor([tokens]), "position_ids": torch.arange(tokens),
    }  # fmt: skip
    batch = batched(shift_batch(whole))
    del batch["verifier_last_hidden_states"]
    model(**batch, ttt_steps=STEPS)
    for hook in hooks:
        hook.remove()
    return logits, {"fc_out": fused[0], **{f"state_step{step}": x for step, x in enumerate(normed)}}


def main(out: Path, stamp_file: Path) -> None:
    verifier = target(out / "target")
    document = sample(verifier)
    model = drafter(out / "target")
    model.train()
    optimizer = torch.optim.AdamW([p for p in model.parameters() if p.requires_grad], lr=1e-2)
    call, _ = model.get_trainer_kwargs(loss_fn="kl_div", loss_implementation="eager", ttt_steps=STEPS, ttt_step_loss_decay=1.0)
    for _ in range(5):
        _, loss, metrics = model(**batched(shift_batch(document)), **call)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    model.eval()
    folder = out / "drafter"
    model.save_pretrained(folder)

    spec = importlib.util.spec_from_file_location("contract_stamp", stamp_file)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    open_fields = module.stamp(
        folder,
        forward=lambda ids, fed: own_forward(model, ids, fed),
        input_ids=document["input_ids"],
        hidden_states=document["hidden_states"],
        declare={
            "training.trainer": "speculators",
            "training.version": version("speculators"),
            "training.rollout": "teacher",
            "training.target_state.boundary": LAYERS,
            "training.target_state.normed": False,
            "training.target_state.norm_applied_by_trainer": True,
            "training.data.loss_mask_rule": "mask_of_token",
            "training.metrics.definition": "speculators.full_acc",
            "hidden_states.boundaries": BOUNDARIES,
            "hidden_states.point": "residual",
            "vocab.map": "offset",
            "wiring.norms_before_fc": ["input_norm"] if model.input_norm is not None else [],
            "wiring.norm_before_residual": model.config.norm_before_residual,
            "wiring.feedback": "post_norm" if model.config.norm_output else "pre_norm",
            "wiring.double_norm": False,
            "wiring.final_norm": True,
            "wiring.rope.type": "default",
            "wiring.rope.theta": float(model.rotary_emb.config.rope_parameters["rope_theta"]),
            "wiring.window": None,
            "alignment.token_shift": 1,
            "alignment.positions_start": 1,
            "alignment.step_positions": "advance",
        },
    )  # fmt: skip
    sys.stdout.write(f"loss {float(loss):.4f}; open: {', '.join(open_fields)}; metrics {sorted(metrics)}\n")


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2]))
