"""A Hub on the loopback device: the routes that are asked of the real one, and every way in which an answer can be wrong.

``GET /api/models/{org}/{name}/revision/{revision}?blobs=true`` lists a repository; ``GET /{org}/{name}/resolve/{commit}/{file}`` redirects
large files to another host (here: another port), as the Hub does to its storage, and answers ranges with 206 and Content-Range.
"""

from __future__ import annotations

import hashlib
import json
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlsplit

COMMIT = "0123456789abcdef0123456789abcdef01234567"
ENDLESS = 1 << 34
"""Bytes after which an endless body ends all the same, so that a test without a bound fails and does not hang."""

Answer = Callable[["Handler"], None]


@dataclass
class Hub:
    """What the server holds and what it was asked.

    Attributes:
        repositories: ``org/name`` to the files of its one commit.
        wrong: path (without query) to what is answered instead.
        listed: changes of entries of a list, by file name; None leaves the entry out.
        storage: files are redirected there; None answers them itself.
        asked: (path, range, authorization) of every request.
    """

    repositories: dict[str, dict[str, bytes]] = field(default_factory=dict)
    wrong: dict[str, Answer] = field(default_factory=dict)
    listed: dict[str, dict[str, Any]] = field(default_factory=dict)
    commit: str = COMMIT
    storage: str | None = None
    endpoint: str = ""
    asked: list[tuple[str, str | None, str | None]] = field(default_factory=list)
    sent: int = 0

    def add(self, name: str, folder: Path) -> None:
        """A repository with the files of a folder."""
        self.repositories[name] = {str(p.relative_to(folder)): p.read_bytes() for p in sorted(folder.rglob("*")) if p.is_file()}

    def entries(self, name: str) -> list[dict[str, Any]]:
        found = []
        for file, data in self.repositories[name].items():
            blob = hashlib.sha1(b"blob %d\0" % len(data) + data).hexdigest()
            entry: dict[str, Any] = {"rfilename": file, "size": len(data), "blobId": blob}
            if file.endswith((".safetensors", ".bin", ".pt")):
                entry["lfs"] = {"sha256": hashlib.sha256(data).hexdigest(), "size": len(data), "pointerSize": 134}
            found.append({**entry, **self.listed.get(file, {})})
        return found

    def files_asked(self) -> dict[str, int]:
        """How often each file was asked for, redirects not counted."""
        counts: dict[str, int] = {}
        for path, _, _ in self.asked:
            if "/resolve/" in path:
                name = path.partition("/resolve/")[2].partition("/")[2]
                counts[name] = counts.get(name, 0) + 1
        return counts


class Handler(BaseHTTPRequestHandler):
    """One request."""

    protocol_version = "HTTP/1.1"
    hub: Hub

    def log_message(self, format: str, *args: Any) -> None:
        """Nothing is logged."""

    def do_GET(self) -> None:
        path = unquote(urlsplit(self.path).path)
        self.hub.asked.append((path, self.headers.get("range"), self.headers.get("authorization")))
        try:
            self.answer(path)
        except (BrokenPipeError, ConnectionResetError):
            self.close_connection = True

    def answer(self, path: str) -> None:
        if path in self.hub.wrong:
            self.hub.wrong[path](self)
            return
        parts = path.strip("/").split("/")
        if parts[:2] == ["api", "models"] and parts[4:5] == ["revision"]:
            self.listing("/".join(parts[2:4]), "/".join(parts[5:]))
        elif len(parts) > 4 and parts[2] == "resolve":
            self.file("/".join(parts[:2]), parts[3], "/".join(parts[4:]))
        else:
            self.say(404, b"", {"x-error-code": "RepoNotFound"})

    def listing(self, name: str, revision: str) -> None:
        if name not in self.hub.repositories:
            self.say(401, b"{}", {"x-error-code": "RepoNotFound"})
        elif revision not in ("main", "v1", self.hub.commit, self.hub.commit[:7]):
            self.say(404, b"{}", {"x-error-code": "RevisionNotFound"})
        else:
            said = {"id": name, "sha": self.hub.commit, "siblings": self.hub.entries(name)}
            self.say(200, json.dumps(said).encode(), {"content-type": "application/json"})

    def file(self, name: str, commit: str, file: str) -> None:
        data = self.hub.repositories.get(name, {}).get(file)
        if data is None or commit != self.hub.commit:
            self.say(404, b"", {"x-error-code": "EntryNotFound"})
        elif self.hub.storage and file.endswith(".safetensors"):
            self.say(302, b"moved", {"location": f"{self.hub.storage}{self.path}", "x-repo-commit": commit})
        else:
            self.ranged(data)

    def ranged(self, data: bytes) -> None:
        asked = self.headers.get("range")
        if asked is None:
            self.say(200, data, {})
            return
        begin, end = (int(x) for x in asked.removeprefix("bytes=").split("-"))
        part = data[begin : end + 1]
        self.say(206, part, {"content-range": f"bytes {begin}-{begin + len(part) - 1}/{len(data)}"})

    def say(self, status: int, body: bytes, headers: dict[str, str]) -> None:
        self.send_response(status)
        for key, value in headers.items():
            self.send_header(key, value)
        if "content-length" not in headers:
            self.send_header("content-length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)
        self.hub.sent += len(body)

    def endless(self, status: int, headers: dict[str, str], piece: bytes = b" " * 65536) -> None:
        """A body without a length that does not end by itself."""
        self.close_connection = True
        self.send_response(status)
        for key, value in {**headers, "connection": "close"}.items():
            self.send_header(key, value)
        self.end_headers()
        while self.hub.sent < ENDLESS:
            self.wfile.write(piece)
            self.hub.sent += len(piece)


class Server(ThreadingHTTPServer):
    """Does not mind a client that hangs up: that is what one does that was refused, or has read enough."""

    daemon_threads = True

    def handle_error(self, request: Any, client_address: Any) -> None:
        if not isinstance(sys.exc_info()[1], ConnectionError):
            super().handle_error(request, client_address)


@contextmanager
def serving(hub: Hub) -> Iterator[Hub]:
    """The hub at ``hub.endpoint`` for the length of the block."""
    server = Server(("127.0.0.1", 0), type("Bound", (Handler,), {"hub": hub}))
    thread = threading.Thread(target=server.serve_forever, args=(0.02,), daemon=True)
    thread.start()
    hub.endpoint = f"http://127.0.0.1:{server.server_address[1]}"
    try:
        yield hub
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
