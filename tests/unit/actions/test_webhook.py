"""webhook, with real servers and all kinds of responses."""

from __future__ import annotations

import base64
import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from email.utils import format_datetime
from http import HTTPStatus
from pathlib import Path

import pytest
from endpoints import HANGS, HttpEndpoint, Reply, free_port, http_endpoint

from leadline.actions.action import ActionContext, RejectedError, RetryLaterError
from leadline.actions.registry import make_action
from leadline.actions.webhook import Webhook, retry_after_seconds
from leadline.errors import ConfigurationError
from leadline.records.notification import Notification, TensorSnapshot
from leadline.records.version import __version__

NOTICE = Notification(
    "e/opened/7",
    "finding",
    "a",
    "/rüns/a",
    "IssuesFound",
    1,
    rule="e",
    step=7,
    message="loss is NaN",
    tensors=(TensorSnapshot("loss", (), "float32", {"mean": float("nan"), "max": float("inf")}, (float("-inf"),)),),
)
OCCASION = ActionContext("/rüns/a", NOTICE, (), 2)


def post(server: HttpEndpoint, path: str = "/hook", **parameters: object) -> str:
    return make_action("webhook", {"url": server.url + path, **parameters}).run(OCCASION).outcome


def test_a_notification_arrives_as_standard_json() -> None:
    with http_endpoint(Reply(204)) as server:
        assert post(server, "/hook?x=1") == f"posted to 127.0.0.1:{server.port}: 204 No Content"
    (got,) = server.received
    assert got.path == "/hook?x=1"
    assert got.headers["content-type"] == "application/json; charset=utf-8"
    assert got.headers["user-agent"] == f"leadline/{__version__}"
    assert got.headers["idempotency-key"] == "/r%C3%BCns/a/e/opened/7"
    assert "authorization" not in got.headers
    assert got.json["tensors"][0]["statistics"] == {"mean": "NaN", "max": "Infinity"}
    assert got.json["tensors"][0]["values"] == ["-Infinity"]
    assert Notification.from_dict(got.json).message == "loss is NaN"


def test_authorization_is_sent_as_given_and_a_url_with_a_user_becomes_one() -> None:
    with http_endpoint() as server:
        post(server, authorization="Bearer abc def")
        Webhook(url=f"http://bob:p%40ss@127.0.0.1:{server.port}/").run(OCCASION)
    assert server.received[0].headers["authorization"] == "Bearer abc def"
    assert server.received[1].headers["authorization"] == f"Basic {base64.b64encode(b'bob:p@ss').decode()}"
    assert server.received[1].headers["host"] == f"127.0.0.1:{server.port}"


@pytest.mark.parametrize("status", [400, 401, 403, 404, 405, 410, 413, 422])
def test_a_refusal_is_final_and_contains_the_status_but_no_text_of_the_server(status: int) -> None:
    with http_endpoint(Reply(status, "<h1>no such\n hook</h1>")) as server, pytest.raises(RejectedError) as caught:
        post(server)
    assert str(caught.value) == f"127.0.0.1:{server.port} answered {status} {HTTPStatus(status).phrase}"
    assert len(server.received) == 1


@pytest.mark.parametrize("status", [408, 425, 429, 500, 502, 503, 504])
def test_a_transient_error_is_retried_after_the_requested_time(status: int) -> None:
    with http_endpoint(Reply(status, headers={"Retry-After": "7"}), Reply(status), Reply(200)) as server:
        with pytest.raises(RetryLaterError, match=f"answered {status}") as caught:
            post(server)
        assert caught.value.after_seconds == 7
        with pytest.raises(RetryLaterError) as caught:
            post(server)
        assert caught.value.after_seconds is None
        assert post(server).endswith("200 OK")
    assert len({each.headers["idempotency-key"] for each in server.received}) == 1


def test_retry_after_is_read_as_seconds_and_as_a_date() -> None:
    assert retry_after_seconds("120") == 120
    assert retry_after_seconds(None) is None
    assert retry_after_seconds("soon") is None
    coming = format_datetime(datetime.now(UTC) + timedelta(hours=1), usegmt=True)
    assert 3000 < (retry_after_seconds(coming) or 0) <= 3600
    assert retry_after_seconds("Wed, 21 Oct 2015 07:28:00 GMT") == 0


