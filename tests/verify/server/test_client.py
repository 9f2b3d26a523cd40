"""The HTTP client against servers that misbehave."""

from __future__ import annotations

import threading

import pytest

from contract.errors import LimitExceeded, UserError
from contract.limits import DEFAULT_LIMITS, Limits
from eagle3_contract.verify.server.address import parse_address
from eagle3_contract.verify.server.client import API_KEY, Client
from eagle3_contract.verify.server.recognise import recognise
from verify.server.hostile import Behaviour, answer, dripping, endless, misbehaving, says, silent
from verify.server.imitations import CERTIFICATE, KEY, Sglang, served

QUICK = DEFAULT_LIMITS.lowered(server_request_seconds=1, server_response_bytes=100_000)
HEAD = b"HTTP/1.1 200 OK\r\n"


def client(url: str, *, limits: Limits = QUICK, key: str | None = None) -> Client:
    return Client(parse_address(url), limits, {} if key is None else {API_KEY: key})


def test_a_page_instead_of_a_list_of_models_is_no_engine() -> None:
    with misbehaving(says(answer(b"<html>a web page</html>"))) as url, pytest.raises(UserError) as caught:
        recognise(client(url))
    assert caught.value.rule == "server.engine"
    assert caught.value.fix is not None
    assert "/v1" in caught.value.fix


def error(behaviour: Behaviour, *, key: str | None = None) -> UserError:
    with misbehaving(behaviour) as url:
        asking = client(url, key=key)
        with pytest.raises(UserError) as caught:
            asking.as_json(asking.get("/x"), "GET /x")
    return caught.value


@pytest.mark.parametrize(
    ("behaviour", "rule"),
    [
        (endless(HEAD + b"\r\n", b"x" * 4096), "server.limit-exceeded"),
        (endless(HEAD + b"Transfer-Encoding: chunked\r\n\r\n", b"1000\r\n" + b"x" * 4096 + b"\r\n"), "server.limit-exceeded"),
        (endless(HEAD + b"Content-Length: 99999999999\r\n\r\n", b"x" * 4096), "server.limit-exceeded"),
        (endless(b"", b"HTTP/1.1 100 Continue\r\n\r\n"), "server.limit-exceeded"),
        (endless(HEAD + b"A: ", b"x" * 4096), "server.answer"),
        (endless(HEAD, b"A: b\r\n"), "server.answer"),
        (endless(b"", b"x" * 4096), "server.answer"),
        (dripping(HEAD + b"Content-Length: 90000\r\n\r\n", b"x"), "server.too-slow"),
        (dripping(HEAD + b"A: ", b"x"), "server.too-slow"),
        (dripping(b"", b"H"), "server.too-slow"),
        (silent, "server.too-slow"),
        (says(b""), "server.answer"),
        (says(b"SSH-2.0-OpenSSH_9.6\r\n"), "server.answer"),
        (says(HEAD + b"Content-Length: 10\r\n\r\n{"), "server.answer"),
        (says(HEAD + b"Transfer-Encoding: chunked\r\n\r\nzz\r\n"), "server.answer"),
        (says(answer(b"", status="302 Found", headers="Location: http://127.0.0.1:1/x\r\n")), "server.redirect"),
        (says(answer(b"", status="307 Temporary Redirect", headers="Location: /y\r\n")), "server.redirect"),
        (says(answer(b"\x1f\x8b\x08", headers="Content-Encoding: gzip\r\n")), "server.answer"),
        (says(answer(b'{"error":"Unauthorized"}', status="401 Unauthorized")), "server.denied"),
        (says(answer(b"", status="403 Forbidden")), "server.denied"),
        (says(answer(b"busy", status="503 Service Unavailable")), "server.answer"),
        (says(answer(b"<html>")), "files.json-syntax"),
        (says(answer(b'{"a": NaN}')), "files.json-constant"),
        (says(answer(b'{"a": 1, "a": 2}')), "files.json-duplicate-key"),
        (says(answer(b"[" * 5000 + b"]" * 5000)), "files.json-too-deep"),
        (says(answer(b'"\xff"')), "files.json-not-utf8"),
    ],
)
def test_whatever_it_sends_is_an_error_with_a_name(behaviour: Behaviour, rule: str) -> None:
    assert error(behaviour).rule == rule


