"""``leadline mcp`` with the SDK's own client, by standard streams and by HTTP, beside a training that still runs."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import anyio
import httpx2
import pytest
from launching import PATIENCE, environment, script, started, wait_for
from mcp.client.client import Client
from mcp.client.stdio import StdioServerParameters, stdio_client
from mcp.client.streamable_http import streamable_http_client

TOKEN = "a-token-that-was-given"

pytestmark = pytest.mark.slow


def test_an_agent_asks_why_and_stops_a_running_training(tmp_path: Path) -> None:
    async def ask() -> dict[str, Any]:
        parameters = StdioServerParameters(
            command=sys.executable,
            args=["-m", "leadline", "mcp", str(tmp_path / "runs"), "--allow-control"],
            env=environment(),
        )
        async with Client(stdio_client(parameters)) as client:
            (run,) = (await client.call_tool("runs", {})).structured_content["runs"]
            why = (await client.call_tool("why", {"run": run["name"]})).structured_content
            stopped = await client.call_tool("stop", {"run": run["name"], "reason": "the test is over"})
            return {"run": run, "why": why, "stopped": stopped.structured_content, "is_error": stopped.is_error}

    with started((), script("endless.py"), "torch", folder=tmp_path) as running:
        wait_for(lambda: (tmp_path / "runs").is_dir() and running.flushed_steps() > 5, "the first steps")
        answers = anyio.run(ask)
        ended = running.wait()
    assert answers["run"]["status"] == answers["why"]["status"] == "InProgress"
    assert not answers["is_error"], answers
    assert ended.status == 10
    assert ended.run.status_document.stopped_by is not None
    requests = [path.read_text() for path in Path(ended.run.path, "control").rglob("*") if path.is_file()]
    assert any("the test is over" in text for text in requests)


def test_by_http_only_who_has_the_token_gets_answers(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "leadline", "mcp", str(tmp_path), "--http", "0"]
    process = subprocess.Popen(
        command, env=environment(LEADLINE_TOKEN=TOKEN, PYTHONUNBUFFERED="1"), stdout=subprocess.PIPE, text=True
    )
    assert process.stdout is not None

    async def ask(address: str, token: str) -> list[Any]:
        async with (
            httpx2.AsyncClient(headers={"Authorization": f"Bearer {token}"}, timeout=PATIENCE) as http,
            Client(streamable_http_client(address, http_client=http)) as client,
        ):
            return list((await client.call_tool("runs", {})).structured_content["runs"])

    try:
        line = process.stdout.readline()
        assert TOKEN not in line
        address = line.split()[1]
        assert anyio.run(ask, address, TOKEN) == []
        assert httpx2.post(address, json={}).status_code in (401, 403)
        host = {"Host": "evil.example.org", "Authorization": f"Bearer {TOKEN}"}
        assert httpx2.post(address, json={}, headers=host).status_code in (400, 403, 421)
        with pytest.raises(BaseException, match=r"401|Unauthorized|errors"):
            anyio.run(ask, address, "another-token-of-some-length")
    finally:
        process.terminate()
        process.wait(PATIENCE)
        process.stdout.close()
