"""Unusual ends and starts of a run: a daemon, a late first step, a removed run, hostile texts, mistakes."""

from __future__ import annotations

import os
import shutil
import sys
from pathlib import Path
from typing import Any

import pytest
from launching import CONSOLE_SCRIPT, Ended, environment, finish, rule, script, show, started, wait_for, watched

TRAINING = """
import os, sys, time
import torch
parameter = torch.nn.Parameter(torch.ones(2))
optimizer = torch.optim.SGD([parameter], 0.1)
for step in range(60):
    loss = (parameter ** 2).sum() * (float("nan") if step == 30 else 1.0)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    if step == 40 and sys.argv[1:]:
        open("paused", "w").close()
        while not os.path.exists("go"):
            time.sleep(0.01)
"""
DAEMON = """
import os
if os.fork():
    os._exit(3)
os.setsid()
null = os.open(os.devnull, os.O_RDWR)
for number in range(3):
    os.dup2(null, number)
"""
RULES = '''
import sys, time
from leadline.records.needs import Needs
from leadline.records.verdict import Clear
from leadline.rules.rule import Rule


class Prints(Rule):
    """Prints a megabyte and an escape sequence at every step."""

    def needs(self):
        return Needs.of("losses", "value")

    def evaluate(self, window):
        print("\\x1b[31mred " + "x" * 1_000_000)
        return Clear()
'''


@pytest.fixture(scope="module")
def ended(tmp_path_factory: pytest.TempPathFactory) -> Ended:
    """Train with a rule that prints, in a script whose name begins with a dash; its command has an escape sequence."""
    folder = tmp_path_factory.mktemp("rules")
    (folder / "my_rules.py").write_text(RULES)
    name = "-<b>.py"
    (folder / name).write_text(Path(script("healthy.py")).read_text())
    words = ("--rule", "my_rules.py:Prints")
    return watched(words, sys.executable, f"./{name}", "--steps", "30", "--losses", "\x1b[31mred", folder=folder)


def test_what_a_rule_prints_does_not_flood_the_terminal(ended: Ended) -> None:
    assert ended.status == 0, ended.err
    printed = [line for line in ended.err.splitlines() if line.startswith("leadline  rule prints: ")]
    assert 30 <= len(printed) <= 41
    assert max(map(len, printed)) < 400
    assert printed[0].startswith("leadline  rule prints: ?[31mred xxx")


def test_no_escape_sequence_reaches_the_terminal(ended: Ended, tmp_path: Path) -> None:
    assert "\x1b" not in ended.err
    for words in (["show", ended.run.path], ["show", "--json", ended.run.path], ["ls", str(ended.root)]):
        done = finish([CONSOLE_SCRIPT, *words], tmp_path, env=environment())
        assert done.status == 0, done.err
        assert "\x1b" not in done.out
    assert "?[31mred" in finish([CONSOLE_SCRIPT, "show", ended.run.path], tmp_path, env=environment()).out


def test_the_name_of_a_run_is_no_option(ended: Ended) -> None:
    assert ended.run.name.startswith("b-")


def test_a_daemon_is_captured_and_judged_to_its_end(tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text(DAEMON + TRAINING)
    with started((), "train.py", "paused", folder=tmp_path) as running:
        done = running.wait()
        assert done.status == 3
        assert any(
            "the command has ended with exit 3, but 1 process of it may still train" in line for line in done.said
        )
        assert not any("no training step was seen" in line for line in done.said)
        wait_for((tmp_path / "paused").exists, "the pause")
        assert show(done.run.path)["status"] == "InProgress"
        (tmp_path / "go").touch()
    wait_for(lambda: judged(done.run.path), "the verdicts")
    said: dict[str, Any] = wait_for(lambda: with_finding(done.run.path), "the finding")
    assert (said["status"], said["exit_status"], said["steps"]) == ("Completed", 0, {"train": 60})
    assert rule(said, "exploding_tensor")["findings"][0]["step"] == 30


def with_finding(path: str) -> dict[str, Any] | None:
    said = show(path)
    return said if rule(said, "exploding_tensor")["findings"] else None


def judged(path: str) -> dict[str, Any] | None:
    said = show(path)
    is_judged = all(entry["status"] != "InProgress" for entry in said["rules"])
    return said if said["status"] != "InProgress" and is_judged else None


@pytest.mark.slow
def test_watching_is_said_however_late_the_first_step_comes(tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text("import time; time.sleep(22)\n" + TRAINING)
    ended = watched(("--no-default-rules",), "train.py", folder=tmp_path)
    hint, watching = (position(ended, text) for text in ("stop: leadline stop", "watching"))
    assert hint < watching


def position(ended: Ended, text: str) -> int:
    return next(number for number, line in enumerate(ended.said) if text in line)


def test_a_run_that_is_removed_before_the_first_step(tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text(
        "import os, time\nopen('paused', 'w').close()\nwhile not os.path.exists('go'): time.sleep(0.01)\n" + TRAINING
    )
    with started((), "train.py", folder=tmp_path) as running:
        wait_for((tmp_path / "paused").exists, "the pause")
        shutil.rmtree(tmp_path / "runs")
        wait_for(lambda: "the run directory was removed" in running.err, "the notice of the agent")
        (tmp_path / "go").touch()
        ended = running.wait()
    assert ended.status == 0
    assert any("nothing of this run is left" in line for line in ended.said)
    assert not any("no training step was seen" in line for line in ended.said)


def test_watch_in_a_folder_that_cannot_be_written_warns_and_trains(tmp_path: Path) -> None:
    (tmp_path / "runs").write_text("a file")
    (tmp_path / "train.py").write_text(
        f"import leadline\nassert leadline.watch(out='runs') is None\n{TRAINING}print('end')"
    )
    ended = finish([sys.executable, "train.py"], tmp_path, env=environment())
    assert (ended.status, ended.out) == (0, "end\n")
    assert len(ended.err.splitlines()) == 1
    assert "capture disabled in this process: the run cannot be written at" in ended.err
    assert sorted(os.listdir(tmp_path)) == ["runs", "train.py"]


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        (
            ("run", "--out", "ftp://bucket/x", "train.py"),
            "ftp://bucket/x: unknown scheme 'ftp'; known: s3://, gs://, az://, file://",
        ),
        (("ls", "/nonexistent"), "no such folder: /nonexistent"),
        (("run", "--rule", "similar_across_runs", "train.py"), "similar_across_runs needs the parameter other_trials"),
        (("run", "--on", "loss_spike=stop", "train.py"), "did you mean 'stop_training'?"),
        (("run", "--rule", "batch_size:scan_interval_us=5", "train.py"), "rules are evaluated as data arrives"),
    ],
)
def test_mistakes_are_refused_in_one_line(tmp_path: Path, words: tuple[str, ...], expected: str) -> None:
    (tmp_path / "train.py").write_text("print('trained')")
    ended = finish([CONSOLE_SCRIPT, *words], tmp_path, env=environment())
    assert (ended.status, ended.out, len(ended.err.splitlines())) == (2, "", 1)
    assert expected in ended.err
