"""Answers of a Hub that is broken, in the way, or hostile. Each is refused by name, within bounds, and nothing is written but the cache."""

from __future__ import annotations

import json
import logging
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from factory import pair
from huggingface_hub import constants

from contract.cli.main import main
from contract.errors import LimitExceeded, UserError
from contract.files.hub_cache import fetch_snapshot
from contract.files.hub_http import HubClient
from contract.files.hub_id import HubId
from contract.files.hub_mount import mounted
from contract.files.hub_repository import look_up
from contract.files.paths import open_path
from contract.limits import DEFAULT_LIMITS, MIB
from hub.conftest import TOKEN
from hub.server import COMMIT, Handler, Hub

NAME = "org/name"
ASKED = HubId(NAME, COMMIT)
LIST = f"/api/models/{NAME}/revision/{COMMIT}"
WEIGHTS = f"/{NAME}/resolve/{COMMIT}/model.safetensors"
CONFIG = f"/{NAME}/resolve/{COMMIT}/config.json"


@pytest.fixture
def stocked(hub: Hub, tmp_path: Path) -> Hub:
    (tmp_path / "here").mkdir()
    pair().write(tmp_path / "drafter")
    hub.add(NAME, tmp_path / "drafter")
    return hub


def says(body: object, **headers: str) -> Callable[[Handler], None]:
    data = body if isinstance(body, bytes) else json.dumps(body).encode()
    return lambda handler: handler.say(200, data, {"content-type": "application/json", **headers})


def status(code: int, **headers: str) -> Callable[[Handler], None]:
    return lambda handler: handler.say(code, b"<html>no</html>", {k.replace("_", "-"): v for k, v in headers.items()})


def listing(*entries: dict[str, Any], sha: object = COMMIT) -> Callable[[Handler], None]:
    return says({"sha": sha, "siblings": list(entries)})


ENTRY = {"rfilename": "config.json", "size": 2, "blobId": "0" * 40}
LISTS: dict[str, tuple[Callable[[Handler], None], str]] = {
    "html": (says(b"<html>Please log in</html>"), "hub.answer"),
    "not-an-object": (says([1]), "hub.answer"),
    "nothing": (says(b""), "hub.answer"),
    "no-commit": (says({"siblings": []}), "hub.answer"),
    "commit-is-a-path": (listing(sha="../../../../tmp/x"), "hub.answer"),
    "another-commit": (listing(sha="f" * 40), "hub.answer"),
    "files-are-no-list": (says({"sha": COMMIT, "siblings": {"a": 1}}), "hub.answer"),
    "file-without-a-name": (listing({"size": 1}), "hub.answer"),
    "name-goes-up": (listing({**ENTRY, "rfilename": "../outside.json"}), "hub.answer"),
    "name-goes-up-below": (listing({**ENTRY, "rfilename": "a/../../outside.json"}), "hub.answer"),
    "name-is-absolute": (listing({**ENTRY, "rfilename": "/etc/outside.json"}), "hub.answer"),
    "name-with-backslash": (listing({**ENTRY, "rfilename": "a\\b.json"}), "hub.answer"),
    "name-with-control": (listing({**ENTRY, "rfilename": "a\u001b[2J.json"}), "hub.answer"),
    "name-without-end": (listing({**ENTRY, "rfilename": "a" * 5000}), "files.limit-exceeded"),
    "file-twice": (listing(ENTRY, ENTRY), "hub.answer"),
    "file-and-folder": (listing(ENTRY, {**ENTRY, "rfilename": "config.json/x.json"}), "hub.answer"),
    "size-negative": (listing({**ENTRY, "size": -1}), "hub.answer"),
    "size-text": (listing({**ENTRY, "size": "2"}), "hub.answer"),
    "size-missing": (listing({"rfilename": "config.json", "blobId": "0" * 40}), "hub.answer"),
    "size-beyond-belief": (listing({**ENTRY, "size": 2**63}), "hub.answer"),
    "digest-is-a-path": (listing({**ENTRY, "blobId": "../../../outside"}), "hub.answer"),
    "digest-missing": (listing({"rfilename": "config.json", "size": 2}), "hub.answer"),
    "key-twice": (says(b'{"sha": "%s", "sha": "x", "siblings": []}' % COMMIT.encode()), "hub.answer"),
    "endless": (lambda handler: handler.endless(200, {"content-type": "application/json"}), "files.limit-exceeded"),
    "compressed": (says(b"\x1f\x8b", **{"content-encoding": "gzip"}), "hub.answer"),
    "redirects-for-ever": (status(302, location=LIST), "hub.answer"),
    "redirects-to-a-file": (status(302, location="file:///etc/passwd"), "hub.answer"),
    "endless-redirect": (lambda handler: handler.endless(302, {"location": "/elsewhere"}), "hub.not-found"),
    "not-found": (status(404, x_error_code="RevisionNotFound"), "hub.not-found"),
    "private": (status(401, x_error_code="RepoNotFound"), "hub.not-found"),
    "gated": (status(401, x_error_code="GatedRepo"), "hub.gated"),
    "forbidden": (status(403), "hub.gated"),
    "teapot": (status(418, x_error_code="<b>\x1b"), "hub.answer"),
    "busy": (status(503), "hub.unreachable"),
}
FILES: dict[str, tuple[Callable[[Handler], None], str]] = {
    "range-of-another-size": (lambda h: h.say(206, b"x" * 8, {"content-range": "bytes 0-7/8"}), "hub.wrong-content"),
    "range-elsewhere": (lambda h: h.say(206, b"x" * 8, {"content-range": "bytes 8-15/99"}), "hub.wrong-content"),
    "no-range": (lambda h: h.say(206, b"x" * 8, {}), "hub.wrong-content"),
    "whole-and-too-long": (lambda h: h.endless(200, {}), "hub.wrong-content"),
    "whole-and-too-short": (lambda h: h.say(200, b"{}", {}), "hub.wrong-content"),
    "cut-off": (lambda h: cut_off(h), "hub.unreachable"),
    "gated": (status(403, x_error_code="GatedRepo"), "hub.gated"),
    "gone": (status(404, x_error_code="EntryNotFound"), "hub.not-found"),
    "gone-to-https-and-back": (status(302, location="ftp://127.0.0.1/x"), "hub.answer"),
    "failing": (status(500), "hub.unreachable"),
}


