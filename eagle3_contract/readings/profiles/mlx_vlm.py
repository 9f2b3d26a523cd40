"""mlx-vlm 0.7.10, from its wheel (not run). It expects the speculators layout; what it makes of another one is not settled."""

from __future__ import annotations

from eagle3_contract.readings.conditions import equal
from eagle3_contract.readings.profiles.common import SYMBOLS
from eagle3_contract.readings.profiles.plain import D2T, IDENTITY, SKIPPED, TOO_NARROW, TOP, capture, found, llama
from eagle3_contract.readings.rules import (
    Copy,
    Family,
    Fate,
    Hit,
    Key,
    Profile,
    Rule,
    Speculators,
    Turn,
    Unknown,
    default,
    fixed,
    not_known,
)

MLX_SOURCE = "mlx_vlm/speculative/drafters/eagle3/eagle3.py:94-116, 180, 260-265"
MLX_VLM = Profile(
    engine="mlx-vlm",
    spans=(("0.7.10", "0.7.10"),),
    runners=(),
    symbols=SYMBOLS,
    source="mlx-vlm 0.7.10",
    architectures=found("mlx_vlm/speculative/drafters/eagle3/config.py", "{names}: only the speculators layout is settled"),
    capture=capture(
        MLX_SOURCE,
        (
            Rule(
                field="capture.ids",
                source="mlx_vlm/speculative/drafters/eagle3/config.py:46-49, 66-73",
                choices=(
                    Key(path="cfg:capture_layer_ids", hit=Hit.TRUTHY, turn=Turn.NEXT_EACH),
                    Key(path="cfg:target_layer_ids", hit=Hit.TRUTHY, turn=Turn.ONE_AT_LEAST),
                    Key(path=TOP, hit=Hit.TRUTHY, turn=Turn.ONE_AT_LEAST),
                    not_known("derived from the drafter's own number of layers, not the target's"),
                ),
            ),
        ),
        (Family(name="boundary = id, 0 becomes 1", targets=(), highest="N", source="mlx_vlm/speculative/drafters/eagle3/config.py:66-73"),),
    ),
    rules=(),
    classes=(
        llama(
            "eagle3",
            ("eagle3",),
            MLX_SOURCE,
            {
                "fc.applied": (SKIPPED, fixed(True)),
                "norms.input_norm": (Key(path="cfg:norm_before_fc", turn=Turn.TRUTH), default(False)),
                "wiring.norm_before_residual": (Key(path="cfg:norm_before_residual", turn=Turn.TRUTH), default(False)),
                "wiring.positions_start": (fixed(1, "positions start at 1"),),
                "rope.type": (fixed("default", "scaling is ignored"),),
                "rope.scaling": (fixed({}, "scaling is ignored"),),
                "vocab.present": D2T,
                "vocab.map": IDENTITY,
                "embedding.used": (fixed("target", "shapes are equal", when=equal("=H", "=TG")), fixed("own")),
                "lm_head.used": (fixed("own"),),
            },
            unknown=Unknown(fate=Fate.ERROR, error="strict load: {name!r} is no parameter (inferred)"),
            missing=Fate.ERROR,
        ),
    ),
    guards=(TOO_NARROW,),
    speculators=Speculators(
        copies=(
            Copy(key="draft_vocab_size", only=Hit.NOT_NULL),
            Copy(key="target_hidden_size", only=Hit.NOT_NULL),
            Copy(key="norm_before_residual", default=False),
            Copy(key="norm_before_fc", default=False),
            Copy(key="eagle_aux_hidden_state_layer_ids", only=Hit.TRUTHY),
        ),
        architectures={"llama": "eagle3"},
        algorithms=("eagle3",),
        source="mlx_vlm/speculative/drafters/eagle3/config.py",
    ),
    shared=(("embed_tokens.weight", "embedding.used"),),
)
