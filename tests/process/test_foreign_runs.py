"""A run that comes from elsewhere is resumed without what it names; one that was started here, with all of it."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest
from launching import LEADLINE, Ended, environment, finish, wait_for

pytestmark = pytest.mark.slow
TRAIN = """
import sys, time, torch
w = torch.nn.Linear(2, 1)
o = torch.optim.SGD(w.parameters(), 0.01)
for _ in range(30):
    o.zero_grad(); w(torch.ones(1, 2)).sum().backward(); o.step(); time.sleep(0.01)
sys.exit(int(sys.argv[1]))
"""
RULE = """
from pathlib import Path
from leadline.rules import Clear, Needs, Rule

Path(__file__).with_name("imported").touch()

class Mine(Rule):
    def needs(self):
        return Needs.of("losses", "value")

    def evaluate(self, window):
        return Clear()
"""


def run(folder: Path, *words: str) -> Ended:
    clean = environment(XDG_STATE_HOME=str(folder / "state"))
    return finish([*LEADLINE, "run", *words], folder, env=clean)


@pytest.fixture
def started(tmp_path: Path) -> Path:
    """A run with a custom rule and a command, which has failed."""
    (tmp_path / "train.py").write_text(TRAIN)
    (tmp_path / "mine.py").write_text(RULE)
    options = ("--rule", "mine.py:Mine", "--on", "job@*=run_command:touch commanded")
    assert run(tmp_path, "--name", "mine", "--budget", "off", *options, "train.py", "3").status == 3
    took_part(tmp_path)
    return tmp_path / "leadline-runs" / "mine"


def took_part(folder: Path) -> None:
    """Wait until rule and command were executed, and remove their marks."""
    for name in ("imported", "commanded"):
        wait_for((folder / name).exists, name)
        (folder / name).unlink()


def executed(folder: Path) -> list[str]:
    return [name for name in ("imported", "commanded") if (folder / name).exists()]


def test_a_run_that_was_started_here_is_resumed_as_it_was(tmp_path: Path, started: Path) -> None:
    ended = run(tmp_path, "--resume", "mine", "train.py", "0")
    assert ended.status == 0
    assert "left out" not in ended.err
    took_part(tmp_path)


def test_a_run_from_elsewhere_is_resumed_without_what_it_names(tmp_path: Path, started: Path) -> None:
    shutil.rmtree(tmp_path / "state")
    ended = run(tmp_path, "--resume", "mine", "train.py", "3")
    assert ended.status == 3
    (line,) = [line for line in ended.err.splitlines() if "left out" in line]
    assert "mine (mine.py:Mine), on job run_command" in line
    assert "--trust-run" in line
    assert executed(tmp_path) == []
    rules = {rule["name"]: rule for rule in json.loads((started / "rules" / "summary.json").read_text())["rules"]}
    assert (rules["mine"]["status"], rules["mine"]["verdict"]) == ("Stopped", "undecided")
    assert run(tmp_path, "--resume", "mine", "--trust-run", "train.py", "3").status == 3
    took_part(tmp_path)


def test_a_command_that_was_added_to_a_run_of_ours_is_left_out(tmp_path: Path, started: Path) -> None:
    manifest = json.loads((started / "manifest.json").read_text())
    manifest["actions"][0]["parameters"]["command"] = "touch commanded other"
    (started / "manifest.json").write_text(json.dumps(manifest))
    ended = run(tmp_path, "--resume", "mine", "train.py", "0")
    assert ended.status == 0
    assert "left out" in ended.err
    assert executed(tmp_path) == []
    assert not (tmp_path / "other").exists()


def test_without_a_state_folder_the_run_itself_is_as_configured(tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text(TRAIN)
    (tmp_path / "mine.py").write_text(RULE)
    (tmp_path / "state").write_text("a file, no folder")
    options = ("--rule", "mine.py:Mine", "--on", "job@*=run_command:touch commanded")
    ended = run(tmp_path, "--budget", "off", *options, "train.py", "0")
    assert ended.status == 0
    assert "left out" not in ended.err
    took_part(tmp_path)
