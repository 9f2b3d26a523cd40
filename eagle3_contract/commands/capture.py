"""``contract capture``."""

from __future__ import annotations

from contract.answers import Answer
from contract.errors import InputRejected
from contract.files.bundle import open_bundle
from contract.requests import CaptureRequest
from eagle3_contract.engines.run import capture_now, check_engine, file_prompts
from eagle3_contract.model.load import load_contract
from eagle3_contract.model.resolve import resolve
from eagle3_contract.model.states import recipe_text
from eagle3_contract.verify.sample_set import open_samples


def capture(request: CaptureRequest) -> Answer:
    """Run the target and record what the drafter is fed; the bundle is read back before it is announced.

    Raises:
        UserError: the engine, the target, the prompts or the place cannot be used.
    """
    check_engine(request.engine)
    loaded = load_contract(request.spec)
    samples = prompts = None
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
        device=request.device,
    )
    bundle = open_bundle(out)
    fed = recipe_text(tuple(bundle.manifest.recipe_fed))  # type: ignore[arg-type]  # the manifest spells states as int or str
    who = request.engine if request.imitate is None else f"{request.engine} imitating {request.imitate}"
    tokens = sum(r.tokens for r in bundle.requests)
    text = f"{request.out}: {len(bundle.requests)} requests, {tokens} tokens, fed {fed} by {who}"
    return Answer(
        text=text,
        data={
            "bundle": request.out,
            "requests": len(bundle.requests),
            "tokens": tokens,
            "recipe_fed": list(bundle.manifest.recipe_fed),
            "layers": bundle.manifest.layers,
            "engine": request.engine,
            "imitates": request.imitate,
        },
    )
