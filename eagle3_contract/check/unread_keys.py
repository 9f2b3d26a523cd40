"""Keys of config.json that look like EAGLE's own and are none: a plausible default follows, silently."""

from __future__ import annotations

from collections.abc import Iterator
from difflib import get_close_matches
from typing import Final

from contract.findings import Check, Rule, Severity
from eagle3_contract.check.context import CheckContext

UNREAD: Final = Rule(
    id="config.unread-key",
    title="No key of config.json looks like one of EAGLE's and is none",
    severity=Severity.WARNING,
    dimension="keys",
    why="The most common shape of all reports: a key that the engine does not read, followed by a plausible default (vllm#50170, "
    "tokenspeed#526, sglang#21274, vllm#38111). Seen in public: eagle_config.aux_hidden_state_layer_ids, use_aux_hidden_states.",
    remedy="Spell the key as engines read it, or remove it.",
)
RULES: Final = (UNREAD,)

EAGLE_KEYS: Final = frozenset(
    {
        "eagle_aux_hidden_state_layer_ids", "use_aux_hidden_state", "num_aux_hidden_states", "norm_before_residual", "norm_before_fc",
        "fc_norm", "use_aux_norm", "norm_output", "target_hidden_size", "draft_vocab_size", "eagle_config", "tie_word_embeddings",
        "head_dim", "num_hidden_layers", "rope_theta", "rope_scaling", "rope_parameters", "max_position_embeddings", "rms_norm_eps",
        "sliding_window", "use_sliding_window", "layer_types", "attention_bias", "mlp_bias",
    }
)  # fmt: skip
OTHER_KEYS: Final = frozenset(
    {
        "use_input_layernorm_in_first_layer", "use_last_layernorm", "use_mtp_layernorm", "next_layer_regular", "parallel_draft_step",
        "parallel_draft_heads_num_layers", "num_attention_heads", "num_key_value_heads", "hidden_size", "rope_type", "max_window_layers",
        "attention_dropout", "num_aux_layers", "v_head_dim", "qk_nope_head_dim", "qk_rope_head_dim",
    }
)  # fmt: skip
"""Keys that are near one of ``EAGLE_KEYS`` in spelling and have a meaning of their own."""
CLOSENESS: Final = 0.84


def check_unread_keys(ctx: CheckContext) -> Iterator[Check]:
    """Top level and ``eagle_config``."""
    if ctx.drafter.config is None:
        return
    nested = ctx.config.raw.get("eagle_config")
    places = [("", ctx.config.raw)] + ([("eagle_config.", nested)] if isinstance(nested, dict) else [])
    clean = True
    for prefix, mapping in places:
        for key in mapping:
            if key in EAGLE_KEYS or key in OTHER_KEYS:
                continue
            near = get_close_matches(key, EAGLE_KEYS, n=1, cutoff=CLOSENESS)
            if near:
                clean = False
                yield UNREAD.failed(
                    f"no engine reads {prefix}{key}; near: {near[0]}",
                    expected=near[0],
                    actual=key,
                    where=ctx.config_place(f"{prefix}{key}"),
                )
    if clean:
        yield UNREAD.passed("no key looks like a misspelt one of EAGLE's")
