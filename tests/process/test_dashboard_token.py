"""The token of a dashboard: who has it sees the runs, and it is where only its user can read it."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from urllib.parse import urlsplit

import httpx
import pytest
from launching import PATIENCE, environment, wait_for

from leadline.testing.runs import RunWriter

GIVEN = "a-token-that-was-given"
BROWSER = """#!/bin/sh
page="${1#file://}"
cat "$page" > "$0.page"; stat -c %a "$page" "$(dirname "$page")" > "$0.modes"; echo "$@" > "$0.words"
"""


@contextmanager
def serving(root: Path, *options: str, output: Path | None = None, **changes: str) -> Iterator[tuple[str, list[str]]]:
    """Serve a dashboard; yields the first line that it prints, and a list that gets all it has printed at its end."""
    path = output or root / "output"
    path.touch(0o600)
    printed = list[str]()
    with path.open("w") as file:
        process = subprocess.Popen(
            [sys.executable, "-m", "leadline", "ui", str(root), "--port", "0", *options],
            env=environment(PYTHONUNBUFFERED="1", **changes),
            stdout=file,
            stderr=file,
        )
    try:
        wait_for(lambda: "Ctrl-C" in path.read_text(), "the address")
        line = next(line for line in path.read_text().splitlines() if line.startswith("leadline  http"))
        assert GIVEN not in Path(f"/proc/{process.pid}/cmdline").read_text()
        yield line.split()[1], printed
    finally:
        process.send_signal(signal.SIGINT)
        process.wait(timeout=PATIENCE)
    printed += path.read_text().splitlines()


@pytest.fixture
def root(tmp_path: Path) -> Path:
    RunWriter(tmp_path / "first").end()
    return tmp_path


def test_only_the_printed_link_leads_to_the_runs(root: Path) -> None:
    with serving(root) as (link, printed), httpx.Client(timeout=PATIENCE) as client:
        address, token = link.split("?token=")
        assert client.get(address).status_code == 401
        assert client.post(f"{address}runs/first/delete", headers={"Sec-Fetch-Site": "same-origin"}).status_code == 401
        assert client.get(f"{address}live", headers={"Authorization": f"Bearer {token}x"}).status_code == 401
        assert client.get(link).status_code == 200
        page = client.get(address)
        assert (page.status_code, "first" in page.text, token in page.text) == (200, True, False)
        assert httpx.get(address, headers={"Authorization": f"Bearer {token}"}).status_code == 200
    assert len(printed) == 1, "requests are not logged"
    with serving(root) as (other, _):
        assert other.partition("?token=")[2] != token


def test_a_given_token_is_not_printed(root: Path) -> None:
    with serving(root, LEADLINE_TOKEN=GIVEN) as (address, printed):
        assert httpx.get(address).status_code == 401
        assert httpx.get(address, headers={"Authorization": f"Bearer {GIVEN}"}).status_code == 200
        assert httpx.get(address, params={"token": GIVEN}).status_code == 200
    assert GIVEN not in "".join(printed)


def test_without_a_token_every_user_of_the_machine_is_served(root: Path) -> None:
    with serving(root, "--no-token") as (address, _):
        assert "token" not in address
        assert httpx.get(address).status_code == 200


def test_the_browser_is_led_to_the_page_by_a_private_file(root: Path) -> None:
    """Arguments of processes can be seen by everybody."""
    browser = root / "browser"
    browser.write_text(BROWSER)
    browser.chmod(0o700)
    with serving(root, "--open", BROWSER=str(browser)) as (link, _):
        token = link.partition("?token=")[2]
        wait_for((root / "browser.words").exists, "the browser")
        words = (root / "browser.words").read_text().strip()
        assert words.startswith("file:///")
        assert token not in words
        assert f'url={link}"' in (root / "browser.page").read_text()
        assert (root / "browser.modes").read_text().split() == ["600", "700"]
    assert not os.path.exists(urlsplit(words).path)


def test_output_that_others_can_read_is_told(root: Path) -> None:
    output = root / "output"
    output.touch()
    output.chmod(0o644)
    with serving(root, output=output) as (_, printed):
        pass
    assert f"other users can read the token in {output}: run chmod 600 {output}, or set $LEADLINE_TOKEN" in printed[0]
    with serving(root, output=output, LEADLINE_TOKEN=GIVEN) as (_, printed):
        pass
    assert len(printed) == 1
