"""Repositories of the Hub where a folder is due: what is fetched, what is said, and what the answer is."""

from __future__ import annotations

import json
import os
import shutil
from pathlib import Path

import pytest
from factory import pair
from huggingface_hub import constants

from contract import ExitCode, Status, check, read
from contract.errors import UserError
from contract.report import render
from hub.conftest import TOKEN
from hub.server import COMMIT, Hub, serving

SGLANG = "sglang==0.5.23"
DEMO = Path(__file__).parents[2] / "eagle3_contract" / "demo" / "data"
TARGET = {"model_type": "llama", "num_hidden_layers": 8, "hidden_size": 32, "vocab_size": 96, "architectures": ["LlamaForCausalLM"]}


@pytest.fixture(autouse=True)
def _here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "here").mkdir()
    monkeypatch.chdir(tmp_path / "here")
    monkeypatch.delenv("CONTRACT_POLICY", raising=False)


def leftovers(cache: Path) -> list[str]:
    """What is in the cache afterwards."""
    return sorted(str(p.relative_to(cache)) for p in cache.rglob("*")) if cache.exists() else []


def test_read_from_the_hub_is_read_from_the_folder(hub: Hub, cache: Path, tmp_path: Path) -> None:
    folder = tmp_path / "org" / "eagle-name"
    folder.mkdir(parents=True)
    pair(ids=(2, 4, 5)).write(folder)
    (folder / "modeling.py").write_text("raise SystemExit('executed')")
    hub.add("org/eagle-name", folder)
    (local,) = read(folder, engines=[SGLANG])
    (remote,) = read(f"hf:org/eagle-name@{COMMIT}", engines=[SGLANG])
    assert remote.fields == local.fields
    assert remote.tensors == local.tensors
    assert remote.data["hub"] == [
        {"input": "drafter", "name": f"hf:org/eagle-name@{COMMIT}", "commit": COMMIT, "read": "ranges", "not_fetched": ["modeling.py"]}
    ]
    assert "modeling.py" not in hub.files_asked(), "code is never fetched"
    assert leftovers(cache) == [], "what was read by ranges is not kept"


def test_headers_and_the_map_are_all_that_is_fetched(hub: Hub, tmp_path: Path) -> None:
    folder = DEMO / "drafter-a"
    hub.add("org/name", folder)
    size = (folder / "model.safetensors").stat().st_size
    assert size > 700_000
    read(f"org/name@{COMMIT}", engines=[SGLANG])
    assert hub.sent < size / 4
    ranges = [asked for path, asked, _ in hub.asked if path.endswith("model.safetensors")]
    assert ranges[0] == f"bytes=0-{128 * 1024 - 1}"
    assert None not in ranges


def test_check_of_a_contract_on_the_hub(hub: Hub, tmp_path: Path) -> None:
    hub.add("org/drafter", DEMO / "drafter-a")
    hub.add("org/target", DEMO / "target")
    shutil.copytree(DEMO / "drafter-a", tmp_path / "copy")  # a checkout may hold hard links, which warn
    local = check(tmp_path / "copy" / "contract.yaml", engines=[SGLANG], target=DEMO / "target")
    remote = check(f"hf:org/drafter@{COMMIT}", engines=[SGLANG], target=f"hf:org/target@{COMMIT}")
    assert (remote.exit_code, remote.verdict) == (local.exit_code, local.verdict) == (ExitCode.KEPT, "kept")
    assert [(c.rule, c.status) for c in remote.checks] == [(c.rule, c.status) for c in local.checks]
    assert [h["name"] for h in remote.provenance["hub"]] == [f"hf:org/drafter@{COMMIT}", f"hf:org/target@{COMMIT}"]  # type: ignore[union-attr, index, call-overload]
    text = render(remote, "text")
    assert ".eagle3-contract" not in text, "the folder behind it is nobody's business"
    assert {name.rpartition(".")[2] for name in hub.files_asked()} == {"yaml", "json", "safetensors"}


def test_a_wrong_drafter_on_the_hub_is_found(hub: Hub, tmp_path: Path) -> None:
    pair(ids=(2, 4, 5)).write(tmp_path / "bad")
    hub.add("org/bad", tmp_path / "bad")
    report = check(f"hf:org/bad@{COMMIT}", engines=[SGLANG])
    assert [c.rule for c in report.checks if c.status is Status.FAILED] == ["reading.boundaries"]


def test_values_and_digests_are_read_of_whole_files(hub: Hub, cache: Path, tmp_path: Path) -> None:
    hub.add("org/drafter", DEMO / "drafter-a")
    report = check(f"hf:org/drafter@{COMMIT}", integrity="digests")
    assert report.exit_code is ExitCode.KEPT
    home = cache / "models--org--drafter"
    assert (home / "snapshots" / COMMIT / "model.safetensors").resolve().parent == (home / "blobs").resolve()
    assert not list(cache.rglob("*.incomplete"))
    before = hub.sent
    again = check(f"hf:org/drafter@{COMMIT}", integrity="digests")
    assert again.exit_code is ExitCode.KEPT
    assert "model.safetensors" not in {p.rpartition("/")[2] for p, _, _ in hub.asked[-1:]}
    assert hub.sent - before < 10_000, "the second time only the list was asked for"


