"""The agent on a full disk: the job continues, and dropped data is reported."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import textwrap
from collections.abc import Iterator
from pathlib import Path

import pytest
from agent_process import launch, make_run, status

from leadline.store import layout


@pytest.fixture
def small(tmp_path: Path) -> Iterator[Path]:
    place = tmp_path / "small"
    place.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", "size=1m", "leadline-test", str(place)]
    if os.geteuid() != 0 or subprocess.run(mount, capture_output=True, check=False).returncode != 0:
        pytest.skip("mounting a small file system needs privileges that are missing here")
    yield place
    subprocess.run(["umount", "-l", str(place)], check=True)


FILL = """
    import os, sys, time
    filler = open(sys.argv[1], "wb", buffering=0)
    end = time.monotonic() + 4
    while time.monotonic() < end:
        try:
            filler.write(bytes(4096))
        except OSError:
            time.sleep(0.01)
    sys.exit(4)
"""


def test_a_full_disk_loses_samples_and_nothing_else(small: Path, tmp_path: Path) -> None:
    run = make_run(small / "run")
    script = tmp_path / "fill.py"
    script.write_text(textwrap.dedent(FILL))
    done = launch(run, sys.executable, str(script), str(small / "filler"))
    assert done.returncode == 4
    assert "Traceback" not in done.stderr
    assert done.stderr.count("system metrics cannot be stored (No space left on device)") == 1
    assert "system metric samples: No space left on device" in done.stderr
    assert status(run)["status"] == "Failed"
    assert status(run)["exit_status"] == 4
    manifest = json.loads((run / layout.MANIFEST).read_text())
    assert manifest["lost"][0]["samples"] > 5
    assert manifest["nodes"][0]["lost"]["reason"] == "No space left on device"
    assert not (run / layout.RESERVE).exists()
