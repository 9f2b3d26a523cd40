"""The start-up gate: clean engines pass, every fault of a running one refuses, and the report names it."""

from __future__ import annotations

import json
import logging
import os
import subprocess
import sys
from collections.abc import Callable
from dataclasses import replace
from datetime import date
from pathlib import Path
from typing import Any

import pytest
import torch
import yaml
from factory import MLA, Pair, pair, tiny, write_contract
from safetensors.torch import load_file, save_file

from contract.errors import UsageError
from contract.findings import Check, ExitCode, Status
from contract.reporting import Report
from eagle3_contract.drafter.names import D2T, EMBEDDING, HEAD, canonical_name
from eagle3_contract.engines.gate import VARIABLE, GateRefused, LiveFacts, at_start, examine, mode_asked
from eagle3_contract.model.wiring import Attention, Owner, Rope, Wiring

ROOT = Path(__file__).parents[2]
LLAMA = {
    "architectures": ["LlamaForCausalLM"],
    "model_type": "llama",
    "num_hidden_layers": 8,
    "hidden_size": 32,
    "vocab_size": 96,
    "max_position_embeddings": 256,
    "torch_dtype": "bfloat16",
}
ENGINES: dict[str, dict[str, Any]] = {
    "vllm": {"version": "0.32.0+cpu", "runner": "v1", "ids": (2, 4, 5)},
    "sglang": {"version": "0.5.23", "runner": None, "ids": (1, 3, 4)},
}
"""Versions, and the ids of config.json that mean boundaries 2, 4 and 5 of a Llama target."""


def drafter(engine: str, wiring: Wiring | None = None, **more: Any) -> Pair:
    """A drafter whose config this engine reads as training was."""
    made = pair(wiring, ids=ENGINES[engine]["ids"], **more)
    made.config["architectures"] = ["LlamaForCausalLMEagle3"]
    return made


def started(engine: str, made: Pair, folder: Path, **changes: Any) -> LiveFacts:
    """The pair on disk, and what an engine without a fault would show of it."""
    home, target = folder / "drafter", folder / "target"
    made.write(home)
    target.mkdir()
    (target / "config.json").write_text(json.dumps(LLAMA))
    held = load_file(home / "model.safetensors")
    d2t = held.get(D2T)
    wiring = made.contract["wiring"]
    shared = {"embedding": wiring["embedding"], "lm_head": wiring["lm_head"]}
    usual = LiveFacts(
        engine=engine,
        version=ENGINES[engine]["version"],
        runner=ENGINES[engine]["runner"],
        drafter=home,
        target=target,
        layers=8,
        layer_ids=(2, 4, 5),
        parameters={n: t for n, t in held.items() if t.is_floating_point()},
        shared=shared,
        target_ids=None if d2t is None else d2t + torch.arange(len(d2t)),
    )
    return replace(usual, **changes)


def failed(report: Report) -> dict[str, Check]:
    """What refuses the start, by rule."""
    return {c.rule: c for c in report.checks if c.status is Status.FAILED or (c.status is Status.UNKNOWN and c.required)}


def live(report: Report) -> set[str]:
    """The gate's own rules among them."""
    return {rule for rule in failed(report) if rule.startswith("gate.")}


@pytest.fixture(params=ENGINES)
def engine(request: pytest.FixtureRequest) -> str:
    return str(request.param)


def test_clean(engine: str, tmp_path: Path, caplog: pytest.LogCaptureFixture, capsys: pytest.CaptureFixture[str]) -> None:
    facts = started(engine, drafter(engine), tmp_path)
    report = examine(facts)
    assert report.exit_code is ExitCode.KEPT, failed(report)
    assert {"gate.layer-ids", "gate.tensors", "gate.left-at-init", "gate.shared", "gate.vocab-map", "reading.boundaries"} <= {
        c.rule for c in report.checks if c.status is Status.PASSED
    }
    with caplog.at_level(logging.INFO):
        at_start(facts, "refuse")
    assert [r.levelname for r in caplog.records] == ["INFO"]
    assert capsys.readouterr().err == ""