def cut_off(handler: Handler) -> None:
    """Promises more than it sends."""
    handler.close_connection = True
    asked = (handler.headers.get("range") or "bytes=0-0").removeprefix("bytes=")
    size = handler.hub.entries(NAME)
    total = next(e["size"] for e in size if handler.path.endswith(e["rfilename"]))
    begin, end = (int(x) for x in asked.split("-"))
    handler.say(206, b"x", {"content-range": f"bytes {begin}-{end}/{total}", "content-length": str(end - begin + 1), "connection": "close"})


def outside(tmp_path: Path, cache: Path) -> list[str]:
    """Everything in the test's folder that is not the cache."""
    return sorted(str(p) for p in tmp_path.rglob("*") if not p.is_relative_to(cache))


@pytest.mark.parametrize("name", LISTS)
def test_a_list_that_is_wrong(name: str, stocked: Hub, cache: Path, tmp_path: Path) -> None:
    answer, rule = LISTS[name]
    stocked.wrong[LIST] = answer
    before = outside(tmp_path, cache)
    limits = DEFAULT_LIMITS.lowered(hub_list_bytes=MIB)
    client = HubClient(limits)
    with pytest.raises(UserError) as raised:
        fetch_snapshot(client, look_up(client, ASKED))
    assert raised.value.rule == rule
    assert raised.value.fix
    assert TOKEN not in f"{raised.value.message} {raised.value.fix}"
    assert "\x1b" not in raised.value.message
    assert outside(tmp_path, cache) == before
    assert stocked.sent < 64 * MIB


@pytest.mark.parametrize("name", FILES)
def test_a_file_that_is_wrong(name: str, stocked: Hub, cache: Path, tmp_path: Path) -> None:
    """Read by ranges, and fetched whole: the same refusal, and nothing is kept."""
    answer, rule = FILES[name]
    stocked.wrong[WEIGHTS] = answer
    before = outside(tmp_path, cache)
    client = HubClient(DEFAULT_LIMITS)
    repository = look_up(client, ASKED)
    with mounted(client, repository) as folder, open_path(folder / "model.safetensors") as opened:
        with pytest.raises(UserError) as raised:
            opened.read(0, 8)
        assert raised.value.rule == rule
    with pytest.raises(UserError) as raised:
        fetch_snapshot(client, repository)
    assert raised.value.rule == rule
    assert not [p for p in cache.rglob("*") if p.name.endswith(".incomplete") or p.name.startswith(".eagle3")]
    assert not (cache / "models--org--name" / "snapshots" / COMMIT / "model.safetensors").exists()
    assert outside(tmp_path, cache) == before


