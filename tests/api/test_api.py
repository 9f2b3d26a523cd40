"""The Python API: typed, silent, and with the same gate as the command line."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest
import yaml
from factory import pair

import contract
from contract import ExitCode, NotKept, Report, Status, UserError, check, read, require_kept, verify

SGLANG = "sglang==0.5.23"
DEMO = Path(__file__).parents[2] / "eagle3_contract" / "demo" / "data"


@pytest.fixture(autouse=True)
def _nothing_configured(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.delenv("CONTRACT_POLICY", raising=False)
    monkeypatch.chdir(tmp_path)


def test_check(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    kept = check(pair().write(tmp_path / "good"), engines=[SGLANG])
    assert isinstance(kept, Report)
    assert (kept.exit_code, kept.verdict) == (ExitCode.KEPT, "kept")
    assert require_kept(kept) is kept
    violated = check(pair(ids=(2, 4, 5)).write(tmp_path / "bad"), engines=[SGLANG])
    assert [c.rule for c in violated.checks if c.status is Status.FAILED] == ["reading.boundaries"]
    with pytest.raises(NotKept, match=r"FAILED reading\.boundaries") as raised:
        require_kept(violated)
    assert raised.value.report is violated
    assert capfd.readouterr() == ("", "")


def test_verify(tmp_path: Path) -> None:
    report = verify(pair().write(tmp_path), device="cpu")
    assert report.command == "verify"
    assert report.exit_code is ExitCode.UNKNOWN, "there are no samples"
    with pytest.raises(NotKept):
        require_kept(report)


def test_read(tmp_path: Path) -> None:
    pair(ids=(2, 4, 5)).write(tmp_path)
    readings = read(tmp_path, engines=[SGLANG, "vllm==0.32.0"], target=None)
    assert [(r.engine, r.runner) for r in readings] == [("sglang", None), ("vllm", "v1"), ("vllm", "v2")]
    target = {"model_type": "llama", "num_hidden_layers": 8, "hidden_size": 32, "vocab_size": 96, "architectures": ["LlamaForCausalLM"]}
    (tmp_path / "target").mkdir()
    (tmp_path / "target" / "config.json").write_text(json.dumps(target))
    (one,) = read(tmp_path, engines=[SGLANG], target=tmp_path / "target")
    assert (one["hidden_states.boundaries"], one.outcome, one.tensors["fc.weight"]) == ([3, 5, 6], "ok", "loaded")
    field = one.fields["hidden_states.boundaries"]
    assert (field.origin, field.key) == ("key", "eagle_config.eagle_aux_hidden_state_layer_ids")
    unknown = next((f for f in readings[0].fields.values() if not f.known), None)
    if unknown is not None:
        with pytest.raises(KeyError):
            readings[0][unknown.name]
    with pytest.raises(KeyError):
        one["nonsense"]


def test_user_errors_are_raised(tmp_path: Path) -> None:
    with pytest.raises(UserError):
        check(tmp_path / "absent.yaml")
    with pytest.raises(UserError):
        read(tmp_path / "absent", engines=[SGLANG])
    with pytest.raises(UserError):
        check(pair().write(tmp_path), policies=[tmp_path / "absent.yaml"])


def test_waivers_and_policies_hold_here_too(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    spec = pair(ids=(2, 4, 5)).write(tmp_path / "d")
    waiver = {
        "rule": "reading.boundaries",
        "scope": {"engine": "sglang", "versions": "any"},
        "reason": "the new checkpoint comes on Monday",
        "expires": "2099-01-01",
        "measured": "accepted length 2.41 against 2.43, 200 prompts",
    }
    (tmp_path / "d" / "contract.waivers.yaml").write_text(yaml.safe_dump({"schema_version": 1, "waivers": [waiver]}))
    assert check(spec, engines=[SGLANG]).exit_code is ExitCode.KEPT
    policy = tmp_path / "policy.yaml"
    policy.write_text("schema_version: 1\nwaivers: {forbidden: [reading.*]}\n")
    assert check(spec, engines=[SGLANG], policies=[policy]).exit_code is ExitCode.UNUSABLE
    monkeypatch.setenv("CONTRACT_POLICY", str(policy))
    assert check(spec, engines=[SGLANG]).exit_code is ExitCode.UNUSABLE


def test_names() -> None:
    assert set(contract.__all__) <= set(dir(contract))
    with pytest.raises(AttributeError):
        contract.nonsense  # noqa: B018 -- the access is what is tested


@pytest.mark.parametrize(
    ("line", "absent"),
    [
        ("import contract", ("yaml", "msgspec", "numpy", "click", "contract.api")),
        ("from contract import check, verify, read", ("torch", "transformers", "click")),
    ],
)
def test_imports_stay_light(line: str, absent: tuple[str, ...]) -> None:
    code = f"{line}\nimport sys; print([m for m in {absent!r} if m in sys.modules])"
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout == "[]\n"


def test_verify_takes_workers_and_a_journal(tmp_path: Path) -> None:
    spec = DEMO / "drafter-a" / "contract.yaml"
    journal = tmp_path / "journal"
    once = verify(spec, device="cpu", target=DEMO / "target", resume=journal)
    again = verify(spec, device="cpu", target=DEMO / "target", resume=journal, workers=1, executor="local")
    execution = again.provenance["execution"]
    assert isinstance(execution, dict)
    assert execution["resumed"] == 8, "nothing was measured a second time"
    assert once.exit_code == again.exit_code
    with pytest.raises(UserError, match="for the training path alone"):
        verify(spec, capture=tmp_path, workers=2)