def test_a_limit_names_itself_and_both_numbers() -> None:
    found = error(endless(HEAD + b"Content-Length: 99999999999\r\n\r\n", b"x"))
    assert isinstance(found, LimitExceeded)
    assert (found.limit, found.allowed, found.actual) == ("server_response_bytes", 100_000, 99_999_999_999)


def test_nobody_listens() -> None:
    with misbehaving(silent) as url:
        pass
    with pytest.raises(UserError) as caught:
        client(url).get("/x")
    assert caught.value.rule == "server.unreachable"


def test_the_time_for_all_requests_is_one() -> None:
    with served(Sglang()) as url:
        asking = client(url, limits=DEFAULT_LIMITS.lowered(server_seconds=1))
        assert asking.get("/v1/models").status == 200
        threading.Event().wait(1.05)
        with pytest.raises(UserError) as caught:
            asking.get("/v1/models")
    assert caught.value.rule == "server.too-slow"
    assert "server_seconds" in caught.value.message


def test_control_characters_of_an_answer_are_seen() -> None:
    found = error(says(answer(b"\x1b[31mred\x07\xff\xe2\x80\xae", status="500 Oops")))
    assert found.message.isprintable()
    assert "\\x1b[31mred" in found.message


def test_the_key_is_sent_and_never_said() -> None:
    echo = answer(f"no: Bearer {KEY}".encode(), status="500 Oops")
    assert KEY not in error(says(echo), key=KEY).message
    assert "not accepted" in error(says(answer(b"", status="401 No")), key=KEY).message
    one = Sglang()
    one.key = KEY
    with served(one) as url:
        assert client(url, key=KEY).get("/v1/models").status == 200
        with pytest.raises(UserError) as caught:
            client(url).get("/v1/models")
    assert caught.value.rule == "server.denied"
    assert API_KEY in caught.value.message
    assert [h.get("Authorization") for h in one.headers] == [f"Bearer {KEY}", None]


@pytest.mark.parametrize("key", ["sesame\r\nHost: b", "sesam\u00e9", "sesame\x00", " sesame", "sesame\n"])
def test_a_key_that_no_header_carries(key: str) -> None:
    with pytest.raises(UserError) as caught:
        client("http://127.0.0.1:1", key=key)
    assert caught.value.rule == "server.api-key"
    assert "sesam" not in caught.value.message


def test_no_proxy_of_the_environment_is_asked(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("http_proxy", "HTTP_PROXY", "https_proxy", "ALL_PROXY", "all_proxy"):
        monkeypatch.setenv(name, "http://127.0.0.1:1")
    monkeypatch.delenv("no_proxy", raising=False)
    monkeypatch.delenv("NO_PROXY", raising=False)
    with served(Sglang()) as url:
        assert client(url).get("/v1/models").status == 200


def test_a_prefix_is_kept() -> None:
    one = Sglang()
    with served(one) as url:
        assert client(f"{url}/a/b/").get("/v1/models").status == 404
    assert one.asked == [("GET", "/a/b/v1/models")]


def test_tls_is_spoken_and_the_certificate_verified(monkeypatch: pytest.MonkeyPatch) -> None:
    with served(Sglang(), certificate=CERTIFICATE) as url:
        with pytest.raises(UserError) as caught:
            client(url).get("/v1/models")
        assert caught.value.rule == "server.unreachable"
        assert "certificate verify failed" in caught.value.message
        monkeypatch.setenv("SSL_CERT_FILE", str(CERTIFICATE))
        assert client(url).get("/v1/models").status == 200
        with pytest.raises(UserError) as caught:
            client(url.replace("https://", "http://")).get("/v1/models")
    assert caught.value.rule in ("server.unreachable", "server.answer")


def test_a_server_without_tls_is_not_spoken_to_over_https() -> None:
    with misbehaving(says(answer(b"{}"))) as url, pytest.raises(UserError) as caught:
        client(url.replace("http://", "https://")).get("/x")
    assert caught.value.rule == "server.unreachable"
