"""Helpers that launch a real agent and read its run."""

from __future__ import annotations

import os
import subprocess
import sys
import textwrap
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from leadline.config.trust import TRUSTED, digest_of_run
from leadline.monitor.processes import identify
from leadline.store import layout
from leadline.store.documents import make_folder, read_document, write_document

PATIENCE = 120.0


def make_run(path: Path, *, rules: bool = False) -> Path:
    make_folder(str(path))
    manifest = {
        "name": "a-run",
        "command": ["true"],
        "preset": "standard",
        "interval_ms": 100,
        "rules": [{"alias": "r", "rule": "r"}] if rules else [],
    }
    write_document(str(path / layout.MANIFEST), manifest)
    return path


def agent(run: Path, *command: str, judge: list[str] | None = None) -> list[str]:
    if judge is None:
        return [sys.executable, "-m", "leadline.agent", str(run), "--", *command]
    call = f"import sys; from leadline.agent.__main__ import main; sys.exit(main(sys.argv[1:], judge={judge!r}))"
    return [sys.executable, "-c", call, str(run), "--", *command]


def trusting(run: Path) -> dict[str, str]:
    """Return the environment of an agent that takes the actions of a manifest: as set by what becomes it."""
    manifest = read_document(str(run / layout.MANIFEST))
    assert isinstance(manifest, dict)
    return dict(os.environ) | {TRUSTED: digest_of_run(manifest)}


def launch(run: Path, *command: str, **options: Any) -> subprocess.CompletedProcess[str]:
    judge = options.pop("judge", None)
    return subprocess.run(
        agent(run, *command, judge=judge), capture_output=True, text=True, timeout=PATIENCE, check=False, **options
    )


def wait_for(condition: Callable[[], Any], what: str) -> Any:
    end = time.monotonic() + PATIENCE
    while time.monotonic() < end:
        found = condition()
        if found:
            return found
        time.sleep(0.02)
    raise AssertionError(f"it never happened: {what}")


def status(run: Path) -> dict[str, Any]:
    document = read_document(str(run / layout.STATUS))
    assert isinstance(document, dict)
    return document


def is_gone(pid: int) -> bool:
    return identify(pid) is None


def python(tmp_path: Path, body: str) -> list[str]:
    script = tmp_path / "script.py"
    script.write_text(textwrap.dedent(body))
    return [sys.executable, "-u", str(script)]
