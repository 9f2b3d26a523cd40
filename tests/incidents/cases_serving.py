"""Serving flags: the same drafter, another command line."""

from __future__ import annotations

from typing import Any

from factory import MLA, Pair, pair, tiny

from eagle3_contract.model.wiring import Attention, Rope
from incidents.case import Case, setting
from incidents.cases_reading import KIMI, LLAMA, SGLANG, VLLM_V1
from incidents.cases_recipe import target

S, V = SGLANG[0], VLLM_V1[0]
CHAIN = "--speculative-num-steps 3 --speculative-eagle-topk 1 --speculative-num-draft-tokens 4"
SGL = f"python -m sglang.launch_server --model-path t --speculative-algorithm EAGLE3 --speculative-draft-model-path drafter {CHAIN}"
VLL = """vllm serve t --speculative-config '{"method": "eagle3", "model": "drafter", "num_speculative_tokens": 3}'"""


def sglang(name: str, rule: str, added: str, *, instead: str = SGL, **more: Any) -> Case:
    """A case on SGLang: the right command line, and one with ``added`` behind it."""
    options: dict[str, Any] = {"engines": SGLANG, "target": LLAMA, "flags": {S: SGL}, "broken_flags": {S: f"{instead} {added}"}}
    return Case(name=name, rule=rule, **(options | more))


def vllm(name: str, rule: str, added: str, *, instead: str = VLL, **more: Any) -> Case:
    options: dict[str, Any] = {"engines": VLLM_V1, "target": LLAMA, "base": for_vllm, "flags": {V: VLL}}
    return Case(name=name, rule=rule, broken_flags={V: f"{instead} {added}"}, **(options | more))


def for_vllm() -> Pair:
    return pair(layout="flat", ids=(2, 4, 5))


def speculators() -> Pair:
    made = pair(layout="speculators", ids=(2, 4, 5), dialect="layers")
    made.config["speculators_config"] = {
        "verifier": {"name_or_path": "example/tiny-target"},
        "proposal_methods": [{"speculative_tokens": 3}],
    }
    return made


def latent() -> Pair:
    """An MLA drafter on its DeepSeek target."""
    rope = Rope(theta=10000.0, table_length=256, rotary_dim=4, interleaved=True)
    made = pair(tiny(attention=Attention.MLA, mla=MLA, head_dim=12, kv_heads=4, rope=rope), dialect="layers", ids=(2, 4, 5))
    made.config |= {"model_type": "deepseek_v3", "attention_bias": False}
    made.contract["target"]["model_type"] = "deepseek_v3"
    return made