@pytest.mark.parametrize("dtype", [torch.float16, torch.float32])
def test_another_dtype_of_the_engine_is_a_cast(engine: str, dtype: torch.dtype, tmp_path: Path) -> None:
    facts = started(engine, drafter(engine), tmp_path)
    report = examine(replace(facts, parameters={n: t.to(dtype) for n, t in facts.parameters.items()}))
    assert live(report) == set()


def without(name: str) -> Callable[[LiveFacts], LiveFacts]:
    return lambda f: replace(f, parameters={n: t for n, t in f.parameters.items() if canonical_name(n) != name})


def changed(name: str, by: Callable[[torch.Tensor], torch.Tensor]) -> Callable[[LiveFacts], LiveFacts]:
    return lambda f: replace(f, parameters={n: by(t.clone()) if canonical_name(n) == name else t for n, t in f.parameters.items()})


def one_element(value: torch.Tensor) -> torch.Tensor:
    value[3, 5] += 0.5
    return value


def shared(**places: str) -> Callable[[LiveFacts], LiveFacts]:
    return lambda f: replace(f, shared={**f.shared, **places})


FAULTS: dict[str, tuple[str, Callable[[LiveFacts], LiveFacts], str]] = {
    "fc was skipped": ("gate.tensors", without("fc.weight"), "holds no fc.weight"),
    "one value of fc": (
        "gate.tensors",
        changed("fc.weight", one_element),
        "1 of 3072 elements are not the checkpoint's, the first in row 3",
    ),
    "columns of fc swapped": ("gate.tensors", changed("fc.weight", lambda t: t.roll(32, dims=1)), "other values in fc.weight"),
    "q cut": ("gate.tensors", changed("layers.0.self_attn.q_proj.weight", lambda t: t[:24]), "in another shape"),
    "a norm of NaN": ("gate.tensors", changed("norm.weight", lambda t: t * float("nan")), "other values in norm.weight"),
    "other head": ("gate.tensors", changed(HEAD, lambda t: t.flip(0)), "other values in lm_head.weight"),
    "values not shown": ("gate.tensors", changed("fc.weight", lambda t: t[:0]), "does not show the values of fc.weight"),
    "weights of one byte": ("gate.tensors", changed("fc.weight", lambda t: t.to(torch.float8_e4m3fn)), "cannot be compared"),
    "the target's head": ("gate.shared", shared(lm_head="target"), "uses lm_head target; training used own"),
    "an own embedding": ("gate.shared", shared(embedding="own"), "uses embedding own; training used target"),
    "ids off by one": ("gate.layer-ids", lambda f: replace(f, layer_ids=(1, 3, 4)), "feeds [1, 3, 4]; training fed [2, 4, 5]"),
    "default ids": ("gate.layer-ids", lambda f: replace(f, layer_ids=(2, 4, 6)), "feeds [2, 4, 6]"),
    "no aux states": ("gate.layer-ids", lambda f: replace(f, layer_ids=()), "feeds [final_norm]"),
    "no list at all": ("gate.layer-ids", lambda f: replace(f, layer_ids=None), "feeds [final_norm]"),
    "an id beyond the target": ("gate.layer-ids", lambda f: replace(f, layer_ids=(2, 4, 5, 9)), ""),
    "direct d2t": ("gate.vocab-map", lambda f: replace(f, target_ids=_absolute(f) + torch.arange(24)), "draft ids to other tokens"),
    "no d2t": ("gate.vocab-map", lambda f: replace(f, target_ids=None), "maps no ids; training had a vocab map"),
    "d2t cut": ("gate.vocab-map", lambda f: replace(f, target_ids=_absolute(f)[:20]), "maps 20 draft ids of 24"),
    "another depth": ("gate.layers", lambda f: replace(f, layers=10), "has 10 layers, the contract's has 8"),
    "a bias from nowhere": (
        "gate.left-at-init",
        lambda f: replace(f, parameters={**f.parameters, "fc.bias": torch.full((32,), 0.1)}),
        "runs on fc.bias as it was built: training had no such parameter",
    ),
}
HARMLESS = {"an id beyond the target"}


def _absolute(facts: LiveFacts) -> torch.Tensor:
    assert facts.target_ids is not None
    return facts.target_ids


