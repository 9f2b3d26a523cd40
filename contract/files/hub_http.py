"""Asking the Hub: addresses, token and connections are huggingface_hub's; that no answer is endless, late or somebody else's, is ours.

Redirects are followed here: the library's client reads their bodies whole, however long, and a token must not follow to another host.
No message holds a query (signed addresses carry credentials) or a header.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any, Final
from urllib.parse import quote, urljoin, urlsplit

from contract import __version__
from contract.errors import InputRejected, LimitExceeded, ToolError, UserError
from contract.files.hub_rules import refused, unavailable
from contract.findings import Json, Where
from contract.jsonio import load_json
from contract.limits import MIB, Limits

MOST_REDIRECTS: Final = 5
ATTEMPTS: Final = 3
"""How often one thing is asked for where the Hub is busy or the connection breaks."""
RANGE_BYTES: Final = 16 * MIB
"""The most that one request asks for; a file is fetched in such pieces."""
_CHUNK: Final = 256 * 1024
_ENDINGS: Final = {"http": 80, "https": 443}
_GATED: Final = ("GatedRepo",)


class HubClient:
    """The Hub at ``HF_ENDPOINT``, with the token of the environment or of the login.

    Attributes:
        endpoint: its address.
        fetched: bytes that were read by ranges so far, of all repositories.
    """

    def __init__(self, limits: Limits) -> None:
        """Raises ToolError (``hub.not-installed``)."""
        try:
            from huggingface_hub import constants, get_session, get_token
            from huggingface_hub.errors import HfHubHTTPError, OfflineModeIsEnabled
        except ImportError:
            raise unavailable("hub.not-installed", "huggingface_hub is not installed") from None
        self.limits = limits
        self.endpoint: str = constants.ENDPOINT
        self.timeout: float = constants.HF_HUB_DOWNLOAD_TIMEOUT
        self.fetched = 0
        self._session = get_session
        token = None if constants.HF_HUB_DISABLE_IMPLICIT_TOKEN else get_token()
        self._headers = {
            "user-agent": f"eagle3-contract/{__version__}",
            "accept-encoding": "identity",
            **({"authorization": f"Bearer {token}"} if token else {}),
        }
        # The library's errors derive from those of its HTTP client, httpx or httpx2 by version.
        self._transport: tuple[type[BaseException], ...] = (HfHubHTTPError.__bases__[0], OfflineModeIsEnabled)

    def listing(self, repository: str, revision: str) -> Json:
        """What the Hub says of a repository at a revision: its commit and its files with sizes and digests.

        Raises:
            InputRejected: there is no such thing, or the answer is no JSON object or too long.
            ToolError: the Hub cannot be reached.
        """
        url = f"{self.endpoint}/api/models/{repository}/revision/{quote(revision, safe='')}?blobs=true"
        what = f"the list of {repository}@{revision}"
        return self._again(lambda: self._listing(url, what))

    def _listing(self, url: str, what: str) -> Json:
        with self._get(url, {}, what) as response:
            data = b"".join(self._body(response, what, self.limits.hub_list_bytes, limit="hub_list_bytes"))
        try:
            return load_json(data, file=what, limits=self.limits, limit="hub_list_bytes")
        except LimitExceeded:
            raise
        except InputRejected as error:
            kind = response.headers.get("content-type", "no type").split(";")[0][:40]
            raise refused("hub.answer", f"{what} is no JSON ({kind}): {error.message}") from None

    def bytes_at(self, repository: str, commit: str, name: str, begin: int, end: int, size: int, *, counted: bool = True) -> bytes:
        """The bytes [begin, end) of a file that the Hub lists with ``size`` bytes; at most ``RANGE_BYTES``.

        ``counted`` bytes are held against ``hub_bytes``; what is fetched whole was held against ``hub_download_bytes`` before.

        Raises:
            InputRejected: the file is not there, or the answer is not these bytes.
            LimitExceeded: ``hub_bytes`` in all, ``hub_seconds`` for one answer.
            ToolError: the Hub cannot be reached.
        """
        url = f"{self.endpoint}/{repository}/resolve/{commit}/{quote(name)}"
        what = f"{repository}@{commit[:12]}/{name}"
        if counted:
            self.limits.enforce("hub_bytes", self.fetched + end - begin, what="what is read from the Hub", where=Where(file=what))
        data: bytes = self._again(lambda: self._range(url, what, begin, end, size))
        self.fetched += len(data) if counted else 0
        return data

    def _range(self, url: str, what: str, begin: int, end: int, size: int) -> bytes:
        where = Where(file=what)
        with self._get(url, {"range": f"bytes={begin}-{end - 1}"}, what) as response:
            whole = response.status_code == 200
            if whole and size > RANGE_BYTES:
                raise refused("hub.answer", f"{what}: the server answers a range with the whole file", where=where)
            said = f"bytes 0-{size - 1}/{size}" if whole else response.headers.get("content-range", "")
            if said.replace(" ", "") != f"bytes{0 if whole else begin}-{(size if whole else end) - 1}/{size}":
                raise refused(
                    "hub.wrong-content", f"{what}: asked for bytes {begin}-{end - 1} of {size}, the server gives {said[:60]!r}", where=where
                )
            length = size if whole else end - begin
            data = b"".join(self._body(response, what, length))
        if len(data) != length:
            raise refused("hub.wrong-content", f"{what}: {len(data)} bytes came instead of {length}", where=where)
        return data[begin:end] if whole else data

    def _body(self, response: Any, what: str, most: int, *, limit: str | None = None) -> Iterator[bytes]:
        """The body as it is on the wire, cut off with an error beyond ``most`` bytes or ``hub_seconds``."""
        if response.headers.get("content-encoding", "identity") != "identity":
            raise refused("hub.answer", f"{what}: the server compresses although it was asked not to")
        began, count = time.monotonic(), 0
        for chunk in response.iter_raw(_CHUNK):
            count += len(chunk)
            if count > most:
                if limit is not None:
                    self.limits.enforce(limit, count, what=what)
                raise refused("hub.wrong-content", f"{what}: more than the {most} bytes that were asked for", where=Where(file=what))
            self.limits.enforce("hub_seconds", int(time.monotonic() - began), what=f"{what}: seconds")
            yield chunk

    @contextmanager
    def _get(self, url: str, headers: Mapping[str, str], what: str) -> Iterator[Any]:
        """The final answer to a GET, its body not read."""
        sent, first = {**self._headers, **headers}, url
        for _ in range(MOST_REDIRECTS + 1):
            if _origin(url) != _origin(first):
                sent = {k: v for k, v in sent.items() if k.lower() not in ("authorization", "cookie")}
            with self._session().stream("GET", url, headers=sent, timeout=self.timeout, follow_redirects=False) as response:
                target = response.headers.get("location") if response.status_code in (301, 302, 303, 307, 308) else None
                if target is None:
                    _raise_for(response, what)
                    yield response
                    return
            url = _redirected(url, target, what)
        raise refused("hub.answer", f"{what}: more than {MOST_REDIRECTS} redirects")

    def _again(self, ask: Any) -> Any:
        """What ``ask`` returns, asked again where the connection broke or the Hub is busy."""
        for attempt in range(1, ATTEMPTS + 1):
            try:
                return ask()
            except self._transport as error:
                failed: UserError = unavailable("hub.unreachable", f"{_host(self.endpoint)} does not answer ({type(error).__name__})")
            except _Busy as error:
                failed = error
            if attempt < ATTEMPTS:
                time.sleep(0.2 * attempt)
        raise unavailable(failed.rule, failed.message)


class _Busy(ToolError):
    """The Hub asks to be asked again."""


def _raise_for(response: Any, what: str) -> None:
    status, code = response.status_code, response.headers.get("x-error-code", "")[:40]
    if status in (200, 206):
        return
    said = f"{what}: the Hub answers {status}" + (f" {code}" if code.isalnum() else "")
    if code in _GATED or status == 403:
        raise refused("hub.gated", said)
    if status in (401, 404):
        raise refused("hub.not-found", said)
    if status in (408, 429) or status >= 500:
        raise _Busy(said, rule="hub.unreachable", fix="")
    raise refused("hub.answer", said)


def _redirected(url: str, target: str, what: str) -> str:
    """The absolute address of a redirect; never from https to http, and to nothing but these two."""
    new = urljoin(url, target)
    scheme = urlsplit(new).scheme
    if scheme not in _ENDINGS or (urlsplit(url).scheme == "https" and scheme != "https"):
        raise refused("hub.answer", f"{what}: the server redirects to {scheme[:20] or 'nothing'}:")
    return new


def _origin(url: str) -> tuple[str, str, int | None]:
    parts = urlsplit(url)
    return parts.scheme, parts.hostname or "", parts.port or _ENDINGS.get(parts.scheme)


def _host(url: str) -> str:
    return urlsplit(url).hostname or "the Hub"