CASES = (
    sglang(
        "one-step-turns-sixteen-draft-tokens-into-two",
        "serve.overridden",
        "",
        instead=SGL.replace("steps 3", "steps 1").replace("tokens 4", "tokens 16"),
        says=("asked --speculative-num-draft-tokens 16, effective 2",),
    ),
    sglang("one-step-in-the-flags", "reading.serve", "", instead=SGL.replace("steps 3", "steps 1").replace("tokens 4", "tokens 2")),
    sglang(
        "eagle-1-algorithm-for-an-eagle-3-head",
        "serve.algorithm",
        "",
        instead=SGL.replace("EAGLE3", "EAGLE"),
        says=("fc is skipped", "d2t"),
    ),
    sglang("final-state-of-eagle-1", "reading.boundaries", "", instead=SGL.replace("EAGLE3", "EAGLE"), says=("final_norm",)),
    sglang(
        "no-algorithm-at-all", "serve.algorithm", "", instead="python -m sglang.launch_server --model-path t", says=("drafts nothing",)
    ),
    sglang("no-drafter-in-the-flags", "serve.draft-path", "", instead=SGL.replace("--speculative-draft-model-path drafter ", "")),
    sglang("token-map-beside-d2t", "serve.token-map", "--speculative-token-map hot.pt", exit=0, warns=True),
    sglang("rejection-sampling-with-a-reduced-vocabulary", "serve.rejection-sampling", "--speculative-use-rejection-sampling"),
    sglang("quantisation-of-the-target-inherited", "serve.quantization", "--quantization awq", says=("awq", "inherited")),
    sglang("dummy-weights-for-the-drafter-on-sglang", "serve.dummy-weights", "--speculative-draft-load-format dummy", says=("random",)),
    sglang("dummy-weights-on-sglang", "serve.dummy-weights", "--load-format dummy", says=("--load-format dummy",)),
    vllm("dummy-weights-on-vllm", "serve.dummy-weights", "--load-format dummy", says=("--load-format dummy",)),
    vllm(
        "dummy-weights-for-the-drafter-on-vllm",
        "serve.dummy-weights",
        "",
        instead=VLL.replace("3}", '3, "draft_load_config": {"load_format": "dummy"}}'),
        says=("draft_load_config.load_format", "random"),
    ),
    sglang("pipeline-stages-on-sglang", "serve.capture", "--pp-size 2", says=("last pipeline stage",)),
    sglang(
        "all-reduce-fused-into-the-norm", "serve.capture-risk", "--tp 8 --enable-flashinfer-allreduce-fusion", exit=0, warns=True,
        says=("partial sum",),
    ),
    sglang("disaggregated-prefill", "serve.capture-risk", "--disaggregation-mode prefill", exit=0, warns=True, says=("another tensor",)),
    sglang("context-beyond-the-table", "serve.context", "--context-length 4096", says=("4096", "256", "refuses")),
    Case(
        name="context-beyond-the-table-allowed",
        rule="serve.context",
        engines=SGLANG,
        target=LLAMA,
        flags={S: SGL},
        broken_flags={S: f"SGLANG_ALLOW_OVERWRITE_LONGER_CONTEXT_LEN=1 {SGL} --context-length 4096"},
        says=("nobody says so",),
    ),
    sglang(
        "context-beyond-training",
        "serve.trained-length",
        "",
        instead=SGL,
        change=setting("contract.training.max_length", 128),
        exit=0,
        warns=True,
        says=("256", "128"),
    ),
    sglang(
        "window-of-an-mla-drafter",
        "serve.ignored-flag",
        "--speculative-draft-window-size 64",
        base=latent,
        target=KIMI,
        exit=0,
        warns=True,
        says=("no window",),
    ),
    Case(
        name="context-of-the-target-beyond-the-table",
        rule="serve.trained-length",
        engines=VLLM_V1,
        base=for_vllm,
        target=LLAMA,
        broken_target=target(architectures=["LlamaForCausalLM"], max_position_embeddings=131072),
        exit=0,
        warns=True,
        says=("131072", "256", "if no flag says otherwise"),
    ),
    vllm("max-model-len-beyond-the-table", "serve.context", "--max-model-len 4k", says=("4000", "256", "nobody says so")),
    vllm(
        "draft-tensor-parallel-size", "serve.ignored-flag", "--speculative-config.draft_tensor_parallel_size 1", exit=0, warns=True,
        says=("no effect",),
    ),
    vllm("pipeline-stages-on-vllm", "serve.capture", "--pipeline-parallel-size 2"),
    vllm("kv-cache-in-fp8", "serve.capture-risk", "--kv-cache-dtype fp8", exit=0, warns=True),
    vllm(
        "acceptance-that-is-drawn", "serve.real-acceptance", "--speculative-config.rejection_sample_method synthetic", exit=0, warns=True,
    ),
    vllm("eagle-method-on-vllm", "serve.algorithm", "", instead=VLL.replace("eagle3", "eagle")),
    vllm(
        "plain-drafter-served-as-the-model",
        "serve.served-model",
        "",
        instead="vllm serve drafter --speculative-config.num_speculative_tokens 3",
        says=("names no verifier",),
    ),
    vllm(
        "speculators-folder-of-another-target",
        "serve.served-model",
        "",
        base=speculators,
        flags={V: "vllm serve drafter"},
        instead="vllm serve drafter",
        change=setting("contract.target.id", "example/another-target"),
        says=("example/tiny-target", "example/another-target"),
    ),
)  # fmt: skip