def test_a_server_that_hangs_is_named() -> None:
    with http_endpoint(Reply(HANGS)) as server, pytest.raises(RetryLaterError, match=r"did not answer within 1\.8 s"):
        post(server, timeout=2.0)
    assert len(server.received) == 1


@contextmanager
def raw_endpoint(answer: bytes, *, is_closed: bool) -> Iterator[int]:
    """A server that sends some bytes, and then closes the connection or says nothing more; its port."""
    ending = threading.Event()

    def serve(server: socket.socket) -> None:
        connection, _ = server.accept()
        with connection:
            while not connection.recv(65536).endswith(b"}"):
                continue
            connection.sendall(answer)
            if not is_closed:
                ending.wait()

    with socket.create_server(("127.0.0.1", 0)) as server:
        thread = threading.Thread(target=serve, args=(server,))
        thread.start()
        try:
            yield server.getsockname()[1]
        finally:
            ending.set()
            thread.join()


@pytest.mark.parametrize(
    ("answer", "why"),
    [
        (b"", "closed the connection without a response"),
        (b"220 mail.example.org\r\n", "sent a response that is not HTTP"),
    ],
)
def test_a_server_that_does_not_speak_http(answer: bytes, why: str) -> None:
    with (
        raw_endpoint(answer, is_closed=True) as port,
        pytest.raises(RetryLaterError, match=f"^127.0.0.1:{port} {why}$"),
    ):
        Webhook(url=f"http://127.0.0.1:{port}/").run(OCCASION)


@pytest.mark.parametrize("is_closed", [True, False])
def test_a_status_counts_even_if_the_body_breaks_off_or_hangs(is_closed: bool) -> None:
    with raw_endpoint(b"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nab", is_closed=is_closed) as port:
        outcome = Webhook(url=f"http://127.0.0.1:{port}/", timeout=2.0).run(OCCASION).outcome
    assert outcome == f"posted to 127.0.0.1:{port}: 200 OK"
    gone = b"HTTP/1.1 404 Secret\r\nContent-Length: 9\r\n\r\nab"
    with (
        raw_endpoint(gone, is_closed=is_closed) as port,
        pytest.raises(RejectedError, match=r"answered 404 Not Found$"),
    ):
        Webhook(url=f"http://127.0.0.1:{port}/", timeout=2.0).run(OCCASION)


def test_a_path_with_any_characters_is_quoted() -> None:
    with http_endpoint() as server:
        post(server, "/hüte/%20a?wo=höhe&b=%C3%A4#part")
    assert server.received[0].path == "/h%C3%BCte/%20a?wo=h%C3%B6he&b=%C3%A4"


def test_an_unreachable_server() -> None:
    port = free_port()
    with pytest.raises(RetryLaterError, match=f"^127.0.0.1:{port}: connection refused$"):
        Webhook(url=f"http://127.0.0.1:{port}/secret").run(OCCASION)


def test_a_redirect_that_keeps_the_request_is_followed() -> None:
    with http_endpoint(Reply(307, headers={"Location": "/there"}), Reply(200)) as server:
        post(server, authorization="Bearer abc")
    assert [each.path for each in server.received] == ["/hook", "/there"]
    assert [each.headers["authorization"] for each in server.received] == ["Bearer abc", "Bearer abc"]
    assert server.received[0].body == server.received[1].body


def test_authorization_is_not_sent_to_another_host() -> None:
    port = free_port()
    moved = Reply(308, headers={"Location": f"http://localhost:{port}/there"})
    with http_endpoint(moved, Reply(200), port=port) as server:
        post(server, authorization="Bearer abc")
    first, second = server.received
    assert (first.headers["host"], second.headers["host"]) == (f"127.0.0.1:{port}", f"localhost:{port}")
    assert "authorization" in first.headers
    assert "authorization" not in second.headers
    assert first.body == second.body


