"""The way in: every check about the runs of a real engine, from a bundle."""

from __future__ import annotations

from collections.abc import Iterator

from contract.files.bundle import Bundle
from contract.findings import Check, Json
from eagle3_contract.drafter.drafter import Drafter
from eagle3_contract.model.load import LoadedContract
from eagle3_contract.model.wiring import Reading
from eagle3_contract.verify.engine_runs import flags, noise
from eagle3_contract.verify.engine_runs.acceptance import acceptance_checks
from eagle3_contract.verify.engine_runs.floors import floor_checks
from eagle3_contract.verify.engine_runs.noise import Noise
from eagle3_contract.verify.engine_runs.tokens import token_checks
from eagle3_contract.verify.inference import REFERENCE
from eagle3_contract.verify.target_tokens import TargetHead


def measure_noise(bundle: Bundle | None, training: Reading) -> Noise | None:
    """The noise floor of a bundle that holds prompts in several runs, else None."""
    if bundle is None:
        return None
    return noise.of_bundle(bundle, shift=training.wiring.token_shift, longest=flags.longest(bundle.manifest.engine.flags))


def noise_checks(found: Noise | None, loaded: LoadedContract, head: TargetHead | None, measurements: dict[str, Json]) -> Iterator[Check]:
    """What the further runs say about the engine; nothing for a single run. ``measurements`` gets ``noise``."""
    if found is None:
        return
    measurements["noise"] = found.as_measurement()
    yield from found.checks()
    yield from token_checks(found, head)
    yield from floor_checks(found, loaded.contract)


def round_checks(bundle: Bundle | None, training: Reading, drafter: Drafter | None, measurements: dict[str, Json]) -> Iterator[Check]:
    """What the rounds of a bundle say about acceptance; nothing without a bundle. ``measurements`` gets ``acceptance``."""
    if bundle is not None:
        reference = bundle.manifest.engine.name == REFERENCE
        yield from acceptance_checks(bundle, training.recipe, drafter, measurements, reference=reference)
