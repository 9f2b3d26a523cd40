"""The contract file, version 1: what training did, for one drafter, stated in full.

Every field is required; nothing has a default. A field typed ``Stated[T]`` is written as a plain value, as
``{value: ..., evidence: ..., note: ...}``, or as ``{unknown: "why it is not known"}`` (contract/statement.py). The JSON Schema in
specs/contract.schema.json and the reference page are generated from these classes, so a description here is documentation.
"""

from __future__ import annotations

from typing import Annotated, Final, Literal

from msgspec import Meta, Struct

from contract.statement import Stated

CONTRACT_SCHEMA_VERSION: Final = 1

Digest = Annotated[str, Meta(pattern="^sha256:[0-9a-f]{64}$", description="`sha256:` and 64 lower-case hexadecimal digits.")]
Size = Annotated[int, Meta(ge=1, le=2**40)]
Count = Annotated[int, Meta(ge=0, le=2**40)]
Layers = Annotated[int, Meta(ge=1, le=10_000)]
DrafterLayers = Annotated[int, Meta(ge=1, le=256)]
Boundary = Annotated[int, Meta(ge=0, le=10_000)]
Positive = Annotated[float, Meta(gt=0)]
Share = Annotated[float, Meta(ge=0, le=1)]


class _Section(Struct, forbid_unknown_fields=True, frozen=True, kw_only=True):
    """A section of the contract: unknown keys are errors."""


class DrafterFiles(_Section, frozen=True, kw_only=True):
    path: Annotated[
        str, Meta(min_length=1, description="Folder of the drafter, relative to the contract file; `.` when committed beside it.")
    ]
    files: Annotated[
        dict[str, Stated[Digest]],
        Meta(description="Every file of the folder and its digest. The folder is a closed world: an unlisted file is a finding."),
    ]


class Target(_Section, frozen=True, kw_only=True):
    id: Annotated[Stated[str], Meta(description="Name of the target model, such as `moonshotai/Kimi-K2.5`.")]
    revision: Annotated[Stated[str], Meta(description="Commit of the target's repository.")]
    model_type: Annotated[Stated[str], Meta(description="`model_type` of the target's config.json; it selects the engine's target family.")]
    layers: Annotated[Stated[Layers], Meta(description="Number of decoder layers N; boundaries run from 0 to N.")]
    hidden_size: Annotated[Stated[Size], Meta(description="Width of the target's residual stream.")]
    dtype: Annotated[Stated[str], Meta(description="Dtype in which the target ran when the states were recorded.")]
    quantization: Annotated[
        Stated[str], Meta(description="Quantisation of the target when the states were recorded; `none` if there was none.")
    ]
    tokenizer_sha256: Annotated[Stated[Digest], Meta(description="Digest of tokenizer.json.")]
    fingerprint: Annotated[
        Stated[Digest], Meta(description="Digest of 64 embedding rows, 64 head rows and the final norm: is it this very target?")
    ]


class HiddenStates(_Section, frozen=True, kw_only=True):
    boundaries: Annotated[
        Stated[list[Boundary | Literal["final_norm"]]],
        Meta(
            description="The states concatenated into fc, in concatenation order. Boundary n is the residual stream entering "
            "target layer n (0 = the embedding, N = after all layers, before the final norm); `final_norm` is the state "
            "after that norm."
        ),
    ]
    point: Annotated[
        Stated[Literal["residual", "before_injected_vision", "after_injected_vision", "branch_only"]],
        Meta(description="Which stream was taken at a boundary."),
    ]


class Vocab(_Section, frozen=True, kw_only=True):
    draft_size: Annotated[Stated[Size], Meta(description="Rows of the drafter's head.")]
    target_size: Annotated[Stated[Size], Meta(description="Vocabulary of the target that token ids index.")]
    target_padded_size: Annotated[Stated[Size], Meta(description="Rows of the target's embedding, padding included.")]
    present: Annotated[Stated[bool], Meta(description="Whether the checkpoint carries a d2t tensor.")]
    map: Annotated[
        Stated[Literal["offset", "absolute", "identity"]],
        Meta(description="`offset`: target = i + d2t[i]; `absolute`: target = d2t[i]; `identity`: draft ids are target ids."),
    ]


class RopeSpec(_Section, frozen=True, kw_only=True):
    type: Annotated[
        Stated[Literal["default", "linear", "dynamic", "llama3", "yarn", "mrope"]],
        Meta(description="Rotary scheme of the drafter."),
    ]
    theta: Annotated[Stated[Positive], Meta(description="Base of the rotary frequencies.")]
    scaling: Annotated[
        dict[str, float | bool | list[int]],
        Meta(description="Parameters of the type under their Hugging Face names (factor, mrope_section ...); `{}` for `default`."),
    ]
    table_length: Annotated[Stated[Size], Meta(description="Positions the drafter was built for (`max_position_embeddings`).")]
    rotary_dim: Annotated[Stated[Size], Meta(description="Rotated dimensions of each head; head_dim when the whole head is rotated.")]
    interleaved: Annotated[Stated[bool], Meta(description="Neighbouring pairs are rotated (DeepSeek) instead of halves.")]


