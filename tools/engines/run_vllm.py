"""Runs variants through vLLM, each in a process of its own: ``run_vllm.py JOBS.json``, in vLLM's environment.

A job is as for ``run_sglang``. vLLM is imported once and then forked; the engine runs in the forked process, not in one of its own, so that
the record survives a request that fails. ``Probe`` is a worker extension: vLLM mixes it into its worker and calls it by ``collective_rpc``.
"""

import functools
import json
import pathlib
import sys

import torch
import vllm
import vllm.model_executor.models.deepseek_eagle3 as deepseek
import vllm.model_executor.models.llama_eagle3 as llama
import vllm.model_executor.models.qwen3_eagle3 as qwen3
import vllm.v1.spec_decode.eagle
import vllm.v1.worker.cpu_model_runner
import vllm.v1.worker.cpu_worker
from apart import apart
from raw import Record, describe, marked_memory, parameters

UNSET = "__unset__"
LIMIT_S = 180
RECORD = Record(None)


class Probe:
    """Worker extension: hooks on the drafter that this worker loaded, and on its target."""

    def contract_probe_start(self):
        runner = self.model_runner
        drafter, target = runner.drafter.model, runner.get_model()
        owner = getattr(target, "language_model", target)
        embed = drafter.model.embed_tokens
        params = dict(RECORD.data["params"])
        if embed.weight.numel():
            params["model.embed_tokens.weight"] = embed.weight
        offsets = getattr(drafter, "draft_id_to_target_id", None)
        if offsets is not None and not bool(offsets.any()):
            offsets = None  # zeros where the file has none: draft ids are target ids
        RECORD.put(
            params=params,
            target_class=type(target).__name__,
            shared_with_target={
                "embed_tokens": embed is next(getattr(owner.model, n) for n in ("embed_tokens", "embedding") if hasattr(owner.model, n)),
                "lm_head": drafter.lm_head is owner.lm_head,
                "lm_head_is_embed_tokens": drafter.lm_head is embed,
            },
            d2t=None if offsets is None else offsets + torch.arange(len(offsets)),
            target_capture_list=list(getattr(owner.model, "aux_hidden_state_layers", ())),
        )
        combine = drafter.combine_hidden_states

        def combined(states):
            RECORD.event("combine", fed=states)
            return combine(states)

        drafter.__dict__["combine_hidden_states"] = combined  # called as a method, so that module hooks do not see it
        if hasattr(drafter.model, "fc"):
            drafter.model.fc.register_forward_hook(lambda _, given, made: RECORD.event("fc", given=given[0], made=made))
        drafter.model.norm.register_forward_hook(_normed)
        drafter.register_forward_pre_hook(_drafted, with_kwargs=True)
        target.register_forward_hook(_targeted, with_kwargs=True)


def _normed(_, _given, made):
    if isinstance(made, tuple):
        RECORD.event("final_norm", normed=made[0], residual=made[1])


def _drafted(_, _given, named):
    RECORD.event("draft", fed=named["hidden_states"], input_ids=named["input_ids"], positions=named["positions"])


def _targeted(_, _given, _named, made):
    if isinstance(made, tuple) and not RECORD.seen("target"):
        RECORD.event("target", last=made[0], captured=list(made[1]))


def watch(cls):
    """Record what a drafter class holds when it was built and loaded (later the CPU backend repacks linear weights and empties them)."""
    build, load = cls.__init__, cls.load_weights

    @functools.wraps(build)  # vLLM looks at the signature
    def built(self, *args, **kwargs):
        with marked_memory():
            build(self, *args, **kwargs)
        RECORD.put(drafter_class=cls.__name__)

    @functools.wraps(load)
    def loaded(self, *args, **kwargs):
        try:
            made = load(self, *args, **kwargs)
        finally:
            RECORD.put(params=parameters(self), params_as_loaded=parameters(self), **describe(self))
        RECORD.put(load_completed=True)
        return made

    cls.__init__, cls.load_weights = built, loaded


def arguments(job):
    speculative = {"method": "eagle3", "model": job["folder"], "num_speculative_tokens": 3}
    speculative |= job["flags"].get("speculative_config", {})
    given = {
        "model": job["target"],
        "skip_tokenizer_init": True,
        "dtype": "float32",
        "max_model_len": 256,
        "max_num_seqs": 4,
        "max_num_batched_tokens": 512,
        "enforce_eager": True,
        "worker_extension_cls": "__main__.Probe",
    } | {k: v for k, v in job["flags"].items() if k != "speculative_config"}
    given = {k: job["folder"] if v == "$DRAFT" else v for k, v in given.items()}
    speculative = {k: v for k, v in speculative.items() if v != UNSET}
    return given | ({"speculative_config": speculative} if speculative else {})


def run(job):
    folder = pathlib.Path(job["folder"])
    RECORD.path = str(folder / "raw.pt")
    engine = vllm.LLM(**arguments(job))
    told = {"loaded": True}
    chosen = engine.llm_engine.vllm_config.speculative_config
    told["flags_in_effect"] = {k: getattr(chosen, k) for k in ("method", "num_speculative_tokens")}
    (folder / "outcome.json").write_text(json.dumps(told))
    if "params" in RECORD.data:
        engine.collective_rpc("contract_probe_start")
    wanted = vllm.SamplingParams(temperature=0, max_tokens=job["max_new_tokens"], detokenize=False, ignore_eos=True)
    (out,) = engine.generate([{"prompt_token_ids": job["prompt"]}], wanted)
    told |= {"answered": True, "output_ids": list(out.outputs[0].token_ids)}
    (folder / "outcome.json").write_text(json.dumps(told))


def main():
    for cls in (llama.Eagle3LlamaForCausalLM, qwen3.Eagle3Qwen3ForCausalLM, deepseek.Eagle3DeepseekV2ForCausalLM):
        watch(cls)
    for job in json.loads(pathlib.Path(sys.argv[1]).read_text()):
        apart(job, run, LIMIT_S)


if __name__ == "__main__":
    main()
