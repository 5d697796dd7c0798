"""Dashboard controls on a running job: requests over HTTP are applied by the job and shown on the page."""

from __future__ import annotations

import re
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from html import unescape
from pathlib import Path

import httpx
import pytest
from launching import PATIENCE, Running, environment, script, started, wait_for

import leadline

OPTIONS = ("--preset", "light", "--no-default-rules", "--rule", "exploding_tensor")
TOKEN = "of-the-tests-of-controls"
DEEDS = ("interval", "profile", "profile-off", "rule", "stop")


class Pages:
    """A running dashboard, requested as by its own pages, with the cookie that browsers get for the token."""

    def __init__(self, address: str) -> None:
        self.client = httpx.Client(base_url=address, timeout=PATIENCE, headers={"Accept": "text/html"})
        self.run = ""

    def ask(self, deed: str, **fields: str) -> httpx.Response:
        headers = {"Origin": str(self.client.base_url).rstrip("/")}
        return self.client.post(f"/runs/{self.run}/controls/{deed}", data=fields, headers=headers)

    def told(self) -> str:
        """Return the text of the requests in the drawer."""
        text = self.client.get(f"/runs/{self.run}/controls").text
        requests = text.partition("data-requests")[2].partition("</ul>")[0]
        return " ".join(unescape(re.sub(r"<[^>]*>", " ", requests)).split()).replace(" :", ":")

    def wait(self, pattern: str) -> str:
        wait_for(lambda: re.search(pattern, self.told()), f"{pattern!r} on the page")
        return self.told()


@contextmanager
def serving(root: Path, *options: str) -> Iterator[Pages]:
    process = subprocess.Popen(
        [sys.executable, "-m", "leadline", "ui", str(root), "--port", "0", *options],
        env=environment(LEADLINE_TOKEN=TOKEN),
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    assert process.stdout is not None
    try:
        address = re.search(r"http://[^\s/]+", process.stdout.readline())
        assert address
        pages = Pages(address[0])
        with pages.client:
            assert pages.client.get("/", params={"token": TOKEN}).status_code == 200
            yield pages
    finally:
        process.send_signal(signal.SIGINT)
        rest, _ = process.communicate(timeout=PATIENCE)
    assert (process.returncode, rest) == (0, ""), "Ctrl-C ends it quietly"


def name_of(running: Running) -> str:
    wait_for(lambda: running.flushed_steps() > 3, "steps")
    (path,) = (running.folder / "runs").iterdir()
    return path.name


@pytest.mark.slow
def test_requests_from_the_browser_are_applied_and_shown(tmp_path: Path) -> None:
    with started(OPTIONS, script("until.py"), str(tmp_path / "end"), folder=tmp_path) as running:
        name = name_of(running)
        with serving(tmp_path / "runs") as pages:
            pages.run = name
            assert "No requests so far" in pages.told()

            assert pages.ask("interval", interval_ms="100").status_code == 200
            pages.wait(r"sample the machine every 100 ms applied .*accepted by host ")
            assert 'every <b data-live-part="interval">100 ms</b>' in pages.client.get(f"/runs/{name}/controls").text

            assert pages.ask("profile", detailed="yes", steps="2").status_code == 200
            pages.wait(r"detailed from the next step, 2 steps applied .*accepted by .*\(step [\d,]+\)")
            assert pages.ask("profile", python="cprofile:cpu", step="1").status_code == 200
            pages.wait(r"cprofile \(cpu\) from step 1, 1 step refused .*step 1 has begun already")
            far = str(running.flushed_steps() + 1_000_000)
            assert pages.ask("profile", python="pyinstrument", step=far).status_code == 200
            pages.wait(r"pyinstrument from step [\d,]+, 1 step applied")
            assert pages.ask("profile-off").status_code == 200
            pages.wait(r"end profiling applied .*accepted by .*: 1 window ended")

            answer = pages.ask("rule", rule="vanishing_gradient", **{"p.threshold": "1e6"})
            assert answer.status_code == 200, answer.text
            pages.wait(r"add rule vanishing_gradient applied .*accepted by judge")

            assert pages.ask("stop", grace="60").status_code == 200
            pages.wait(r"stop the job applied")
            ended = running.wait()
            assert pages.client.get(f"/runs/{name}").text.count('data-status="Stopped"') >= 1
            late = pages.ask("interval", interval_ms="200")
            assert (late.status_code, "is not running" in late.text) == (400, True)
    run = leadline.open_run(ended.run.uri)
    assert run.status == "Stopped"
    assert run.profiles()["kind"].to_pylist() == ["detailed"]


def watched(folder: Path) -> Path:
    """Start a job without steps; yields its run once the agent has announced the node."""
    wait_for(lambda: list((folder / "runs").glob("*/nodes/*.json")), "a run")
    (path,) = (folder / "runs").iterdir()
    return path


@pytest.mark.slow
def test_a_request_without_response_is_pending(tmp_path: Path) -> None:
    """A job without steps cannot acknowledge a profile request, and is stopped by signals."""
    with started(OPTIONS, "sh", "-c", "sleep 600", folder=tmp_path) as running:
        path = watched(tmp_path)
        with serving(path.parent) as pages:
            pages.run = path.name
            assert pages.ask("profile", detailed="yes").status_code == 200
            time.sleep(1.0)
            assert re.search(r"1 step pending .* pending for [\d.]+ s", pages.told())
            assert pages.ask("stop").status_code == 200
            pages.wait(r"stop the job applied")
            running.wait()
            assert "job had ended" in pages.told(), "the profile will never come"


@pytest.mark.slow
def test_read_only_changes_nothing(tmp_path: Path) -> None:
    with started(OPTIONS, "sh", "-c", "sleep 600", folder=tmp_path):
        path = watched(tmp_path)
        with serving(path.parent, "--read-only") as pages:
            pages.run = path.name
            for deed in DEEDS:
                assert pages.ask(deed, interval_ms="100", rule="loss_spike", detailed="yes").status_code == 403
            drawer = pages.client.get(f"/runs/{pages.run}/controls").text
            assert "<form" not in drawer
            assert "read-only" in drawer
            assert not list(path.glob("control/*.json"))
