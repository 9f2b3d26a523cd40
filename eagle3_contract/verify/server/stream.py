"""A socket that is given a time and a number of bytes, and takes no more of either, however the other side deals them out.

A socket's own timeout bounds a single read, so that a peer which sends a byte now and then is never too slow for it. Here each operation
gets what is left until one deadline. Bytes are counted below HTTP: status line, headers, chunk sizes and body alike.
"""

from __future__ import annotations

import io
import socket
import ssl
import time
from typing import Any

from contract.errors import ToolError, UserError
from contract.limits import Limits
from eagle3_contract.verify.server.address import Address
from eagle3_contract.verify.server.rules import failed

ADDRESSES = 4
"""Addresses of one host name that are tried."""


class Budget:
    """Time and bytes of one exchange.

    Args:
        seconds: until when, from now on.
        limits: ``server_response_bytes``.
        what: the exchange, for messages.
        limit: the name of the limit that ``seconds`` comes from.
    """

    def __init__(self, seconds: float, limits: Limits, what: str, limit: str) -> None:
        self._end, self._seconds, self._limits, self._what, self._limit = time.monotonic() + seconds, seconds, limits, what, limit
        self._taken = 0

    def remaining(self) -> float:
        """Seconds left. Raises ToolError (``server.too-slow``) when there are none."""
        left = self._end - time.monotonic()
        if left <= 0:
            raise self.too_slow()
        return left

    def too_slow(self) -> ToolError:
        """The error for a time that has passed."""
        return failed("server.too-slow", f"{self._what}: no whole answer within {self._seconds:.0f} s ({self._limit})")

    def take(self, count: int) -> None:
        """Count bytes that were read. Raises LimitExceeded (``server.limit-exceeded``)."""
        self._taken += count
        self._limits.enforce("server_response_bytes", self._taken, what=f"{self._what}: the answer", rule="server.limit-exceeded")


class _Reader(io.RawIOBase):
    def __init__(self, sock: socket.socket, budget: Budget) -> None:
        self._sock, self._budget = sock, budget

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        self._sock.settimeout(self._budget.remaining())
        count = self._sock.recv_into(buffer)
        self._budget.take(count)
        return count


class BoundedSocket:
    """As much of a socket as http.client uses."""

    def __init__(self, sock: socket.socket, budget: Budget) -> None:
        self._sock, self._budget = sock, budget

    def sendall(self, data: bytes) -> None:
        """Send. The timeout of ``socket.sendall`` is over the whole of it."""
        self._sock.settimeout(self._budget.remaining())
        self._sock.sendall(data)

    def makefile(self, mode: str, *_: Any) -> io.BufferedReader:
        """What the answer is read from."""
        return io.BufferedReader(_Reader(self._sock, self._budget))

    def close(self) -> None:
        """Nothing: http.client closes its socket before the body is read, and counts on a file that keeps it open."""

    def hang_up(self) -> None:
        """Close the connection."""
        self._sock.close()


def connect(address: Address, budget: Budget) -> BoundedSocket:
    """Connect, without any proxy; the certificate of an https server is verified.

    Raises:
        OSError, ssl.SSLError, ToolError: as the network has it.
    """
    found = socket.getaddrinfo(address.host, address.port, type=socket.SOCK_STREAM)[:ADDRESSES]
    problem: OSError = OSError(f"{address.host} has no address")
    for family, kind, protocol, _, place in found:
        sock = socket.socket(family, kind, protocol)
        try:
            sock.settimeout(budget.remaining())
            sock.connect(place)
            if address.tls:
                sock.settimeout(budget.remaining())
                # The handshake's timeout is over the whole of it (CPython Modules/_ssl.c keeps a deadline).
                sock = ssl.create_default_context().wrap_socket(sock, server_hostname=address.host)
            return BoundedSocket(sock, budget)
        except OSError as error:
            sock.close()
            problem = error
        except UserError:
            sock.close()
            raise
    raise problem
