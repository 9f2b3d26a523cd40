"""A headless Chromium: what a person would see of a page, and what the page would do."""

from __future__ import annotations

import re
import shutil
import subprocess
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final
from urllib.parse import urlsplit

NAMES: Final = ("chromium", "chromium-browser", "google-chrome", "chrome")
FLAGS: Final = (
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--host-resolver-rules=MAP * ~NOTFOUND",
    "--hide-scrollbars",
)
SCHEMES: Final = {"dark": "0", "light": "1"}
"""As Blink numbers what the reader prefers."""

OWN: Final = (".google.com", ".googleapis.com")
"""Where the browser itself looks for the time and for updates; no page of this project may name them."""


def program() -> str:
    """The installed browser. Fails where there is none: a page that nobody looked at is not tested."""
    found = next((path for name in NAMES if (path := shutil.which(name))), None)
    assert found, "no Chromium: `make test-slow` installs it on Debian as root; elsewhere install chromium by hand"
    return found


@dataclass(frozen=True)
class Browser:
    """Every call starts a fresh browser with a fresh profile under ``folder``."""

    folder: Path
    flags: tuple[str, ...] = field(default=FLAGS)

    def _run(self, page: Path, name: str, *flags: str) -> subprocess.CompletedProcess[str]:
        line = [program(), *self.flags, f"--user-data-dir={self.folder / name}", *flags, page.as_uri()]
        ran = subprocess.run(line, capture_output=True, text=True, check=False, timeout=120)
        assert ran.returncode == 0, ran.stderr
        return ran

    def dom(self, page: Path) -> tuple[str, str]:
        """The document as it is after loading, and what the browser logged: the console, and every refused request."""
        ran = self._run(page, "dom", "--enable-logging=stderr", "--v=0", "--dump-dom")
        return ran.stdout, ran.stderr

    def screenshot(self, page: Path, width: int, scheme: str, *, height: int = 2600) -> bytes:
        """A PNG of the page."""
        out = self.folder / f"{page.stem}-{width}-{scheme}.png"
        flags = (f"--window-size={width},{height}", f"--blink-settings=preferredColorScheme={SCHEMES[scheme]}", f"--screenshot={out}")
        self._run(page, f"{width}-{scheme}", *flags)
        return out.read_bytes()

    def requests(self, page: Path) -> list[str]:
        """Every URL that loading the page asked for, of the browser's own log of the network."""
        log = self.folder / "net.json"
        self._run(page, "net", f"--log-net-log={log}", "--dump-dom")
        return urls(log.read_text(encoding="utf-8"))


def urls(log: str) -> list[str]:
    """The URLs of requests in a net log (JSON, possibly cut off at its end), without the browser's own."""
    found = set(re.findall(r'"url":"((?:https?|wss?|ftp)://[^"]*)"', log))
    return sorted(url for url in found if not (urlsplit(url).hostname or "").endswith(OWN))
