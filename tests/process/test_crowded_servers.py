"""Clients that connect and send no request, or half of one, keep nobody out."""

from __future__ import annotations

import signal
import socket
import subprocess
import sys
from pathlib import Path

import httpx
import pytest
from launching import PATIENCE, environment

HALF = b"POST / HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: application/x-amz-json-1.1\r\nContent-Length: 90\r\n\r\n{"


@pytest.mark.parametrize(
    ("words", "limit", "status"),
    [(("serve", "--folder", "served"), 128, 405), (("ui", "--no-token", "."), 512, 200)],
    ids=["serve", "ui"],
)
def test_half_requests_make_room(tmp_path: Path, words: tuple[str, ...], limit: int, status: int) -> None:
    process = subprocess.Popen(
        [sys.executable, "-m", "leadline", *words, "--port", "0"],
        cwd=tmp_path,
        env=environment(PYTHONUNBUFFERED="1"),
        stdout=subprocess.PIPE,
        text=True,
    )
    assert process.stdout is not None
    address = httpx.URL(process.stdout.readline().split()[1])
    try:
        clients = [socket.create_connection((address.host, address.port or 0), PATIENCE) for _ in range(limit + 50)]
        for client in clients[::2]:
            try:
                client.sendall(HALF)
            except OSError:  # closed already
                continue
        assert httpx.get(address, timeout=PATIENCE).status_code == status
        assert clients[1].recv(1) == b"", "that which has waited longest and sent nothing is closed"
        assert sum(is_open(client) for client in clients) < limit
    finally:
        process.send_signal(signal.SIGINT)
        process.communicate(timeout=PATIENCE)
    for client in clients:
        client.close()


def is_open(client: socket.socket) -> bool:
    client.setblocking(False)
    try:
        return client.recv(1) != b""
    except BlockingIOError:
        return True
    except ConnectionResetError:
        return False