@pytest.mark.parametrize("fault", FAULTS)
def test_fault_of_a_running_engine(fault: str, engine: str, tmp_path: Path) -> None:
    rule, make, says = FAULTS[fault]
    report = examine(make(started(engine, drafter(engine), tmp_path)))
    if fault in HARMLESS:
        assert live(report) == set()
        return
    assert live(report) == {rule}
    assert says in failed(report)[rule].message
    assert report.exit_code in (ExitCode.VIOLATED, ExitCode.UNKNOWN)


def test_parameter_that_no_file_filled(engine: str, tmp_path: Path) -> None:
    """fc missing from the file: the engine runs on uninitialised memory, and both the file and the engine say so."""
    made = drafter(engine)
    held = {"fc.weight": torch.zeros(32, 96)}
    del made.tensors["fc.weight"]
    facts = started(engine, made, tmp_path)
    report = examine(replace(facts, parameters={**facts.parameters, **held}))
    assert live(report) == {"gate.left-at-init"}
    assert "fc.weight as it was built: training used it and no file holds it" in failed(report)["gate.left-at-init"].message


def test_neutral_parameter_that_training_did_not_have(engine: str, tmp_path: Path) -> None:
    facts = started(engine, drafter(engine), tmp_path)
    extra = {"fc.bias": torch.zeros(32), "fc_norm.0.weight": torch.ones(32), "rotary.cache": torch.ones(3)}
    assert live(examine(replace(facts, parameters={**facts.parameters, **extra}))) == set()


def test_order_and_repeats_of_the_held_ids_do_not_matter(engine: str, tmp_path: Path) -> None:
    facts = started(engine, drafter(engine), tmp_path, layer_ids=(5, 2, 4, 4))
    assert live(examine(facts)) == set()


def test_permuted_recipe_is_refused(engine: str, tmp_path: Path) -> None:
    """Trained on [5, 2, 4], in whatever order the ids are written: both engines feed [2, 4, 5]."""
    made = pair(boundaries=(5, 2, 4), ids=[ENGINES[engine]["ids"][i] for i in (2, 0, 1)])
    found = failed(examine(started(engine, made, tmp_path)))
    assert {"gate.layer-ids", "reading.boundaries"} <= set(found)
    assert found["gate.layer-ids"].expected == [5, 2, 4]
    assert found["gate.layer-ids"].actual == [2, 4, 5]


def test_ids_that_the_engine_does_not_read(engine: str, tmp_path: Path) -> None:
    """Ids under a key of nobody: the engine runs on its defaults, and its live ids and its reading say the same."""
    made = pair(boundaries=(2, 3, 5), ids=(2, 3, 5))
    made.config["eagle_config"] = {"layer_ids": [2, 3, 5]}
    report = examine(started(engine, made, tmp_path, layer_ids=(2, 4, 5)))
    assert [failed(report)[rule].actual for rule in ("gate.layer-ids", "reading.boundaries")] == [[2, 4, 5], [2, 4, 5]]


def test_padded_and_sliced_parameters(tmp_path: Path) -> None:
    facts = started("vllm", drafter("vllm"), tmp_path)

    def with_head(make: Callable[[torch.Tensor], torch.Tensor], **group: int) -> set[str]:
        held = {n: make(t) if canonical_name(n) == HEAD else t for n, t in facts.parameters.items()}
        if group:
            held = {n: t for n, t in held.items() if canonical_name(n) != "fc.weight"} | {
                "fc.weight": facts.parameters["fc.weight"][:, 48:]
            }
        return live(examine(replace(facts, parameters=held, **group)))

    assert with_head(lambda t: torch.cat([t, torch.zeros(40, 32, dtype=t.dtype)])) == set()
    assert with_head(lambda t: t[12:], tp=2, rank=1) == set()
    assert with_head(lambda t: t[:12], tp=2, rank=1) == {"gate.tensors"}


