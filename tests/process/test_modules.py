"""Modules imported by the training process and the agent in a real run."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from agent_process import make_run
from launching import PATIENCE, SCRIPTS, bare, environment, script, watched

pytestmark = pytest.mark.real_starts

FORBIDDEN_IN_TRAINING = {"typer", "rich", "pyarrow", "duckdb", "plotly", "obstore", "msgspec", "pandas"}
WINGS = ("reader", "rules", "judge", "agent", "actions", "monitor", "cli", "testing")
FORBIDDEN_IN_AGENT = {"typer", "rich", "pyarrow", "numpy", "torch", "duckdb", "safetensors"}


@pytest.mark.parametrize("way", ["launched", pytest.param("watch", marks=pytest.mark.slow)])
def test_the_training_imports_no_modules_of_the_judging_side(tmp_path: Path, way: str) -> None:
    if way == "launched":
        ended = watched(
            ("--preset", "full", "--capture", "all:every=1,raw=true"), script("modules.py"), folder=tmp_path
        )
    else:
        ended = bare("modules.py", "--watch", folder=tmp_path)
    assert ended.status == 0, ended.err
    held = set(ended.out.split())
    assert {
        "torch",
        "leadline.training.session.api",
        "leadline.training.session.session",
        "leadline.training.recorder.step_recorder",
        "leadline.store.writer",
    } <= held
    tops = {name.partition(".")[0] for name in held}
    without = bare("modules.py", folder=tmp_path)
    own = {name.partition(".")[0] for name in without.out.split()}
    assert not (tops - own) & FORBIDDEN_IN_TRAINING
    assert not tops & {"typer", "pyarrow", "duckdb", "obstore", "msgspec"}
    assert not {name for name in held if name.startswith(tuple(f"leadline.{wing}" for wing in WINGS))}


def test_a_real_agent_imports_no_heavy_modules(tmp_path: Path) -> None:
    """According to the import log of the agent, with a judge and a training."""
    run = make_run(tmp_path / "run", rules=True)
    done = subprocess.run(
        [
            sys.executable,
            "-X",
            "importtime",
            "-m",
            "leadline.agent",
            str(run),
            "--",
            sys.executable,
            str(SCRIPTS / "modules.py"),
        ],
        env=environment(),
        capture_output=True,
        text=True,
        timeout=PATIENCE,
        check=False,
    )
    assert done.returncode == 0
    imported = {line.rpartition("|")[2].strip() for line in done.stderr.splitlines() if line.startswith("import time:")}
    assert {"leadline.agent.agent", "leadline.monitor.monitor", "leadline.store.layout"} <= imported
    assert not {name.partition(".")[0] for name in imported} & FORBIDDEN_IN_AGENT
    assert not {name for name in imported if name.startswith(("leadline.judge", "leadline.rules", "leadline.reader"))}
