"""SGLang plugin (entry point ``sglang.srt.plugins``): records what the target captures, what the drafter is fed and what it holds.

Hooks around methods of SGLang's own classes; nothing is replaced. ``CONTRACT_PROBE_OUT`` names the file; without it nothing is hooked.
"""

import os

from raw import Record, describe, marked_memory, parameters

RECORD = Record(os.environ.get("CONTRACT_PROBE_OUT"))
DRAFTERS = {"llama_eagle3": ("LlamaForCausalLMEagle3", "LlamaModel"), "kimi_k25_eagle3": ("Eagle3DeepseekV2ForCausalLM", "Eagle3MLAModel")}
TARGETS = (
    "llama.LlamaModel",
    "qwen2.Qwen2Model",
    "qwen3.Qwen3Model",
    "deepseek_v2.DeepseekV2Model",
    "gpt_oss.GptOssModel",
    "gemma3_causal.Gemma3TextModel",
)


def built(original, self, *args, **kwargs):
    with marked_memory():
        made = original(self, *args, **kwargs)
    RECORD.put(drafter_class=type(self).__name__)
    return made


def loaded(original, self, *args, **kwargs):
    try:
        made = original(self, *args, **kwargs)
    finally:
        RECORD.put(params=parameters(self), params_as_loaded=parameters(self), **describe(self))
    RECORD.put(load_completed=True)
    return made


def attached(result, worker, *_, **__):
    drafter, target = worker.draft_runner.model, worker.target_worker.model_runner.model
    head, embed = drafter.lm_head.weight, drafter.model.embed_tokens.weight
    owner = getattr(target, "language_model", target)
    RECORD.put(
        params=parameters(drafter),
        target_class=type(target).__name__,
        shared_with_target={
            "embed_tokens": embed.data_ptr() == owner.model.embed_tokens.weight.data_ptr(),
            "lm_head": head.data_ptr() == owner.lm_head.weight.data_ptr() and drafter.lm_head is not drafter.model.embed_tokens,
            "lm_head_is_embed_tokens": drafter.lm_head is drafter.model.embed_tokens,
        },
        d2t=worker.hot_token_id,
        target_capture_list=list(getattr(owner.model, "layers_to_capture", [])),
    )
    drafter.model.fc.register_forward_hook(
        lambda _, given, made: RECORD.event("fc", given=given[0], made=made[0] if isinstance(made, tuple) else made)
    )
    drafter.model.norm.register_forward_hook(_normed)
    return result


def _normed(_, _given, made):
    if isinstance(made, tuple):
        RECORD.event("final_norm", normed=made[0], residual=made[1])


def drafted(original, self, input_ids, positions, forward_batch, *args, **kwargs):
    RECORD.event(
        "draft", mode=forward_batch.forward_mode.name, input_ids=input_ids, positions=positions, fed=forward_batch.spec_info.hidden_states
    )
    return original(self, input_ids, positions, forward_batch, *args, **kwargs)


def targeted(original, self, input_ids, *args, **kwargs):
    made = original(self, input_ids, *args, **kwargs)
    if isinstance(made, tuple) and not RECORD.seen("target"):
        captured = made[1]
        parts = captured.chunk(captured.shape[-1] // made[0].shape[-1], -1) if hasattr(captured, "chunk") else list(captured)
        RECORD.event("target", input_ids=input_ids, captured=list(parts), last=made[0])
    return made


def register():
    if not RECORD.path:
        return
    from sglang.srt.plugins.hook_registry import HookRegistry, HookType

    for module, (outer, inner) in DRAFTERS.items():
        HookRegistry.register(f"sglang.srt.models.{module}.{outer}.__init__", built, HookType.AROUND)
        HookRegistry.register(f"sglang.srt.models.{module}.{outer}.load_weights", loaded, HookType.AROUND)
        HookRegistry.register(f"sglang.srt.models.{module}.{inner}.forward", drafted, HookType.AROUND)
    for name in TARGETS:
        HookRegistry.register(f"sglang.srt.models.{name}.forward", targeted, HookType.AROUND)
    HookRegistry.register("sglang.srt.speculative.eagle_worker_v2.EagleDraftWorker.init_lm_head", attached, HookType.AFTER)