class MlaSpec(_Section, frozen=True, kw_only=True):
    """Sizes of a multi-head latent attention layer (Eagle3DeepseekV2ForCausalLM)."""

    q_lora_rank: Annotated[Size | None, Meta(description="Rank of the query projection; null for a plain q_proj.")]
    kv_lora_rank: Size
    qk_nope_head_dim: Size
    qk_rope_head_dim: Size
    v_head_dim: Size
    norm_eps: Annotated[Positive | None, Meta(description="Epsilon of the two latent norms; null for rms_norm_eps.")]


class WiringSpec(_Section, frozen=True, kw_only=True):
    architecture: Annotated[Stated[str], Meta(description="`architectures[0]` of the drafter's config.json.")]
    layers: Annotated[Stated[DrafterLayers], Meta(description="Decoder layers of the drafter.")]
    hidden_size: Annotated[Stated[Size], Meta(description="Width of the drafter.")]
    intermediate_size: Stated[Size]
    heads: Stated[Size]
    kv_heads: Stated[Size]
    head_dim: Annotated[Stated[Size], Meta(description="Never derived: hidden_size / heads is wrong for many drafters.")]
    attention: Annotated[Stated[Literal["gqa", "mla"]], Meta(description="Grouped-query or multi-head latent attention.")]
    mla: MlaSpec | None
    norms_before_fc: Annotated[
        Stated[list[Literal["input_norm", "fc_norm"]]],
        Meta(description="Norms between the states and fc, in order: `input_norm` over the concatenation, `fc_norm` per state."),
    ]
    fc_applied: Annotated[Stated[bool], Meta(description="Whether fc runs at all.")]
    fc_bias: Stated[bool]
    hidden_norm: Annotated[Stated[bool], Meta(description="Whether the hidden stream is normed at the first layer's entry.")]
    double_norm: Annotated[Stated[bool], Meta(description="ModelOpt >= 0.41: hidden_norm(input_layernorm(h)).")]
    norm_before_residual: Annotated[
        Stated[bool], Meta(description="Whether the first residual is the normed hidden state (speculators) or the raw one.")
    ]
    later_layer_norm: Annotated[
        Stated[Literal["input_layernorm", "hidden_norm", "none"]],
        Meta(description="Norm at the entry of layers after the first; `none` if there is one layer."),
    ]
    final_norm: Annotated[Stated[bool], Meta(description="Whether the state is normed before the head.")]
    feedback: Annotated[Stated[Literal["pre_norm", "post_norm"]], Meta(description="What a step hands to the next one.")]
    concat_order: Annotated[
        Stated[Literal["embedding_first", "hidden_first"]], Meta(description="Order of the first layer's attention input.")
    ]
    rope: RopeSpec
    window: Annotated[Stated[Size | None], Meta(description="Sliding window in keys, the query's own included; null for full attention.")]
    window_follows_steps: Annotated[
        Stated[bool],
        Meta(description="Whether a later step's window moves on with it, as in a KV cache, or stays at the row (speculators)."),
    ]
    qk_norm: Stated[bool]
    qkv_bias: Stated[bool]
    o_bias: Stated[bool]
    mlp_bias: Stated[bool]
    rms_norm_eps: Stated[Positive]
    hidden_act: Stated[str]
    attention_scale: Annotated[
        Stated[Positive | None], Meta(description="null: 1/sqrt(head_dim) (MLA: of the query head, times the YaRN factor).")
    ]
    logit_scale: Stated[Positive]
    embedding: Annotated[Stated[Literal["own", "target"]], Meta(description="Whose embedding table training used.")]
    lm_head: Annotated[Stated[Literal["own", "target", "tied_to_own", "tied_to_target"]], Meta(description="Whose head training used.")]


class Alignment(_Section, frozen=True, kw_only=True):
    token_shift: Annotated[Stated[Count], Meta(description="Row t pairs hidden state g[t] with token x[t + token_shift].")]
    positions_start: Annotated[Stated[Count], Meta(description="Rotary position of row 0.")]
    step_positions: Annotated[
        Stated[Literal["advance", "constant"]], Meta(description="Whether a later step is rotated one position further.")
    ]


class TensorSpec(_Section, frozen=True, kw_only=True):
    shape: Stated[list[Count]]
    dtype: Annotated[Stated[str], Meta(description="Dtype name as torch spells it (`bfloat16`, `int64`, `bool`).")]
    stored: Annotated[bool, Meta(description="Whether the checkpoint holds the tensor.")]
    used: Annotated[
        Stated[Literal["own", "target", "tied_to_own", "tied_to_target", "not_used"]],
        Meta(description="Whose tensor training used in this place."),
    ]
    content: Annotated[
        Stated[Literal["independent", "target_copy", "target_rows", "map"]],
        Meta(description="`independent` weights, a copy of the target's tensor, rows of it picked by the vocab map, or a map."),
    ]


