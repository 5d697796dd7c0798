"""Listening socket and the ``leadline ui`` command."""

from __future__ import annotations

import asyncio
import socket
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from starlette.datastructures import Headers
from starlette.testclient import TestClient
from starlette.types import Message

from leadline.dashboard.app import create_app
from leadline.dashboard.run_cache import RunCache
from leadline.dashboard.server import bind
from leadline.errors import ConfigurationError
from leadline.testing.runs import RunWriter


def test_a_port_in_use_is_a_one_line_error() -> None:
    with bind("127.0.0.1", 0) as taken:
        port = taken.getsockname()[1]
        with pytest.raises(ConfigurationError, match=rf"cannot listen on 127\.0\.0\.1:{port}: it is in use; --port 0"):
            bind("127.0.0.1", port)


def test_the_default_port_falls_back_to_the_next_free_one() -> None:
    with bind("127.0.0.1", 0) as taken:
        port = taken.getsockname()[1]
        with bind("127.0.0.1", port, or_next=True) as found:
            assert port < found.getsockname()[1] <= port + 20


@pytest.mark.parametrize(("host", "port"), [("no.such.host.invalid", 0), ("127.0.0.1", 70_000), ("203.0.113.7", 0)])
def test_a_foreign_address_is_a_one_line_error(host: str, port: int) -> None:
    with pytest.raises(ConfigurationError, match=str(port)):
        bind(host, port)


def test_ipv6_is_listened_on() -> None:
    if not socket.has_ipv6:
        pytest.fail("this machine has no IPv6 at all")
    with bind("::1", 0) as found:
        assert found.family == socket.AF_INET6


@pytest.mark.slow
@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("nowhere",), "no such run or folder: 'nowhere'"),
        (("--host", "0.0.0.0", "--port", "0"), "$LEADLINE_TOKEN must have at least 16 characters"),
        (("--host", "no.such.host.invalid", "--port", "0"), "not an address of this machine"),
        (("--host", "127.0.0.2", "--no-token"), "--no-token contradicts $LEADLINE_TOKEN"),
    ],
)
def test_invalid_input_is_a_one_line_error(tmp_path: Path, words: tuple[str, ...], said: str) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "leadline", "ui", *words],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=300,
        env={
            "PATH": "/usr/bin:/bin",
            **({} if "nowhere" in words or "no.such.host.invalid" in words else {"LEADLINE_TOKEN": "short"}),
        },
        check=False,
    )
    assert done.returncode == 2
    assert said in done.stderr
    assert len(done.stderr.strip().splitlines()) == 1


def test_internal_errors_are_logged_with_a_one_line_response(
    tmp_path: Path,
    open_dashboard: Callable[..., TestClient],
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    RunWriter(str(tmp_path / "first")).end()

    def fail(self: RunCache, name: str) -> None:
        raise ZeroDivisionError("secret of the inside")

    monkeypatch.setattr(RunCache, "open", fail)
    answer = open_dashboard(tmp_path, raise_server_exceptions=False).get("/runs/first/nodes")
    assert answer.status_code == 500
    assert "Internal error of Leadline" in answer.text
    assert "secret" not in answer.text
    assert "secret of the inside" in caplog.text


def test_a_body_that_does_not_arrive_is_no_error_of_ours(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    RunWriter(str(tmp_path / "first")).end()

    async def receive() -> Message:
        return {"type": "http.disconnect"}

    async def send(message: Message) -> None:
        assert message.get("status", 400) == 400

    headers = Headers({"Host": "127.0.0.1:8321", "Sec-Fetch-Site": "same-origin", "Content-Length": "9"}).raw
    path = "/runs/first/controls/stop"
    scope = {"type": "http", "method": "POST", "path": path, "query_string": b"", "headers": headers}
    asyncio.run(create_app(str(tmp_path))(scope, receive, send))
    assert caplog.text == ""
