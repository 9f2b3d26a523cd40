"""One HTTP request at a time, within limits: no proxy, no redirect, no compression, no connection kept."""

from __future__ import annotations

import http.client
import json
import time
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from contract.errors import InputRejected
from contract.files.names import shown
from contract.findings import Json
from contract.jsonio import load_json
from contract.limits import Limits
from eagle3_contract.verify.server.address import Address
from eagle3_contract.verify.server.rules import failed, rejected, usage
from eagle3_contract.verify.server.stream import Budget, connect

API_KEY: Final = "EAGLE3_CONTRACT_API_KEY"
"""The environment variable of the API key. It is sent as a bearer token and said nowhere."""
AGENT: Final = "eagle3-contract"
_SHOWN: Final = 200


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """Status, the name that the server gives itself, and the body."""

    status: int
    server: str
    body: bytes


class Client:
    """Asks one server. Everything that it raises is a ``UserError``.

    Args:
        address: the server.
        limits: ``server_request_seconds`` for one exchange, ``server_seconds`` for all, ``server_response_bytes`` for an answer.
        environ: where the API key is looked for.

    Raises:
        UsageError: ``server.api-key`` if the key cannot be sent.
    """

    def __init__(self, address: Address, limits: Limits, environ: Mapping[str, str]) -> None:
        self.address, self.limits = address, limits
        self._key = environ.get(API_KEY) or None
        if self._key is not None and not (self._key.isascii() and self._key.isprintable() and self._key == self._key.strip()):
            raise usage("server.api-key", f"{API_KEY} holds something that no header can carry")
        self._end = time.monotonic() + limits.server_seconds

    def get(self, path: str) -> Answer:
        """GET an endpoint, such as ``/version``. Raises like ``ask``."""
        return self.ask("GET", path, None)

    def get_json(self, path: str) -> Json | None:
        """The JSON of a GET; None where the server has no such endpoint (404, 405, 501). Raises like ``ask`` and ``as_json``."""
        answer = self.get(path)
        return None if answer.status in (404, 405, 501) else self.as_json(answer, f"GET {path}")

    def get_text(self, path: str) -> str | None:
        """The text of a GET; None where there is no such endpoint. Raises InputRejected if it is no UTF-8, and like ``ask``."""
        answer = self.get(path)
        if answer.status in (404, 405, 501):
            return None
        self._require_ok(answer, f"GET {path}")
        try:
            return answer.body.decode()
        except UnicodeDecodeError as error:
            raise rejected("server.answer", f"GET {path}: the answer is not UTF-8 at byte {error.start}") from None

    def post_json(self, path: str, body: Json) -> Json:
        """The JSON that a POST is answered with. Raises like ``ask`` and ``as_json``."""
        return self.as_json(self.ask("POST", path, json.dumps(body).encode()), f"POST {path}")

    def as_json(self, answer: Answer, what: str) -> Json:
        """The body as strict JSON. Raises InputRejected: ``server.answer``, or a rule of ``contract.jsonio``."""
        self._require_ok(answer, what)
        return load_json(answer.body, file=f"{what} of {self.address}", limits=self.limits)

    def ask(self, method: str, path: str, body: bytes | None) -> Answer:
        """One exchange.

        Raises:
            ToolError: ``server.unreachable``, ``server.too-slow``, ``server.denied``.
            InputRejected: ``server.redirect``, ``server.answer``.
            LimitExceeded: ``server.limit-exceeded``.
        """
        what = f"{method} {self.address}{path}"
        left, one = self._end - time.monotonic(), float(self.limits.server_request_seconds)
        if left <= 0:
            raise failed("server.too-slow", f"{what}: the time for all requests is over ({self.limits.server_seconds} s, server_seconds)")
        budget = Budget(min(left, one), self.limits, what, "server_request_seconds" if one <= left else "server_seconds")
        connection = http.client.HTTPConnection(self.address.host, self.address.port)
        sock = None
        try:
            sock = connect(self.address, budget)
            connection.sock = sock  # http.client asks for no more of a socket than BoundedSocket has
            connection.request(method, self.address.prefix + path, body=body, headers=self._headers(body))
            response = connection.getresponse()
            answer = Answer(status=response.status, server=response.headers.get("Server", ""), body=self._read(response, what))
        except TimeoutError:
            raise budget.too_slow() from None
        except UnicodeError:
            raise usage("server.url", f"{self.address} names a host that no name service knows how to spell") from None
        except http.client.HTTPException as error:
            raise rejected("server.answer", f"{what}: no HTTP answer ({type(error).__name__})") from None
        except OSError as error:
            raise failed("server.unreachable", f"{what}: {self._said(error.strerror or str(error))}") from None
        finally:
            connection.close()
            if sock is not None:
                sock.hang_up()
        self._refuse(answer, what)
        return answer

    def _headers(self, body: bytes | None) -> dict[str, str]:
        headers = {"User-Agent": AGENT, "Accept": "*/*", "Connection": "close"}
        if body is not None:
            headers["Content-Type"] = "application/json"
        if self._key is not None:
            headers["Authorization"] = f"Bearer {self._key}"
        return headers

    def _read(self, response: http.client.HTTPResponse, what: str) -> bytes:
        if response.headers.get("Content-Encoding", "identity").strip().lower() != "identity":
            raise rejected("server.answer", f"{what}: the answer is compressed, though none was asked for")
        if response.length is not None:
            self.limits.enforce("server_response_bytes", response.length, what=f"{what}: the answer", rule="server.limit-exceeded")
        return response.read()

    def _refuse(self, answer: Answer, what: str) -> None:
        if 300 <= answer.status < 400:
            raise rejected("server.redirect", f"{what}: the server redirects (status {answer.status}); redirects are not followed")
        if answer.status in (401, 403):
            how = "the API key was sent and is not accepted" if self._key is not None else f"{API_KEY} is not set"
            raise failed("server.denied", f"{what}: status {answer.status}; {how}")

    def _require_ok(self, answer: Answer, what: str) -> None:
        if answer.status != 200:
            raise self.unexpected(answer, what)

    def unexpected(self, answer: Answer, what: str) -> InputRejected:
        """The error for a status that is not 200, with the beginning of what the server says."""
        said = self._said(answer.body[: 4 * _SHOWN].decode(errors="replace"))
        return rejected("server.answer", f"{what}: status {answer.status}: {said}")

    def _said(self, text: str) -> str:
        """Text of a server for a message: short, visible, and without the API key, which a server may echo."""
        if self._key is not None:
            text = text.replace(self._key, "***")
        return shown(text, _SHOWN)