def test_shadowing_file(engine: str, tmp_path: Path) -> None:
    """A second weight file holds another head, and the engine took that one."""
    facts = started(engine, drafter(engine), tmp_path)
    other = {"lm_head.weight": torch.randn(24, 32, dtype=torch.bfloat16)}
    save_file(other, tmp_path / "drafter" / "other.safetensors")
    found = failed(examine(replace(facts, parameters={**facts.parameters, **other})))
    assert "gate.tensors" in found
    assert "lm_head.weight" in found["gate.tensors"].message


def test_copy_of_the_targets_embedding_may_be_shared(engine: str, tmp_path: Path) -> None:
    made = drafter(engine, tiny(embedding=Owner.OWN))
    made.contract["tensors"][EMBEDDING]["content"] = "target_copy"
    facts = started(engine, made, tmp_path, shared={"embedding": "target", "lm_head": "own"})
    assert live(examine(facts)) == set()
    trained = yaml.safe_load((tmp_path / "drafter" / "contract.yaml").read_text())
    trained["tensors"][EMBEDDING]["content"] = "independent"
    write_contract(tmp_path / "drafter" / "contract.yaml", trained)
    assert live(examine(facts)) == {"gate.shared"}


def test_tied_heads(tmp_path: Path) -> None:
    wiring = tiny(embedding=Owner.OWN, lm_head=Owner.TIED_TO_OWN, draft_vocab_size=96)
    facts = started("vllm", drafter("vllm", wiring), tmp_path)
    assert live(examine(facts)) == set()
    assert live(examine(replace(facts, shared={"embedding": "own", "lm_head": "own"}))) == {"gate.shared"}


def test_full_vocabulary_maps_nothing(engine: str, tmp_path: Path) -> None:
    facts = started(engine, drafter(engine, tiny(draft_vocab_size=96)), tmp_path)
    assert facts.target_ids is None
    assert live(examine(facts)) == set()
    assert live(examine(replace(facts, target_ids=torch.arange(96)))) == set()
    assert live(examine(replace(facts, target_ids=torch.arange(96).flip(0)))) == {"gate.vocab-map"}


def test_latent_attention(tmp_path: Path) -> None:
    wiring = tiny(attention=Attention.MLA, mla=MLA, rope=Rope(theta=5e4, table_length=64, rotary_dim=4))
    facts = started("sglang", pair(wiring, ids=(1, 3, 4)), tmp_path)
    assert live(examine(facts)) == set()
    assert live(examine(without("layers.0.self_attn.kv_b_proj.weight")(facts))) == {"gate.tensors"}


def test_engine_that_nobody_read(engine: str, tmp_path: Path) -> None:
    facts = started(engine, drafter(engine), tmp_path, version="99.0")
    report = examine(facts)
    assert live(report) == {"gate.reading"}
    assert report.exit_code is ExitCode.UNKNOWN


def test_what_the_reading_finds_refuses_too(tmp_path: Path) -> None:
    """Nothing in SGLang's memory shows that it does not know norm_before_residual: the reading does."""
    found = failed(examine(started("sglang", drafter("sglang", tiny(norm_before_residual=True)), tmp_path)))
    assert "reading.norm-before-residual" in found
    assert not [rule for rule in found if rule.startswith("gate.")]


def test_flags_count(tmp_path: Path) -> None:
    made = drafter("sglang")
    facts = started("sglang", made, tmp_path)
    asked = {"speculative_algorithm": "EAGLE", "speculative_num_steps": 3, "speculative_eagle_topk": 1, "speculative_num_draft_tokens": 4}
    rules = set(failed(examine(replace(facts, flags=asked))))
    assert rules
    assert set(failed(examine(replace(facts, flags={**asked, "speculative_algorithm": "EAGLE3"})))) < rules


