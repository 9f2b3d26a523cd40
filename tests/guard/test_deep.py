"""``contract guard --verify``: the dynamic depth before the server starts."""

from __future__ import annotations

import signal
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
from cli.fake import RULE, FakeKind, report
from verify.scenario import Scenario, build, write_target

from contract.answers import Result
from contract.cli.guard import _become
from contract.cli.main import main
from contract.findings import ExitCode
from contract.guarding.examine import Guarded, examine
from contract.kinds import Kind
from contract.requests import CheckRequest, Request, VerifyRequest


class Recording(FakeKind):
    """Notes every request; ``check`` and ``verify`` have results of their own."""

    def __init__(self, check: Result, verify: Result) -> None:
        super().__init__()
        self.results, self.requests = {CheckRequest: check, VerifyRequest: verify}, list[Request]()

    def _answer(self, request: Request) -> Result:
        self.requests.append(request)
        return self.results[type(request)]  # type: ignore[index]


def asked(tmp_path: Path, **more: object) -> Guarded:
    spec = tmp_path / "c.yaml"
    spec.write_text("schema_version: 1\nkind: fake\ndrafter: {path: .}\n")
    plain = Guarded(spec=str(spec), engine="sglang", command=("server",), verify=True, capture="bundle")
    return replace(plain, **more)  # type: ignore[arg-type]


def examined(kind: Recording, guarded: Guarded) -> ExitCode:
    found: Kind = kind
    return examine(guarded, found).exit_code


def test_both_depths_count(tmp_path: Path) -> None:
    kept, violated, unknown = report(passed=1), report(failed=1), report()
    deep = replace(kept, checks=[RULE.passed("deeper")], measurements={"a": 1}, provenance={"b": 2})
    kind = Recording(kept, deep)
    whole = examine(asked(tmp_path), kind)
    assert whole.exit_code is ExitCode.KEPT
    assert [c.message for c in whole.checks if c.rule == RULE.id] == ["right", "deeper"]
    assert (whole.measurements, whole.provenance["b"]) == ({"a": 1}, 2)
    assert isinstance(kind.requests[1], VerifyRequest)
    assert kind.requests[1].capture == "bundle"
    assert examined(Recording(kept, violated), asked(tmp_path)) is ExitCode.VIOLATED
    assert examined(Recording(kept, replace(kept, complete=False)), asked(tmp_path)) is ExitCode.UNUSABLE
    assert examined(Recording(unknown, deep), asked(tmp_path)) is ExitCode.KEPT


def test_what_is_violated_already_is_not_verified_further(tmp_path: Path) -> None:
    kind = Recording(report(failed=1), report(passed=1))
    assert examined(kind, asked(tmp_path)) is ExitCode.VIOLATED
    assert [type(request) for request in kind.requests] == [CheckRequest]


def test_without_the_flag_only_the_files_are_checked(tmp_path: Path) -> None:
    kind = Recording(report(passed=1), report(failed=1))
    assert examined(kind, asked(tmp_path, verify=False, capture=None)) is ExitCode.KEPT
    assert [type(request) for request in kind.requests] == [CheckRequest]


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> Scenario:
    """Trained on the states that SGLang takes by default for 8 layers."""
    folder = tmp_path_factory.mktemp("deep")
    return build(folder / "drafter", write_target(folder / "target"), recipe=(2, 4, 5))


@pytest.fixture
def became(monkeypatch: pytest.MonkeyPatch) -> list[list[str]]:
    """The commands that the guard became; tests/guard/test_guard.py really becomes them."""
    commands: list[list[str]] = []
    monkeypatch.setattr("os.execvp", lambda file, words: commands.append(list(words)))
    monkeypatch.delenv("CONTRACT_POLICY", raising=False)
    return commands


@pytest.mark.parametrize(("recipe", "code"), [((2, 4, 5), 0), ((1, 3, 4), 1)])
def test_a_capture_decides(
    trained: Scenario, became: list[list[str]], recipe: tuple[int, ...], code: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    capture: Callable[..., Path] = trained.capture
    bundle = capture(recipe, f"deep-{code}")
    steps = ["--speculative-num-steps=3", "--speculative-eagle-topk=1", "--speculative-num-draft-tokens=4"]
    flags = [*steps, "--context-length=256", "--dtype=float32"]
    server = ["sglang", "serve", "--model-path", str(trained.target_dir), "--speculative-algorithm", "EAGLE3", *flags]
    server += ["--speculative-draft-model-path", str(trained.folder)]
    line = ["guard", str(trained.spec), "--engine", "sglang==0.5.23", "--verify", "--capture", str(bundle), "--format", "json=r.json", "--"]
    assert main([*line, *server]) == code, Path("r.json").read_text()
    assert became == ([server] if code == 0 else [])


def test_a_command_that_cannot_start_leaves_signals_as_they_were(
    capsys: pytest.CaptureFixture[str],
) -> None:
    """With SIGPIPE at its default, whoever called this would end at the next socket whose other end has gone, without a word."""
    before = [signal.getsignal(n) for n in (signal.SIGPIPE, signal.SIGXFSZ)]
    assert _become(("no-such-command-here",)) == 2
    assert "cannot start" in capsys.readouterr().err
    assert [signal.getsignal(n) for n in (signal.SIGPIPE, signal.SIGXFSZ)] == before
