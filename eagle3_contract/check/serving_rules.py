"""The rules about serving flags: what a command line asks for, what takes effect, and what it does to the drafter."""

from __future__ import annotations

from typing import Final

from contract.findings import Rule, Severity


def _rule(name: str, title: str, why: str, remedy: str, severity: Severity = Severity.ERROR) -> Rule:
    return Rule(id=f"serve.{name}", title=title, severity=severity, dimension="flags", why=why, remedy=remedy)


ALGORITHM: Final = _rule(
    "algorithm",
    "The flags start EAGLE-3, and the drafter is used at all",
    "SGLang with --speculative-algorithm EAGLE runs an EAGLE-3 drafter without a word: the target's normed last state is fed, fc is "
    "skipped, the head is the target's and d2t unused (sglang#21272; seen on the running 0.5.23). The text stays right, only slower.",
    "Ask for EAGLE3 (SGLang: --speculative-algorithm EAGLE3; vLLM: method eagle3).",
)
OVERRIDDEN: Final = _rule(
    "overridden",
    "Every number that a flag asks for takes effect",
    "SGLang overwrites num_draft_tokens by steps + 1 at topk 1 with one warning line (arg_groups/speculative_hook.py:1255-1266): "
    "--speculative-num-steps 1 turned 16 draft tokens into 2 in the incident that this project was born from.",
    "Ask for numbers that agree: at topk 1 draft tokens = steps + 1.",
)
DRAFT_PATH: Final = _rule(
    "draft-path",
    "The flags name the drafter",
    "Without a path SGLang takes the target as its own drafter: an AttributeError, or, where the target has MTP layers, another drafter "
    "than this one, silently (arg_groups/speculative_hook.py:1112-1140).",
    "Name the drafter's folder (SGLang: --speculative-draft-model-path; vLLM: model in --speculative-config).",
)
SERVED_MODEL: Final = _rule(
    "served-model",
    "A drafter that is served as the model names this target and its own token count",
    "`vllm serve` on a speculators folder takes target and token count from its config (transformers_utils/configs/speculators/base.py); "
    "any other drafter's folder is no model that can be served.",
    "Serve the target and name the drafter in --speculative-config, or write the verifier into speculators_config.",
)
CONTEXT: Final = _rule(
    "context",
    "No context is served that outgrows the drafter's rope table",
    "SGLang stops at start (configs/model_config.py:1295-1318) unless SGLANG_ALLOW_OVERWRITE_LONGER_CONTEXT_LEN is set, and then crashes "
    "or drifts on long requests (sglang#3574); vLLM raises the table to max_model_len with one INFO line.",
    "Serve at most as many tokens as the drafter was built for, or train it on longer ones.",
)
TRAINED_LENGTH: Final = _rule(
    "trained-length",
    "No context is served that is longer than what training saw",
    "Beyond the length of training the drafter guesses: sglang-EAGLE3-LLaMA3.3-Instruct-70B, trained on 2048 tokens, was slower than no "
    "speculation for longer inputs (sglang#6783).",
    "Serve shorter contexts, or measure acceptance at the length that is served.",
    Severity.WARNING,
)
QUANTIZATION: Final = _rule(
    "quantization",
    "The drafter is not run in a quantisation that it does not have",
    "SGLang gives the target's --quantization to the drafter (arg_groups/serving_hook.py:675-709). Loud where the scheme needs a file "
    '("Cannot find the config file for awq", sglang#28196), silent with 0% acceptance where weights are never loaded (vllm#37667).',
    "SGLang: --speculative-draft-model-quantization unquant.",
)
DUMMY: Final = _rule(
    "dummy-weights",
    "The drafter's and the target's weights are loaded from their files",
    "--load-format dummy fills every parameter with random values, for profiling; the drafter takes the target's load format where it has "
    "none of its own (SGLang model_executor/model_runner.py:1538-1549; vLLM model_executor/model_loader/utils.py:46-56). Nothing says so "
    "afterwards: a random drafter costs speed, not text.",
    "Leave the load format out, or say auto (SGLang: --speculative-draft-load-format; vLLM: draft_load_config in --speculative-config).",
)
TOKEN_MAP: Final = _rule(
    "token-map",
    "A token map is given only where it is used",
    "SGLang ignores --speculative-token-map for EAGLE3 with one warning line and takes the drafter's own d2t "
    "(speculative/eagle_worker_v2.py:325-330).",
    "Leave the flag out.",
    Severity.WARNING,
)
IGNORED: Final = _rule(
    "ignored-flag",
    "No flag is given that the engine ignores",
    "A flag without effect makes two configurations look different that are not, and hides that something was not done.",
    "Leave the flag out, or reach its aim in another way.",
    Severity.WARNING,
)
REJECTION: Final = _rule(
    "rejection-sampling",
    "Rejection sampling is asked for only where draft and target share a vocabulary",
    "SGLang refuses it for a drafter with a reduced vocabulary, d2t or not (speculative/eagle_worker_v2.py:260-274).",
    "Leave --speculative-use-rejection-sampling out, or train a drafter over the whole vocabulary.",
)
CAPTURE: Final = _rule(
    "capture",
    "No flag is given under which the target's states do not arrive",
    "Layers on other pipeline stages are not captured: SGLang captures on the last stage only, vLLM rebuilds the list there "
    "(vllm#53052, #50514).",
    "Serve the target without pipeline parallelism (tensor parallelism is fine).",
)
CAPTURE_RISK: Final = _rule(
    "capture-risk",
    "No flag is given under which captured states have been wrong",
    "Deferred all-reduce hands over one rank's partial sum (sglang#28343); disaggregated prefill handed over another tensor "
    "(sglang#13590).",
    "Capture from the engine under these flags and verify the bundle, or serve without them.",
    Severity.WARNING,
)
REAL: Final = _rule(
    "real-acceptance",
    "Acceptance is decided by the target",
    "vLLM's synthetic rejection sampler accepts at a rate that is given, so that its counters say nothing about the drafter.",
    "Leave rejection_sample_method out.",
    Severity.WARNING,
)
RULES: Final = (
    ALGORITHM, OVERRIDDEN, DRAFT_PATH, SERVED_MODEL, CONTEXT, TRAINED_LENGTH, QUANTIZATION, DUMMY, TOKEN_MAP, IGNORED, REJECTION, CAPTURE,
    CAPTURE_RISK, REAL,
)  # fmt: skip