@pytest.mark.parametrize("spoil", ["missing", "broken", "about another folder", "not yaml"])
def test_no_usable_contract(spoil: str, engine: str, tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    made = drafter(engine)
    facts = started(engine, made, tmp_path)
    spec = tmp_path / "drafter" / "contract.yaml"
    if spoil == "missing":
        spec.unlink()
    elif spoil == "broken":
        write_contract(spec, {**made.contract, "surprise": 1})
    elif spoil == "about another folder":
        (tmp_path / "drafter" / "sub").mkdir()
        write_contract(spec, {**made.contract, "drafter": {**made.contract["drafter"], "path": "sub"}})
    else:
        spec.write_text("a: [")
    at_start(facts, "warn")
    assert [r.levelname for r in caplog.records] == ["WARNING"]
    with pytest.raises(GateRefused, match="contract") as refused:
        at_start(facts, "refuse")
    assert refused.value.code == (1 if spoil in ("missing", "about another folder") else 2)


def test_refusal_carries_the_report(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    facts = started("vllm", drafter("vllm"), tmp_path, layer_ids=(1, 3, 4))
    with pytest.raises(GateRefused) as refused:
        at_start(facts, "refuse")
    said = capsys.readouterr().err
    assert str(refused.value) == said
    assert refused.value.rule == "gate.refused"
    assert isinstance(refused.value, SystemExit)
    assert refused.value.code == 1
    assert "VIOLATED (exit 1)" in said
    assert "gate.layer-ids" in said
    assert "expected [2, 4, 5]" in said


def test_warning_is_one_record(tmp_path: Path, caplog: pytest.LogCaptureFixture, capsys: pytest.CaptureFixture[str]) -> None:
    facts = started("vllm", drafter("vllm"), tmp_path, layer_ids=(1, 3, 4), target_ids=None)
    at_start(facts, "warn")
    assert len(caplog.records) == 1
    assert "gate.layer-ids" in caplog.text
    assert "gate.vocab-map" in caplog.text
    assert capsys.readouterr().out == ""


def test_waivers_beside_the_contract_hold(tmp_path: Path) -> None:
    facts = started("vllm", drafter("vllm"), tmp_path, layers=10)
    waiver = {"rule": "gate.layers", "scope": {"engine": "vllm", "versions": ">=0.30"}, "reason": "two layers of an adapter"}
    waiver |= {"measured": "accepted length 2.1 with and without", "expires": date(2027, 3, 31)}
    path = tmp_path / "drafter" / "contract.waivers.yaml"
    path.write_text(yaml.safe_dump({"schema_version": 1, "waivers": [waiver]}))
    before, after = examine(facts, today=date(2027, 1, 1)), examine(facts, today=date(2027, 4, 1))
    assert before.exit_code is ExitCode.KEPT
    assert [c.rule for c in before.checks if c.status is Status.WAIVED] == ["gate.layers"]
    assert "gate.layers" in failed(after)
    path.write_text("waivers: [")
    assert {"gate.layers", "contract.yaml-syntax"} <= set(failed(examine(facts)))


def test_mode() -> None:
    assert mode_asked({}) is None
    assert mode_asked({VARIABLE: ""}) is None
    assert mode_asked({VARIABLE: "warn"}) == "warn"
    assert mode_asked({VARIABLE: "refuse"}) == "refuse"
    for wrong in ("1", "Refuse", "on", "warn "):
        with pytest.raises(UsageError) as error:
            mode_asked({VARIABLE: wrong})
        assert error.value.rule == "gate.mode"


def test_it_imports_only_what_an_engine_has(tmp_path: Path) -> None:
    """The gate runs in an engine's environment: neither the command line's packages nor transformers may be needed."""
    facts = started("vllm", drafter("vllm"), tmp_path)
    script = f"""
import sys
class Refuse:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in ("click", "rich", "structlog", "jsonschema", "transformers", "hypothesis"):
            raise ImportError(name)
sys.meta_path.insert(0, Refuse())
from safetensors.torch import load_file
from eagle3_contract.engines.gate import LiveFacts, at_start, GateRefused
import torch
held = load_file({str(tmp_path / "drafter" / "model.safetensors")!r})
facts = LiveFacts(engine="vllm", version="0.32.0", runner="v1", drafter={str(facts.drafter)!r}, target={str(facts.target)!r}, layers=8,
    layer_ids=(2, 4, 5), parameters={{n: t for n, t in held.items() if t.is_floating_point()}},
    shared={{"embedding": "target", "lm_head": "own"}}, target_ids=held["d2t"] + torch.arange(24))
at_start(facts, "refuse")
print("kept")
"""
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": "1"}
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, env=environment, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert done.stdout == "kept\n"
