"""Every rule of the static depth, in the order in which ``contract check`` asks them."""

from __future__ import annotations

from functools import cache

from contract.findings import Rule
from eagle3_contract.check import (
    config_numerics,
    config_sizes,
    content,
    digests,
    dtypes,
    files_accounted,
    flags,
    golden_digest,
    kind_of_drafter,
    owners,
    pairing,
    quantized_weights,
    reading,
    recipe,
    recipe_keys,
    rope,
    serving_rules,
    statements,
    target,
    tensors,
    training_state,
    unread_keys,
    vocab_map,
    weights,
    wiring_rules,
)

MODULES = (
    kind_of_drafter,
    files_accounted,
    digests,
    golden_digest,
    recipe,
    recipe_keys,
    wiring_rules,
    tensors,
    owners,
    vocab_map,
    config_sizes,
    config_numerics,
    rope,
    flags,
    unread_keys,
    dtypes,
    weights,
    content,
    target,
    pairing,
    training_state,
    statements,
    reading,
    quantized_weights,
    serving_rules,
)


@cache
def all_rules() -> tuple[Rule, ...]:
    """Every rule, once."""
    return tuple(rule for module in MODULES for rule in module.RULES)