@pytest.mark.parametrize("secret", ["header", "url"])
def test_authorization_is_not_sent_to_another_port(secret: str) -> None:
    with http_endpoint() as other, http_endpoint(Reply(308, headers={"Location": f"{other.url}/there"})) as server:
        if secret == "header":
            post(server, authorization="Bearer abc")
        else:
            Webhook(url=f"http://bob:pass@127.0.0.1:{server.port}/").run(OCCASION)
    assert "authorization" in server.received[0].headers
    assert "authorization" not in other.received[0].headers
    assert server.received[0].body == other.received[0].body


@pytest.mark.parametrize("status", [301, 302, 303])
def test_a_redirect_that_would_lose_the_body_is_refused_with_the_new_address(status: int) -> None:
    reply = Reply(status, headers={"Location": "https://user:key@hooks.example.org/secret"})
    with (
        http_endpoint(reply) as server,
        pytest.raises(RejectedError, match=r"moved to https://hooks\.example\.org;") as caught,
    ):
        post(server)
    assert "key" not in str(caught.value)
    assert "secret" not in str(caught.value)


@pytest.mark.parametrize("location", ["", "ftp://host/x", "file:///etc/passwd", "mailto:me@example.org"])
def test_a_redirect_without_a_valid_location_is_refused(location: str) -> None:
    with (
        http_endpoint(Reply(307, headers={"Location": location})) as server,
        pytest.raises(RejectedError, match="without a valid location"),
    ):
        post(server)


def test_a_redirect_loop_ends() -> None:
    with (
        http_endpoint(Reply(307, headers={"Location": "/hook"})) as server,
        pytest.raises(RejectedError, match="than 3"),
    ):
        post(server)
    assert len(server.received) == 4


def test_a_dry_run_posts_nothing() -> None:
    with http_endpoint() as server:
        said = Webhook(url=f"http://bob:pass@127.0.0.1:{server.port}/secret", dry_run=True).describe(OCCASION)
    assert said == f"would post e/opened/7 to 127.0.0.1:{server.port}"
    assert server.received == []
    assert Webhook(url="$HOOK").describe(OCCASION) == "would post e/opened/7 to $HOOK"


@pytest.mark.parametrize(
    ("url", "why"),
    [
        ("", "the URL is empty"),
        ("https://host/a b", "or contains a space"),
        ("host/secret", "must begin with http:// or https://"),
        ("ftp://host/secret", "must begin with http:// or https://"),
        ("https:///secret", "has no host"),
        ("https://host:0/secret", "has no host"),
        ("https://host:port/secret", "malformed"),
        ("https://host:99999/secret", "malformed"),
        ("https://[secret/x", "malformed"),
        ("https://host..example/secret", "malformed"),
    ],
)
def test_a_malformed_url_is_refused_without_being_shown(url: str, why: str) -> None:
    with pytest.raises(ConfigurationError, match=why) as caught:
        Webhook(url=url).check()
    assert "secret" not in str(caught.value)


def test_a_header_with_a_line_break_is_refused() -> None:
    with pytest.raises(ConfigurationError, match="line break"):
        Webhook(url="http://127.0.0.1/", authorization="Bearer a\r\nX: y").check()


def test_an_unreachable_host_is_refused_before_the_start() -> None:
    with http_endpoint() as server:
        Webhook(url=f"{server.url}/secret").check()
    assert server.received == []
    with pytest.raises(ConfigurationError, match=f"127.0.0.1:{server.port}") as caught:
        Webhook(url=f"{server.url}/secret").check()
    assert "secret" not in str(caught.value)
    assert "probe=false" in str(caught.value)
    Webhook(url=f"{server.url}/secret", probe=False).check()


def test_the_url_is_required() -> None:
    with pytest.raises(ConfigurationError, match=r"webhook needs url: write webhook:URL$"):
        make_action("webhook", {})


def test_the_run_directory_is_not_changed(tmp_path: Path) -> None:
    with http_endpoint() as server:
        Webhook(url=server.url).run(ActionContext(str(tmp_path), NOTICE, (), 0))
    assert list(tmp_path.iterdir()) == []
