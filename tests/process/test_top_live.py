"""``leadline top`` beside a real training: follows it, opens what can be opened, and stops it."""

from __future__ import annotations

import asyncio
import html
import os
import pty
import re
import subprocess
import sys
import urllib.error
import urllib.request
from pathlib import Path

import pytest
from launching import only_run, script, started, wait_for
from textual.pilot import Pilot

from leadline.cli.top_app import Top
from leadline.testing.runs import Capture, RunWriter

STOPPED = 10
"""The exit status of a training that was stopped."""

pytestmark = pytest.mark.slow


def lines(pilot: Pilot[None]) -> str:
    picture = pilot.app.export_screenshot()
    return " ".join(
        html.unescape(text).replace("\xa0", " ") for text in re.findall(r"<text [^>]*>([^<]*)</text>", picture)
    )


async def seen(pilot: Pilot[None], pattern: str) -> str:
    """Wait for a text on the screen; return its first group."""
    for _ in range(600):
        found = re.search(pattern, lines(pilot))
        if found:
            return found[1]
        await pilot.pause(0.1)
    raise AssertionError(f"no {pattern!r} in {lines(pilot)}")


def test_a_training_is_followed_opened_and_stopped(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("BROWSER", "true")  # a browser that shows nothing

    async def play(run: Path) -> None:
        app = Top(str(run.parent))
        async with app.run_test(size=(200, 60)) as pilot:
            await seen(pilot, f"({run.name})")
            await pilot.press("enter")
            first = int((await seen(pilot, r"Running: ([\d,]+) steps")).replace(",", ""))
            await seen(pilot, r"(step time p50)")
            await pilot.press("r")
            report = await seen(pilot, r"(\S+-report\.html)")
            assert run.name in Path(report).read_text()
            await pilot.press("d")
            address = await seen(pilot, r"dashboard: (http://\S+)")
            with urllib.request.urlopen(address) as page:
                assert run.name in page.read().decode()
            await pilot.press("s")
            await seen(pilot, r"(at its next step)")
            await pilot.press("y")
            stopped = int((await seen(pilot, r"Stopped at step ([\d,]+)")).replace(",", ""))
            assert stopped > first
        with pytest.raises(urllib.error.URLError):  # it ends with the app
            urllib.request.urlopen(address)

    with started((), script("endless.py"), "torch", folder=tmp_path) as running:
        wait_for(lambda: running.flushed_steps() > 20, "steps")
        asyncio.run(play(Path(only_run(tmp_path / "runs").path)))
        assert running.wait().status == STOPPED


def test_the_command_shows_a_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """In a terminal of its own, until q is pressed."""
    RunWriter(tmp_path / "runs" / "mine").write_all([Capture(0, {"loss": {"value": 1.0}})]).end()
    leader, follower = pty.openpty()
    words = [sys.executable, "-m", "leadline", "top", str(tmp_path / "runs" / "mine")]
    size = {"COLUMNS": "120", "LINES": "40", "TERM": "xterm-256color"}
    process = subprocess.Popen(words, stdin=follower, stdout=follower, stderr=follower, env={**os.environ, **size})
    os.close(follower)
    shown = b""
    while b"Completed: 1 step" not in shown:
        shown += os.read(leader, 65536)
    os.write(leader, b"q")
    while process.poll() is None:
        try:
            os.read(leader, 65536)
        except OSError:  # the other end is closed
            break
    assert process.wait() == 0
    os.close(leader)
