"""The judge as the agent of a run starts it."""

from __future__ import annotations

import json
import sys
from pathlib import Path

from leadline.config.trust import digest_of_run


def judge_of(run: str | Path, *options: str) -> list[str]:
    """Return the command with which the agent that was started with this manifest starts its judge."""
    trust = digest_of_run(json.loads((Path(run) / "manifest.json").read_text()))
    return [sys.executable, "-m", "leadline.judge", str(run), *options, "--trust", trust]