def test_a_branch_is_resolved_once_and_warns(hub: Hub, tmp_path: Path) -> None:
    pair().write(tmp_path / "good")
    hub.add("org/good", tmp_path / "good")
    pinned = check(f"hf:org/good@{COMMIT}")
    moving = check("hf:org/good@v1")
    unnamed = check("hf:org/good")
    assert [c.rule for c in pinned.checks if c.rule.startswith("hub.")] == []
    for report in (moving, unnamed):
        (warned,) = [c for c in report.checks if c.rule == "hub.revision-not-pinned"]
        assert COMMIT in warned.message
        assert (warned.required, report.exit_code) == (False, pinned.exit_code)
        assert report.provenance["hub"][0]["commit"] == COMMIT  # type: ignore[index, call-overload]


def test_what_is_on_this_disk_wins_and_is_said(hub: Hub, tmp_path: Path) -> None:
    name = f"org/name@{COMMIT}"
    (Path.cwd() / "org").mkdir()
    pair().write(Path.cwd() / "org" / f"name@{COMMIT}")
    (only,) = read(name, engines=[SGLANG])
    assert "hub" not in only.data
    assert hub.asked == []
    report = check(pair().write(tmp_path / "spec"), target=name)
    assert [c.message for c in report.checks if c.rule == "hub.local-wins"] == [
        f"target: {name} is a file or folder here, and was read instead of a repository of that name"
    ]
    with pytest.raises(UserError, match="RepoNotFound"):
        read(f"hf:{name}", engines=[SGLANG])


def test_a_bare_name_is_a_path(hub: Hub) -> None:
    with pytest.raises(UserError, match="does not exist") as raised:
        read("org/name", engines=[SGLANG])
    assert raised.value.fix.endswith("is written hf:org/name@COMMIT.")
    with pytest.raises(UserError, match="does not exist") as raised:
        read("./org", engines=[SGLANG])
    assert "hf:" not in raised.value.fix
    assert hub.asked == []


def test_the_token_goes_to_the_hub_and_nowhere_else(hub: Hub, tmp_path: Path) -> None:
    pair().write(tmp_path / "good")
    hub.add("org/good", tmp_path / "good")
    with serving(Hub(repositories=hub.repositories)) as storage:
        hub.storage = storage.endpoint
        (reading,) = read(f"hf:org/good@{COMMIT}", engines=[SGLANG])
        assert reading.outcome == "ok"
        assert storage.asked
        assert {authorization for _, _, authorization in storage.asked} == {None}
        assert {authorization for _, _, authorization in hub.asked} == {f"Bearer {TOKEN}"}


def test_offline_only_the_cache_is_read(hub: Hub, monkeypatch: pytest.MonkeyPatch) -> None:
    hub.add("org/drafter", DEMO / "drafter-a")
    check("hf:org/drafter@main", integrity="values")
    asked = len(hub.asked)
    monkeypatch.setattr(constants, "HF_HUB_OFFLINE", True)
    for name in (f"hf:org/drafter@{COMMIT}", "hf:org/drafter@main", "hf:org/drafter"):
        report = check(name, engines=[SGLANG])
        assert report.exit_code is ExitCode.KEPT
        assert report.provenance["hub"][0]["read"] == "cache"  # type: ignore[index, call-overload]
    assert len(hub.asked) == asked
    for name in ("hf:org/other", f"hf:org/drafter@{'f' * 40}"):
        with pytest.raises(UserError) as raised:
            read(name, engines=[SGLANG])
        assert raised.value.rule == "hub.offline"


def test_a_folder_of_the_cache_is_its_snapshot(hub: Hub, cache: Path) -> None:
    hub.add("org/drafter", DEMO / "drafter-a")
    check("hf:org/drafter@main", integrity="values")
    asked = len(hub.asked)
    home = cache / "models--org--drafter"
    (whole,) = read(home, engines=[SGLANG])
    (snapshot,) = read(home / "snapshots" / COMMIT, engines=[SGLANG])
    assert whole.fields == snapshot.fields
    assert len(hub.asked) == asked
    (home / "snapshots" / ("f" * 40)).mkdir()
    assert read(home, engines=[SGLANG])[0].fields == whole.fields, "refs/main says which"
    (home / "refs" / "main").unlink()
    with pytest.raises(UserError, match="holds not the snapshot of main"):
        read(home, engines=[SGLANG])
    os.mkfifo(home / "refs" / "main")
    with pytest.raises(UserError, match="holds not the snapshot of main"):
        read(home, engines=[SGLANG])


def test_the_target_alone_may_be_on_the_hub(hub: Hub, tmp_path: Path) -> None:
    (tmp_path / "target").mkdir()
    (tmp_path / "target" / "config.json").write_text(json.dumps(TARGET))
    hub.add("org/target", tmp_path / "target")
    pair(ids=(2, 4, 5)).write(tmp_path / "drafter")
    (one,) = read(tmp_path / "drafter", engines=[SGLANG], target=f"hf:org/target@{COMMIT}")
    assert one["hidden_states.boundaries"] == [3, 5, 6]