def test_the_same_files_unharmed(stocked: Hub, cache: Path) -> None:
    """The clean twin of the two tests above."""
    client = HubClient(DEFAULT_LIMITS)
    repository = look_up(client, ASKED)
    whole = stocked.repositories[NAME]["model.safetensors"]
    with mounted(client, repository) as folder, open_path(folder / "model.safetensors") as opened:
        assert opened.size == len(whole)
        assert opened.read_all() == whole
    assert (fetch_snapshot(client, repository) / "model.safetensors").read_bytes() == whole
    assert [p.name for p in cache.iterdir()] == ["models--org--name"]


def test_bytes_that_are_not_the_listed_ones_are_not_kept(stocked: Hub, cache: Path) -> None:
    data = bytearray(stocked.repositories[NAME]["model.safetensors"])
    data[-1] ^= 1
    stocked.wrong[WEIGHTS] = lambda handler: handler.ranged(bytes(data))
    client = HubClient(DEFAULT_LIMITS)
    with pytest.raises(UserError, match="has the digest") as raised:
        fetch_snapshot(client, look_up(client, ASKED))
    assert raised.value.rule == "hub.wrong-content"
    assert not [p for p in (cache / "models--org--name" / "blobs").iterdir() if p.stat().st_size == len(data)]


def test_sizes_are_bounded_before_anything_is_fetched(stocked: Hub) -> None:
    client = HubClient(DEFAULT_LIMITS.lowered(hub_download_bytes=1000))
    with pytest.raises(LimitExceeded) as raised:
        fetch_snapshot(client, look_up(client, ASKED))
    assert (raised.value.limit, raised.value.allowed) == ("hub_download_bytes", 1000)
    assert stocked.files_asked() == {}
    client = HubClient(DEFAULT_LIMITS.lowered(hub_bytes=20_000))
    with mounted(client, look_up(client, ASKED)) as folder, open_path(folder / "model.safetensors") as opened, pytest.raises(LimitExceeded):
        opened.read_all()


def test_an_answer_that_takes_too_long(stocked: Hub, monkeypatch: pytest.MonkeyPatch) -> None:
    ticks = iter(range(0, 10**6, 50))
    monkeypatch.setattr("time.monotonic", lambda: float(next(ticks)))
    with pytest.raises(LimitExceeded) as raised:
        look_up(HubClient(DEFAULT_LIMITS.lowered(hub_seconds=10)), ASKED)
    assert raised.value.limit == "hub_seconds"


def test_who_does_not_ask_the_hub_finds_no_zeros(stocked: Hub) -> None:
    client = HubClient(DEFAULT_LIMITS)
    with mounted(client, look_up(client, ASKED)) as folder:
        assert (folder / "model.safetensors").read_bytes() == b""
        assert (folder / "contract.yaml").read_bytes() == stocked.repositories[NAME]["contract.yaml"]


def test_the_hub_is_busy_once(stocked: Hub) -> None:
    def once(handler: Handler) -> None:
        del stocked.wrong[LIST]
        handler.say(503, b"", {})

    stocked.wrong[LIST] = once
    assert look_up(HubClient(DEFAULT_LIMITS), ASKED).commit == COMMIT


@pytest.mark.parametrize(
    ("wrong", "rule"),
    [(status(401, x_error_code="GatedRepo"), "hub.gated"), (says(b"<html>"), "hub.answer"), (status(503), "hub.unreachable")],
    ids=["gated", "html", "busy"],
)
def test_the_command_line_exits_2_and_says_no_token(
    wrong: Callable[[Handler], None],
    rule: str,
    stocked: Hub,
    capfd: pytest.CaptureFixture[str],
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level(logging.DEBUG)
    stocked.wrong[LIST] = wrong
    assert main(["read", f"hf:{NAME}@{COMMIT}", "--engine", "sglang==0.5.23", "--format", "json"]) == 2
    said = capfd.readouterr()
    assert rule in said.out
    assert rule in said.err
    assert f"Bearer {TOKEN}" in {authorization for _, _, authorization in stocked.asked}
    assert TOKEN not in said.out + said.err + caplog.text


def test_nobody_listens(stocked: Hub, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr(constants, "ENDPOINT", "http://127.0.0.1:9")
    assert main(["read", f"hf:{NAME}", "--engine", "sglang==0.5.23"]) == 2
    assert "hub.unreachable" in capfd.readouterr().err


def test_a_cache_that_cannot_be_written(stocked: Hub, cache: Path, capfd: pytest.CaptureFixture[str]) -> None:
    cache.write_text("a file")
    assert main(["read", f"hf:{NAME}@{COMMIT}", "--engine", "sglang==0.5.23"]) == 2
    assert "hub.cache" in capfd.readouterr().err
