"""What an interpreter has: asked of fakes, of broken ones, and of one in a process of its own."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from contract.errors import ToolError
from eagle3_contract.commands import doctor
from eagle3_contract.engines import environment
from eagle3_contract.engines.environment import CPU_FEATURES, HookPoint, cpu_facts, engine_facts, why_missing

ROOT = Path(__file__).parents[2]


def propose(self: object, token_indices: object) -> None: ...


THERE = {"engine.Runner.propose": propose, "engine.Runner": object()}


def resolve(name: str) -> Any:
    if name in THERE:
        return THERE[name]
    raise AttributeError(f"no {name}")


@pytest.mark.parametrize(
    ("point", "why"),
    [
        (HookPoint("engine.Runner", "gate"), None),
        (HookPoint("engine.Runner.propose", "capture", ("token_indices",)), None),
        (HookPoint("engine.Runner.propose", "capture", ("token_indices", "attention")), "has no argument attention"),
        (HookPoint("engine.Runner.verify", "capture"), "AttributeError: no engine.Runner.verify"),
        (HookPoint("engine.Runner", "capture", ("x",)), "TypeError"),
    ],
)
def test_hook_points(point: HookPoint, why: str | None) -> None:
    found = why_missing(point, resolve)
    assert found == why if why is None else found is not None and found.startswith(why)


def test_real_names_resolve() -> None:
    """transformers is here: its points are found by the real resolver; another name is not."""
    found = engine_facts("transformers")
    assert found["error"] is None
    assert [p["missing"] for p in found["hook_points"]] == [None, None]
    assert why_missing(HookPoint("transformers.AutoModel.no_such_thing", "capture")) is not None


def test_engines_say_their_points() -> None:
    """The tables of both engines are read without either engine."""
    for name, at_least in (("vllm", 10), ("sglang", 8)):
        points = list(environment.POINTS[name]())
        assert {p.purpose for p in points} >= {"capture", "gate"}
        assert len({(p.name, p.purpose) for p in points}) == len(points) >= at_least
        assert all(p.name.startswith(f"{name}.") for p in points)


@pytest.mark.parametrize("error", [ImportError("libcuda.so.1"), RuntimeError("operator does not exist"), SystemExit])
def test_engine_that_cannot_be_imported(error: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    def fails(name: str) -> None:
        raise error

    monkeypatch.setattr(environment, "version_of", lambda name: "0.32.0")
    monkeypatch.setattr(environment.importlib, "import_module", fails)
    if error is SystemExit:
        with pytest.raises(SystemExit):
            engine_facts("vllm")
        return
    found = engine_facts("vllm")
    assert found["error"] == f"{type(error).__name__}: {error}"
    assert found["hook_points"] == []


def test_engine_that_is_not_installed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(environment, "version_of", lambda name: None)
    assert engine_facts("sglang") == {"version": None, "error": None, "hook_points": []}


def test_cpu_features(tmp_path: Path) -> None:
    info = tmp_path / "cpuinfo"
    info.write_text("processor\t: 0\nflags\t\t: fpu avx2 avx512f\nbugs\t: x\n")
    assert cpu_facts(info)["features"] == {name: name in ("avx2", "avx512f") for name in CPU_FEATURES}
    assert cpu_facts(tmp_path / "none")["features"] is None
    assert cpu_facts(info)["cores"] >= 1


def test_devices(monkeypatch: pytest.MonkeyPatch) -> None:
    """Two devices as torch describes them, one without bfloat16."""
    import torch

    named = [
        SimpleNamespace(name="A", total_memory=3 * 2**30, major=7, minor=5),
        SimpleNamespace(name="B", total_memory=2**37, major=9, minor=0),
    ]
    current = [0]

    class At:
        def __init__(self, index: int) -> None:
            self.index = index

        def __enter__(self) -> None:
            current[0] = self.index

        def __exit__(self, *_: object) -> None: ...

    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 2)
    monkeypatch.setattr(torch.cuda, "get_device_properties", lambda i: named[i])
    monkeypatch.setattr(torch.cuda, "device", At)
    monkeypatch.setattr(torch.cuda, "is_bf16_supported", lambda: current[0] == 1)
    found = environment.torch_facts()
    assert found is not None
    assert [(d["device"], d["capability"], d["bfloat16"]) for d in found["devices"]] == [("cuda:0", "7.5", False), ("cuda:1", "9.0", True)]


def facts(**changes: Any) -> dict[str, Any]:
    """What a child says of an interpreter in which all is well."""
    point = {"name": "vllm.x", "for": "capture", "missing": None}
    usual: dict[str, Any] = {
        "python": "3.12.1",
        "executable": "/opt/engine/bin/python",
        "engines": {
            "vllm": {"version": "0.32.0+cpu", "error": None, "hook_points": [point, {**point, "for": "gate"}]},
            "sglang": {"version": "0.5.23", "error": None, "hook_points": [{**point, "name": "sglang.y"}]},
            "transformers": {"version": "5.0.0", "error": None, "hook_points": []},
        },
        "torch": {
            "version": "2.13.0",
            "cuda": "13.0",
            "threads": 4,
            "devices": [{"device": "cuda:0", "name": "H200", "memory_bytes": 150 * 2**30, "capability": "9.0", "bfloat16": True}],
        },
        "cpu": {"machine": "x86_64", "cores": 16, "features": dict.fromkeys(CPU_FEATURES, True)},
    }
    return {**usual, **changes}


def said(folder: Path, found: object, code: int = 0, before: str = "") -> str:
    """An interpreter that answers so; its text."""
    place = folder / "python"
    place.write_text(f"#!{sys.executable}\nimport sys\nprint({before!r})\nprint({json.dumps(found)!r})\nsys.exit({code})\n")
    place.chmod(0o755)
    return str(place)


def test_nothing_is_missing(tmp_path: Path) -> None:
    found = doctor.examine(said(tmp_path, facts(), before="a banner of the interpreter"))
    assert found == facts() | {"missing": []}
    text = list(doctor.lines(found))
    assert text[0] == "engines and devices of /opt/engine/bin/python (python 3.12.1)"
    assert "  vllm 0.32.0+cpu, tested; hook points: 1 of 1 for capture, 1 of 1 for gate" in text
    assert "  cuda:0 H200, 150.0 GiB, compute capability 9.0, bfloat16" in text
    assert not [line for line in text if "missing" in line]


def test_what_is_missing_and_how_to_get_it(tmp_path: Path) -> None:
    lacking = {"name": "vllm.x", "for": "capture", "missing": "AttributeError: no x"}
    engines = {
        "vllm": {"version": "0.99.0", "error": None, "hook_points": [lacking]},
        "sglang": {"version": "0.5.23", "error": "ImportError: libcuda.so.1", "hook_points": []},
        "transformers": {"version": None, "error": None, "hook_points": []},
    }
    torch = {"version": "2.13.0+cpu", "cuda": None, "threads": 1, "devices": []}
    cpu = {"machine": "x86_64", "cores": 2, "features": dict.fromkeys(CPU_FEATURES, True) | {"amx_bf16": False}}
    found = doctor.examine(said(tmp_path, facts(engines=engines, torch=torch, cpu=cpu)))
    what = [item["what"] for item in found["missing"]]
    assert what == [
        "vllm 0.99.0 has no vllm.x (capture): AttributeError: no x",
        "sglang 0.5.23 cannot be imported: ImportError: libcuda.so.1",
        "transformers is not installed",
        "no CUDA device",
        "the CPU has no amx_bf16",
    ]
    assert all(item["fix"] for item in found["missing"])
    text = "\n".join(doctor.lines(found))
    assert "vllm 0.99.0, NOT TESTED (hooks were run on 0.32.0); hook points: 0 of 1 for capture" in text
    assert "sglang 0.5.23, CANNOT BE IMPORTED" in text


def test_without_torch(tmp_path: Path) -> None:
    found = doctor.examine(said(tmp_path, facts(torch=None, cpu={"machine": "arm64", "cores": 8, "features": None})))
    assert [item["what"] for item in found["missing"]] == ["torch is not installed"]
    assert "  cpu arm64, 8 cores, features not known" in list(doctor.lines(found))


@pytest.mark.parametrize(
    ("found", "code"),
    [(facts(), 3), ({"python": "3"}, 0), ([], 0), ("x", 0), (facts(engines=[]), 0)],
    ids=["code", "keys", "list", "text", "engines"],
)
def test_interpreter_that_does_not_answer(found: object, code: int, tmp_path: Path) -> None:
    with pytest.raises(ToolError) as error:
        doctor.examine(said(tmp_path, found, code))
    assert error.value.rule == "engine.not-installed"


def test_no_interpreter(tmp_path: Path) -> None:
    with pytest.raises(ToolError, match="cannot be asked"):
        doctor.examine(str(tmp_path / "nothing"))


def test_asking_needs_neither_torch_nor_an_engine(tmp_path: Path) -> None:
    """The module is started in an interpreter in which nothing but the standard library can be imported, and still answers."""
    script = f"""
