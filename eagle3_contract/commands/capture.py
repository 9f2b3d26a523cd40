"""``contract capture``."""

from __future__ import annotations

from pathlib import Path

from contract.answers import Answer
from contract.errors import InputRejected
from contract.files.bundle import open_bundle
from contract.requests import CaptureRequest
from eagle3_contract.engines.run import capture_now, capture_spool, file_prompts, options_for
from eagle3_contract.model.load import load_contract
from eagle3_contract.model.resolve import resolve
from eagle3_contract.model.states import recipe_text
from eagle3_contract.verify.inference import recipe_fed
from eagle3_contract.verify.sample_set import open_samples


def capture(request: CaptureRequest) -> Answer:
    """Run the target and record what the drafter is fed; the bundle is read back before it is announced.

    Raises:
        UserError: the engine, the target, the prompts or the place cannot be used.
    """
    options = options_for(request.engine, request, imitate=request.imitate)
    loaded = load_contract(request.spec)
    samples = prompts = None
    if request.spool is not None:
        return _answer(request, capture_spool(loaded, request))
    if request.samples is not None:
        recipe = resolve(loaded.contract, rollout=False).recipe
        samples, checks = open_samples(loaded, request.samples, recipe, allow_pickle=request.allow_pickle)
        if samples is None:
            raise InputRejected(checks[-1].message, rule=checks[-1].rule, fix=checks[-1].fix or "Check --samples.", where=checks[-1].where)
    else:
        prompts = file_prompts(str(request.prompts))
    out = capture_now(
        loaded,
        engine=request.engine,
        target=request.target,
        out=request.out,
        samples=samples,
        prompts=prompts,
        imitate=request.imitate,
        options=options,
        serve_args=request.serve_args,
        device=request.device,
    )
    return _answer(request, out)


def _answer(request: CaptureRequest, out: Path) -> Answer:
    bundle = open_bundle(out)
    fed = recipe_text(recipe_fed(bundle.manifest))
    ran = bundle.manifest.engine
    name = f"{ran.name}{f'[{ran.runner}]' if ran.runner else ''}=={ran.version}"
    who = name if request.imitate is None else f"{name} imitating {request.imitate}"
    tokens = sum(r.tokens for r in bundle.requests)
    counts = bundle.manifest.counts
    rounds = f", {counts['rounds'].recorded} rounds of drafting" if "rounds" in counts else ""
    text = f"{request.out}: {len(bundle.requests)} requests, {tokens} tokens{rounds}, fed {fed} by {who}"
    return Answer(
        text=text,
        data={
            "bundle": request.out,
            "requests": len(bundle.requests),
            "tokens": tokens,
            "recipe_fed": list(bundle.manifest.recipe_fed),
            "layers": bundle.manifest.layers,
            "engine": name,
            "counts": {k: {"recorded": c.recorded, "counted": c.counted, "by": c.by} for k, c in counts.items()},
            "imitates": request.imitate,
        },
    )
