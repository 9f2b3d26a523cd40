"""The URL of a server: scheme, host, port and prefix; nothing that could be a secret, nothing that could be smuggled into a request."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final
from urllib.parse import urlsplit

from contract.errors import UsageError
from eagle3_contract.verify.server.rules import usage

PORTS: Final = {"http": 80, "https": 443}
LONGEST: Final = 2048
_PREFIX: Final = re.compile(r"(?:/[A-Za-z0-9._~%!$&'()*+,;=:@-]+)*")


@dataclass(frozen=True, slots=True, kw_only=True)
class Address:
    """Where a server is. ``prefix`` is the path before its endpoints: empty, or ``/a/b`` behind a gateway."""

    tls: bool
    host: str
    port: int
    prefix: str = ""

    def __str__(self) -> str:
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"http{'s' if self.tls else ''}://{host}:{self.port}{self.prefix}"


def parse_address(url: str) -> Address:
    """An address from a URL.

    Raises:
        UsageError: ``server.url``: another scheme, no host, a user or password, a query or fragment, a character that no URL has. What is
            refused is not repeated in the message, for it may be a secret.
    """
    if not url.isascii() or not url.isprintable() or " " in url or "\\" in url or len(url) > LONGEST:
        raise _refused("it holds a character that no URL has, or is too long")
    try:
        parts = urlsplit(url)
        host, port = parts.hostname, parts.port
    except ValueError:
        raise _refused("its host or port cannot be read") from None
    if parts.scheme not in PORTS:
        raise _refused("it does not begin with http:// or https://")
    if parts.username is not None or parts.password is not None or "@" in parts.netloc:
        raise _refused("it holds a user or a password")
    if parts.query or parts.fragment or "?" in url or "#" in url:
        raise _refused("it has a query or a fragment")
    prefix = parts.path.rstrip("/")
    if not host or port == 0 or _PREFIX.fullmatch(prefix) is None or ".." in prefix.split("/"):
        raise _refused("its host, port or path cannot be read")
    return Address(tls=parts.scheme == "https", host=host, port=port or PORTS[parts.scheme], prefix=prefix)


def _refused(why: str) -> UsageError:
    return usage("server.url", f"the server's URL is not usable: {why}")
