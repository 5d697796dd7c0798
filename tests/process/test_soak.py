"""What Leadline holds does not grow with the steps; ``benchmarks/soak.py`` says the same of a hundred thousand."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest
from launching import environment, finish

SOAK = Path(__file__).parents[2] / "benchmarks" / "soak.py"
STEPS = 5000
ROOM_BYTES = 3 << 20
"""A leak of one small record a step would be more over the last four fifths."""


@pytest.mark.parametrize("wish", [(), ("--capture", "all:every=5")])
def test_memory_is_flat(tmp_path: Path, wish: tuple[str, ...]) -> None:
    ended = finish([sys.executable, str(SOAK), "--steps", str(STEPS), *wish], tmp_path, env=environment())
    assert ended.status == 0, ended.err
    told = json.loads(ended.out)
    assert told["growth_bytes"] < ROOM_BYTES, told["held_bytes"]
    assert told["files"] < 40
