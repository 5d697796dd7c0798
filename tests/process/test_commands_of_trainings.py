"""Commands run on a finding of a real training: commands that succeed, fail, hang, and outlive the training."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from launching import LEADLINE, Ended, environment, finish, script, show, watched
from own_judge import judge_of

from leadline.store.documents import read_lines

RULES = script("steered_rules.py")
HIGH = ("--no-default-rules", "--rule", f"high={RULES}:High")


def train(folder: Path, *commands: str, **environment: str) -> Ended:
    """Run a training with a high loss from the start until a command creates the file ``end``."""
    (folder / "high").touch()
    options = [word for command in commands for word in ("--on", f"high=run_command:{command}")]
    return watched([*HIGH, *options], script("steered.py"), folder=folder, **environment)


def final(ended: Ended) -> list[dict[str, Any]]:
    """Return the last log line of each action."""
    lines = read_lines(str(Path(ended.run.uri) / "actions.jsonl"))
    return list({line["action"]: line for line in lines}.values())


@pytest.mark.slow
def test_commands_run_on_a_finding_and_their_outcomes_are_reported(tmp_path: Path) -> None:
    ended = train(
        tmp_path,
        'cat > notice.json; printf %s "$LEADLINE_EVENT_RULE at $LEADLINE_EVENT_STEP for $TOKEN" > event',
        "echo no such file >&2; exit 3",
        "exec sleep 600,timeout=0.5",
        "touch end",
        TOKEN="s3cret-of-the-user",
    )
    assert ended.status == 0, ended.err
    notification = json.loads((tmp_path / "notice.json").read_text())
    step = notification["step"]
    assert (notification["kind"], notification["rule"], notification["run"]) == (
        "finding",
        "high",
        Path(ended.run.uri).name,
    )
    assert (tmp_path / "event").read_text() == f"high at {step} for s3cret-of-the-user"
    done, failed, hung, last = final(ended)
    assert (done["state"], failed["state"], hung["state"], last["state"]) == ("done", "failed", "failed", "done")
    assert done["outcome"].startswith("exit status 0 after ")
    assert failed["outcome"].startswith("failed: exit status 3 after ")
    assert hung["outcome"] == "failed: timed out after 500 ms"
    printed = next(Path(ended.run.uri).glob("commands/*")).parent / f"{failed['outcome'].rpartition('/')[2]}"
    assert printed.read_text() == "no such file\n"
    log = "\n".join(ended.said)
    assert "run_command:exec sleep 600,timeout=0.5 failed: timed out after 500 ms" in log
    assert "run_command:echo no such file >&2; exit 3 failed: exit status 3" in log
    outcomes = [action["outcome"] for action in show(ended.run.uri)["actions"]]
    assert hung["outcome"] in outcomes
    _check_that_no_file_has(b"s3cret-of-the-user", Path(ended.run.uri))


def _check_that_no_file_has(secret: bytes, folder: Path) -> None:
    for path in folder.rglob("*"):
        assert not path.is_file() or secret not in path.read_bytes(), path


@pytest.mark.slow
def test_a_command_that_outlives_the_training_is_awaited(tmp_path: Path) -> None:
    ended = train(tmp_path, "touch end; sleep 3; echo whole > done")
    assert ended.status == 0, ended.err
    assert (tmp_path / "done").read_text() == "whole\n"
    (command,) = final(ended)
    assert command["state"] == "done"
    assert command["outcome"].startswith("exit status 0 after ")


@pytest.mark.slow
def test_opening_a_run_later_executes_nothing(tmp_path: Path) -> None:
    ended = train(tmp_path, "echo once >> count; touch end")
    run = str(ended.run.uri)
    for words in (["show", run], ["judge", run], ["judge", run, "--follow"]):
        assert finish([*LEADLINE, *words], tmp_path, env=environment()).status == 0, words
    again = finish(judge_of(run, "--follow"), tmp_path, env=environment())
    assert again.status == 0, again.err
    assert (tmp_path / "count").read_text() == "once\n"
