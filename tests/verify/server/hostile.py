"""A server that speaks bytes of a test's own, so that no library keeps it from misbehaving."""

from __future__ import annotations

import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress

Behaviour = Callable[[socket.socket, threading.Event], None]
"""What is done with a connection, until the event is set: the test is over."""


@contextmanager
def misbehaving(behaviour: Behaviour) -> Iterator[str]:
    """The URL of a server that behaves so towards every connection."""
    over = threading.Event()
    threads: list[threading.Thread] = []
    listener = socket.create_server(("127.0.0.1", 0))

    def one(connection: socket.socket) -> None:
        with connection, suppress(OSError):
            connection.recv(65536)
            behaviour(connection, over)

    def accept() -> None:
        while not over.is_set():
            with suppress(OSError):
                connection, _ = listener.accept()
                threads.append(threading.Thread(target=one, args=(connection,)))
                threads[-1].start()

    listener.settimeout(0.05)
    acceptor = threading.Thread(target=accept)
    acceptor.start()
    try:
        yield f"http://127.0.0.1:{listener.getsockname()[1]}"
    finally:
        over.set()
        acceptor.join()
        for thread in threads:
            thread.join()
        listener.close()


def says(data: bytes) -> Behaviour:
    """Sends some bytes and hangs up."""

    def behave(connection: socket.socket, over: threading.Event) -> None:
        connection.sendall(data)

    return behave


def endless(head: bytes, again: bytes) -> Behaviour:
    """Sends a head, and the same bytes for ever."""

    def behave(connection: socket.socket, over: threading.Event) -> None:
        connection.sendall(head)
        while not over.is_set():
            connection.sendall(again)

    return behave


def dripping(head: bytes, drop: bytes) -> Behaviour:
    """Sends a head, and then a drop now and then."""

    def behave(connection: socket.socket, over: threading.Event) -> None:
        connection.sendall(head)
        while not over.wait(0.05):
            connection.sendall(drop)

    return behave


def silent(connection: socket.socket, over: threading.Event) -> None:
    """Says nothing."""
    over.wait()


def answer(body: bytes, *, status: str = "200 OK", headers: str = "") -> bytes:
    """A whole HTTP answer."""
    return f"HTTP/1.1 {status}\r\nContent-Length: {len(body)}\r\n{headers}\r\n".encode() + body
