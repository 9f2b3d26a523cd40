"""The target that is served beside the one that training saw."""

from __future__ import annotations

from typing import Any

from factory import pair

from incidents.case import Case, setting
from incidents.cases_recipe import target

FULL: dict[str, Any] = {"num_attention_heads": 4, "num_key_value_heads": 2, "head_dim": 16, "torch_dtype": "bfloat16"}
HYBRID = FULL | {"layer_types": ["sliding_attention", "full_attention"] * 4, "num_key_value_heads": 4}
AWQ = {"quantization_config": {"quant_method": "awq", "bits": 4}}
QUAROT = {"quantization_config": {"quant_method": "ascend", "online_quarot": True}}


def broken(**changes: Any) -> dict[str, Any]:
    """The right target for both twins, another one for the fault."""
    return {"target": target(**FULL), "broken_target": target(**(FULL | changes))}


def special() -> Any:
    made = pair()
    made.config |= {"eos_token_id": 200, "pad_token_id": 0}  # an end token decides nothing in a drafter
    return made


CASES = (
    Case(name="target-in-float16", rule="target.dtype", **broken(torch_dtype="float16"), says=("float16", "bfloat16")),
    Case(name="quantised-target", rule="target.quantization", **broken(**AWQ), says=("awq", "none")),
    Case(name="rotated-target", rule="target.rotated", **broken(**QUAROT), says=("online_quarot",)),
    Case(
        name="pages-that-do-not-divide",
        rule="target.page-layout",
        **broken(**HYBRID),
        exit=0,
        warns=True,
        says=("128", "48", "neither divides"),
    ),
    Case(
        name="pad-token-beyond-the-target",
        rule="target.token-ids",
        base=special,
        target=target(**FULL),
        change=setting("config.pad_token_id", 151643),
        says=("151643", "96"),
    ),
    Case(
        name="mask-token-beyond-the-embedding",
        rule="target.token-ids",
        base=special,
        target=target(**FULL),
        change=setting("config.mask_token_id", 96),
        says=("mask_token_id 96",),
    ),
    Case(name="pad-token-of-the-target-beyond-the-drafter", rule="target.token-ids", **broken(pad_token_id=200), says=("200",)),
)