class TargetState(_Section, frozen=True, kw_only=True):
    """The state whose logits were the training target."""

    boundary: Stated[Boundary]
    normed: Annotated[Stated[bool], Meta(description="Whether the stored state had already passed the final norm.")]
    norm_applied_by_trainer: Annotated[Stated[bool], Meta(description="Whether the trainer normed it before the target's head.")]


class TrainingData(_Section, frozen=True, kw_only=True):
    chat_template_sha256: Stated[Digest]
    thinking: Annotated[Stated[Literal["on", "off", "mixed", "none"]], Meta(description="Whether the template's thinking mode was on.")]
    modality: Stated[Literal["text", "vision", "audio", "mixed"]]
    packed: Annotated[Stated[bool], Meta(description="Whether several documents shared one row.")]
    loss_mask_rule: Annotated[
        Stated[Literal["mask_of_state", "mask_of_token"]],
        Meta(
            description="Row t counts if mask[t] (`mask_of_state`: EAGLE, SpecForge, AngelSlim, TorchSpec) or mask[t+1] "
            "(`mask_of_token`: speculators, ModelOpt)."
        ),
    ]


class Samples(_Section, frozen=True, kw_only=True):
    path: Annotated[
        str | None, Meta(description="Folder of the committed samples, relative to the contract file; null when they are kept elsewhere.")
    ]
    count: Annotated[Count, Meta(description="Number of samples in the manifest.")]
    states: Annotated[
        Stated[list[Boundary | Literal["final_norm"]]],
        Meta(description="The states a sample stores besides the target's last one, in stored order; the recipe picks from these."),
    ]
    manifest: Annotated[
        dict[str, Digest], Meta(description="Every sample file, named relative to the samples' folder, and its digest; each must be used.")
    ]


MetricName = Literal[
    "eagle.acc",
    "angelslim.acc",
    "specforge.acc",
    "torchspec.acc",
    "speculators.full_acc",
    "speculators.cond_acc",
    "modelopt.train_acc",
]


class Metrics(_Section, frozen=True, kw_only=True):
    definition: Annotated[
        Stated[MetricName], Meta(description="Whose definition of accuracy; the same predictions are 0.77, 0.94 or 0.91.")
    ]
    accuracy: Annotated[Stated[list[Share]], Meta(description="Claimed accuracy at step 0, 1, ...")]


class Training(_Section, frozen=True, kw_only=True):
    trainer: Stated[str]
    version: Stated[str]
    commit: Stated[str]
    rollout: Annotated[Stated[Literal["teacher", "own_argmax"]], Meta(description="Which tokens later steps were fed.")]
    max_length: Stated[Size]
    target_state: TargetState
    data: TrainingData
    samples: Samples
    metrics: Metrics


class Golden(_Section, frozen=True, kw_only=True):
    file: Annotated[str, Meta(min_length=1)]
    produced_by: Annotated[
        Literal["trainer", "tool"], Meta(description="Rows made by this tool are a regression test, not a proof of the wiring.")
    ]
    sha256: Annotated[
        Digest | None, Meta(description="Digest of the file. Without it rows that were cut or edited prove what is left.")
    ] = None


class Serving(_Section, frozen=True, kw_only=True):
    steps: Stated[Size]
    topk: Stated[Size]
    draft_tokens: Stated[Size]


class Baseline(_Section, frozen=True, kw_only=True):
    engine: Annotated[str, Meta(description="Engine reference such as `sglang==0.5.23`.")]
    value: Positive
    source: str


class Acceptance(_Section, frozen=True, kw_only=True):
    aggregation: Annotated[Stated[Literal["pooled", "mean_of_requests"]], Meta(description="How requests are averaged.")]
    counts_bonus: Annotated[Stated[bool], Meta(description="Whether the token sampled by the target in each round is counted.")]
    counts_prefill: Annotated[Stated[bool], Meta(description="Whether the prefill's token is counted (SGLang's spec_accept_length does).")]
    k: Annotated[Stated[Size], Meta(description="Drafts per round.")]
    temperature: Stated[Annotated[float, Meta(ge=0)]]
    floor: Annotated[
        Stated[Annotated[float, Meta(ge=1)]], Meta(description="Accepted length below which the drafter is not worth serving.")
    ]
    baselines: list[Baseline]


class Tolerances(_Section, frozen=True, kw_only=True):
    """Bounds that may only tighten the built-in ones; null keeps the built-in bound."""

    states: Annotated[Positive | None, Meta(description="Per-row relative error of captured states.")]
    logits: Annotated[Positive | None, Meta(description="Logit error relative to max(1, max|logit|).")]


class Contract(_Section, frozen=True, kw_only=True):
    """What training did, for one drafter."""

    schema_version: Literal[1]
    kind: Literal["eagle3"]
    drafter: DrafterFiles
    target: Target
    hidden_states: HiddenStates
    vocab: Vocab
    wiring: WiringSpec
    alignment: Alignment
    tensors: Annotated[dict[str, TensorSpec], Meta(description="Every tensor of the drafter under its canonical name, stored or not.")]
    training: Training
    golden: Golden | None
    serving: Serving
    acceptance: Acceptance
    tolerances: Tolerances
