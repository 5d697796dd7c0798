"""The bootstrap of every Python process below ``leadline run``: small, silent, and harmless to the script."""

from __future__ import annotations

import ast
import subprocess
import sys
from pathlib import Path

import pytest
from launching import PATIENCE, environment, script, watched

import leadline.training.bootstrap

pytestmark = pytest.mark.real_starts

SITE = Path(leadline.training.bootstrap.__file__).parent / "site"


def modules_of(*code: str, **changes: str) -> set[str]:
    done = subprocess.run(
        [sys.executable, "-c", "; ".join((*code, "import sys", "print(*sys.modules)"))],
        env=environment(**changes),
        capture_output=True,
        text=True,
        timeout=PATIENCE,
        check=True,
    )
    assert done.stderr == ""
    return set(done.stdout.split())


def test_the_bootstrap_imports_only_what_costs_nothing() -> None:
    allowed = modules_of("import atexit, os, importlib.machinery")
    assert modules_of(PYTHONPATH=str(SITE), LEADLINE_RUN="/nowhere") - allowed == {"sitecustomize"}


def test_the_bootstrap_is_valid_in_any_python_3() -> None:
    ast.parse((SITE / "sitecustomize.py").read_text(), feature_version=(3, 4))


def test_importing_leadline_loads_no_third_party_modules() -> None:
    loaded = {name.partition(".")[0] for name in modules_of("import leadline") - modules_of()}
    assert loaded <= {*sys.stdlib_module_names, "leadline"}
    assert not loaded & {"asyncio", "logging", "dataclasses", "inspect"}


def test_a_sitecustomize_of_the_user_runs_as_well(tmp_path: Path) -> None:
    (tmp_path / "own").mkdir()
    (tmp_path / "own" / "sitecustomize.py").write_text("print('mine', __name__)")
    ended = watched((), sys.executable, "-c", "print('job')", folder=tmp_path, PYTHONPATH=str(tmp_path / "own"))
    assert ended.status == 0
    assert ended.out == "mine sitecustomize\n" * 2 + "job\n"  # once in the command of the user, once in the job


def test_a_missing_run_does_not_stop_the_script(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, script("modules.py")],
        env=environment(PYTHONPATH=str(SITE), LEADLINE_RUN=str(tmp_path / "file" / "run")),
        capture_output=True,
        text=True,
        timeout=PATIENCE,
        check=False,
    )
    assert done.returncode == 0
    assert "Traceback" not in done.stderr


@pytest.mark.parametrize("way", ["replaced", "-E", "-S"])
def test_an_unreachable_training_continues_and_is_reported_as_unseen(tmp_path: Path, way: str) -> None:
    words = [sys.executable, *([way] if way == "-E" else []), script("conversation.py"), "0"]
    if way == "-S":
        words = [sys.executable, "-S", "-c", "print(1)"]
    environ = "{}" if way == "replaced" else "None"
    launcher = tmp_path / "launcher.py"
    launcher.write_text(f"import subprocess, sys\nsys.exit(subprocess.run({words!r}, env={environ}).returncode)")
    ended = watched((), str(launcher), folder=tmp_path, given="")
    assert ended.status == 0, ended.err
    said = ended.show()
    assert (said["workers"], said["steps"]) == ([], {})
    assert {rule["verdict"] for rule in said["rules"]} == {"undecided", "not_applicable"}
    assert any("no training step was seen" in line for line in ended.said)
