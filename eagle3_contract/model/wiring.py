"""Wiring: everything besides recipe and weights that decides the drafter's arithmetic, resolved to values a forward can run.

Legend of the sizes: H drafter hidden size, G target hidden size, K number of states fed, NH query heads, NKV key/value heads, D
head dim, I intermediate size, DV draft vocabulary, V target vocabulary.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum

from eagle3_contract.model.states import Recipe
from eagle3_contract.model.vocab import VocabMap


class NormBeforeFc(StrEnum):
    """A norm between the captured states and fc. ``input_norm`` has one weight [K*G] and one mean square over the concatenation
    (speculators ``norm_before_fc``, ModelOpt gpt-oss v3); ``fc_norm`` has a weight [G] per state (EAGLE-3.1)."""

    INPUT_NORM = "input_norm"
    FC_NORM = "fc_norm"


class Feedback(StrEnum):
    """What a step hands to the next one: the state before or after the final norm (vLLM, SGLang, speculators call the latter
    ``norm_output``; SpecForge uses that key for something else, facts T3)."""

    PRE_NORM = "pre_norm"
    POST_NORM = "post_norm"


class LaterLayerNorm(StrEnum):
    """The norm at the entry of layers after the first: vLLM and speculators load ``input_layernorm``, SGLang ``hidden_norm``."""

    INPUT_LAYERNORM = "input_layernorm"
    HIDDEN_NORM = "hidden_norm"
    NONE = "none"


class ConcatOrder(StrEnum):
    """The order of the first layer's attention input."""

    EMBEDDING_FIRST = "embedding_first"
    HIDDEN_FIRST = "hidden_first"


class Attention(StrEnum):
    """The attention of the drafter's layer(s): grouped-query (Llama, Qwen) or multi-head latent (DeepSeek, Kimi)."""

    GQA = "gqa"
    MLA = "mla"


class Owner(StrEnum):
    """Whose weights are used for the embedding or the head."""

    OWN = "own"
    TARGET = "target"
    TIED_TO_OWN = "tied_to_own"
    TIED_TO_TARGET = "tied_to_target"


class StepPositions(StrEnum):
    """Rotary positions of later steps: ``advance`` adds the step to the row's position, ``constant`` does not."""

    ADVANCE = "advance"
    CONSTANT = "constant"


class Rollout(StrEnum):
    """Which tokens later steps are fed: the true ones or the drafter's own argmax through d2t."""

    TEACHER = "teacher"
    OWN_ARGMAX = "own_argmax"


@dataclass(frozen=True, slots=True, kw_only=True)
class Rope:
    """Rotary embedding. ``scaling`` holds the parameters of ``type`` under their Hugging Face names (factor, low_freq_factor,
    high_freq_factor, original_max_position_embeddings, beta_fast, beta_slow, attention_factor, mscale, mscale_all_dim, truncate,
    mrope_section). ``interleaved`` rotates neighbouring pairs instead of halves (DeepSeek's layout).

    ``table_length`` is the number of positions the drafter was built for; the forward computes rotations and never looks them up, so
    it matters only to type ``dynamic``, as the length below which nothing is scaled where ``scaling`` names no
    original_max_position_embeddings. ``dynamic`` follows the length of the call (Hugging Face, modeling_rope_utils.py
    dynamic_frequency_update); with ``scaling["static"]`` true the base is computed once, for factor times that length (the table
    that vLLM and SGLang build).
    """

    type: str = "default"
    theta: float = 10000.0
    scaling: dict[str, float | int | bool | tuple[int, ...]] = field(default_factory=dict)
    table_length: int | None = None
    rotary_dim: int | None = None
    interleaved: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Mla:
    """Sizes of a multi-head latent attention layer. ``q_lora_rank`` None means a plain q_proj.

    ``norm_eps`` is the epsilon of the two latent norms; None = the drafter's ``rms_norm_eps`` (SGLang, vLLM). Trainers that build the
    layer from transformers' DeepseekV3Attention get 1e-6 whatever the config says (modeling_deepseek_v3.py, DeepseekV3RMSNorm).
    """

    q_lora_rank: int | None
    kv_lora_rank: int
    qk_nope_head_dim: int
    qk_rope_head_dim: int
    v_head_dim: int
    norm_eps: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Wiring:
    """One drafter's arithmetic.

    ``attention_scale`` None means 1/sqrt(head_dim) (MLA: 1/sqrt(qk_nope + qk_rope) times the YaRN mscale squared).
    ``fc_applied`` False means that one state of width H goes straight into the layer (SGLang on equal width).
    ``window`` counts keys including the query's own (Hugging Face ``sliding_window``); None = full attention.
    ``window_follows_steps`` True: a later step's window moves on with it and covers its own earlier steps, as in a KV cache; False:
    it stays where the row's first step had it and the row's own steps are always seen (speculators 0.9.0 trains so,
    models/eagle3/attention.py:16-33).
    """

    hidden_size: int
    target_hidden_size: int
    states: int
    layers: int
    heads: int
    kv_heads: int
    head_dim: int
    intermediate_size: int
    draft_vocab_size: int
    target_vocab_size: int
    rms_norm_eps: float
    hidden_act: str
    rope: Rope
    attention: Attention = Attention.GQA
    mla: Mla | None = None
    norms_before_fc: tuple[NormBeforeFc, ...] = ()
    fc_applied: bool = True
    fc_bias: bool = False
    hidden_norm: bool = True
    double_norm: bool = False
    norm_before_residual: bool = False
    later_layer_norm: LaterLayerNorm = LaterLayerNorm.INPUT_LAYERNORM
    final_norm: bool = True
    feedback: Feedback = Feedback.PRE_NORM
    concat_order: ConcatOrder = ConcatOrder.EMBEDDING_FIRST
    window: int | None = None
    window_follows_steps: bool = True
    qk_norm: bool = False
    qkv_bias: bool = False
    o_bias: bool = False
    mlp_bias: bool = False
    attention_scale: float | None = None
    logit_scale: float = 1.0
    embedding: Owner = Owner.TARGET
    lm_head: Owner = Owner.OWN
    vocab_map: VocabMap = VocabMap.OFFSET
    step_positions: StepPositions = StepPositions.ADVANCE
    positions_start: int = 0
    token_shift: int = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class Reading:
    """What a forward needs of one reader (a trainer, an engine at a version, or the contract itself)."""

    reader: str
    recipe: Recipe
    wiring: Wiring
    rollout: Rollout = Rollout.TEACHER
