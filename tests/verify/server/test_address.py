"""URLs of servers."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from contract.errors import UsageError
from eagle3_contract.verify.server.address import Address, parse_address


@pytest.mark.parametrize(
    ("url", "address"),
    [
        ("http://localhost", Address(tls=False, host="localhost", port=80)),
        ("https://example.org/", Address(tls=True, host="example.org", port=443)),
        ("http://10.0.0.1:30000", Address(tls=False, host="10.0.0.1", port=30000)),
        ("HTTP://Host.Example:8000/a/b/", Address(tls=False, host="host.example", port=8000, prefix="/a/b")),
        ("http://[::1]:8000", Address(tls=False, host="::1", port=8000)),
    ],
)
def test_an_address(url: str, address: Address) -> None:
    assert parse_address(url) == address
    assert parse_address(str(address)) == address


@pytest.mark.parametrize(
    "url",
    [
        "",
        "localhost:8000",
        "ftp://h",
        "file:///etc/passwd",
        "unix:/run/x",
        "http://",
        "http://:80",
        "http://h:0",
        "http://h:65536",
        "http://h:x",
        "http://user@h",
        "http://user:secret@h",
        "http://h?key=secret",
        "http://h/#secret",
        "http://h/a?",
        "http://h/a\r\nX: y",
        "http://h/a b",
        "http://h/../x",
        "http://h//x",
        "http://h\\x",
        "http://h/\u00e9",
        "http://[::1",
        "http://h/" + "a" * 3000,
    ],
)
def test_what_is_no_address_is_refused_and_not_repeated(url: str) -> None:
    with pytest.raises(UsageError) as caught:
        parse_address(url)
    assert caught.value.rule == "server.url"
    assert "secret" not in caught.value.message


@given(st.text(max_size=40).map(lambda t: "http://" + t) | st.text(max_size=40))
def test_any_text_is_an_address_or_refused(url: str) -> None:
    try:
        address = parse_address(url)
    except UsageError:
        return
    assert parse_address(str(address)) == address