import sys
class Refuse:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in ("torch", "numpy", "msgspec", "yaml", "click", "vllm", "sglang", "transformers", "safetensors"):
            raise ImportError(name)
sys.meta_path.insert(0, Refuse())
sys.path.insert(0, {str(ROOT)!r})
import importlib.util
find = importlib.util.find_spec
importlib.util.find_spec = lambda name, package=None: None if name == "torch" else find(name, package)
from eagle3_contract.engines import environment
environment.main()
"""
    done = subprocess.run(
        [sys.executable, "-I", "-c", script], capture_output=True, text=True, cwd=tmp_path, env=dict(os.environ), check=True
    )
    found = json.loads(done.stdout.splitlines()[-1])
    assert found["torch"] is None
    assert found["engines"]["vllm"]["version"] is None
    assert found["engines"]["transformers"]["error"].startswith("ImportError")


def test_asking_does_not_import_torch_here(tmp_path: Path) -> None:
    script = (
        "import sys; from eagle3_contract.commands import doctor; found = doctor.examine(sys.argv[1]); list(doctor.lines(found)); "
        "print([m for m in ('torch', 'transformers', 'numpy') if m in sys.modules])"
    )
    environment_of = {**os.environ, "PYTHONPATH": str(ROOT)}
    place = said(tmp_path, facts())
    done = subprocess.run([sys.executable, "-c", script, place], capture_output=True, text=True, env=environment_of, check=True)
    assert done.stdout == "[]\n"
