"""A run that is interrupted by SIGKILL and resumed twice reads as one: it equals one that was never interrupted."""

from __future__ import annotations

import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from launching import CONSOLE_SCRIPT, Ended, environment, finish, script, show, wait_for, watched

import leadline
from leadline.charts.catalog import CATALOG
from leadline.reader.run import Run
from leadline.records.names import JOB_ENDED
from leadline.records.request import Stop
from leadline.store.control import new_request_id, write_request
from leadline.store.documents import read_document, write_document
from leadline.store.run_state import read_status
from leadline.training.bootstrap import SITE

STEPS = "60"
KILLED_AT = (18, 31)
FIRST_STEPS = (15, 30)
"""Of the second and third process: the latest checkpoint before each end."""
LOSS = "MSELoss_output_0"
OPTIONS = (
    "--name",
    "training",
    "--capture",
    "gradients:every=3,raw=true",
    "--rule",
    "loss_not_decreasing:num_steps=12,diff_percent=60,mode=train",
    "--rule",
    "overfit:patience=4,ratio_threshold=0.05",
)


@dataclass(frozen=True)
class Trainings:
    """A training that was resumed twice, and its twin that was not interrupted."""

    resumed: Run
    whole: Run
    shown: Ended


@pytest.fixture(scope="module")
def trainings(tmp_path_factory: pytest.TempPathFactory) -> Trainings:
    """Interrupt a run, resume it by ``LEADLINE_RUN``, interrupt it again, and resume it by ``--resume``."""
    folder, other = tmp_path_factory.mktemp("resumed"), tmp_path_factory.mktemp("whole")
    job = script("resumed.py")
    path = folder / "runs" / "training"
    assert watched(OPTIONS, job, STEPS, str(KILLED_AT[0]), "Adam", folder=folder).status == 137
    joined = environment(LEADLINE_RUN=str(path), PYTHONPATH=SITE)
    killed = finish([sys.executable, job, STEPS, str(KILLED_AT[1]), "Adam"], folder, env=joined)
    assert killed.status == -9, killed.err
    wait_for(lambda: read_status(str(path)).status in JOB_ENDED, "the end of the second process's agent")
    write_request(str(path), Stop(new_request_id(), reason="of an earlier process", by="user", time_ns=1))
    words = [CONSOLE_SCRIPT, "run", "--out", "runs", "--resume", "training", "--", job, STEPS, "-1", "Adam"]
    last = finish(words, folder, env=environment())
    assert last.status == 0, last.err
    whole = watched(OPTIONS, job, STEPS, "-1", "Adam", folder=other)
    assert whole.status == 0, whole.err
    shown = finish([CONSOLE_SCRIPT, "show", str(path)], folder, env=environment(COLUMNS="160"))
    return Trainings(leadline.open_run(path), leadline.open_run(other / "runs" / "training"), shown)


def rows(run: Run, name: str, statistic: str) -> dict[tuple[str, int, int], float]:
    """Return a statistic by mode, step of the mode, and global step; a repeated step fails."""
    table = run.tensor(name).statistics(statistic).to_pylist()
    found = {(row["mode"], row["mode_step"], row["step"]): row["value"] for row in table}
    assert len(found) == len(table), f"{name} has a step twice"
    return found


@pytest.mark.slow
def test_every_value_equals_that_of_the_training_that_was_not_interrupted(trainings: Trainings) -> None:
    resumed, whole = trainings.resumed, trainings.whole
    assert resumed.status == "Completed"
    assert resumed.damage == []
    assert (resumed.steps(), resumed.steps("eval")) == (whole.steps(), whole.steps("eval"))
    assert resumed.workers() == [next(iter(resumed.worker_documents()))]
    compared = 0
    for name in (LOSS, *whole.tensor_names("gradients"), *whole.tensor_names("weights")):
        for statistic in whole.tensor(name).statistic_names():
            if statistic in ("histogram", "unit_activity"):
                continue
            expected, found = rows(whole, name, statistic), rows(resumed, name, statistic)
            first = {key: found.pop(key) for key in list(found) if key not in expected}
            assert {key[1] for key in first} <= set(FIRST_STEPS)  # the first step of a process is captured like step 0
            assert found == expected
            compared += len(found)
    assert compared > 500


@pytest.mark.slow
def test_raw_tensors_of_repeated_steps_are_those_of_the_last_process(trainings: Trainings) -> None:
    name = trainings.whole.tensor_names("gradients")[0]
    for step in (12, 15, 18, 30, 33, 57):
        expected = trainings.whole.tensor(name).value(step)
        assert (trainings.resumed.tensor(name).value(step) == expected).all()
    stored = [tensor.step for tensor in trainings.resumed.archive.stored[name]]
    assert len(stored) == len(set(stored))


@pytest.mark.slow
def test_rules_with_memory_continue(trainings: Trainings) -> None:
    def findings(run: Run) -> list[tuple[Any, ...]]:
        keys = ("rule", "step", "global_step", "last_step", "message")
        return [tuple(row[key] for key in keys) for row in run.findings().to_pylist()]

    found = findings(trainings.resumed)
    assert found == findings(trainings.whole)
    assert {rule for rule, *_ in found} >= {"loss_not_decreasing", "overfit"}
    assert any(step > KILLED_AT[1] for _, step, *_ in found)


@pytest.mark.slow
def test_interruptions_are_shown(trainings: Trainings) -> None:
    run = trainings.resumed
    assert [(what.status, what.steps, what.resumed_step) for what in run.interruptions()] == [
        ("Failed", killed_at, first) for killed_at, first in zip(KILLED_AT, FIRST_STEPS, strict=True)
    ]
    assert trainings.whole.interruptions() == []
    assert "at step 17; resumed at step 15" in trainings.shown.out
    assert "at step 30; resumed at step 30" in trainings.shown.out
    assert "started over" not in trainings.shown.out
    data = "Sequential_input_0"
    assert all(len(run.tensor(data).statistic_array("fingerprints", step)) for step in FIRST_STEPS), "of first batches"
    told = show(run.path)
    assert [what["resumed_step"] for what in told["interruptions"]] == [*FIRST_STEPS]
    assert told["steps"] == {"train": int(STEPS), "eval": 7}
    figure = CATALOG["scalar"](run, LOSS)
    assert [shape.x0 for shape in figure.layout.shapes if shape.name == "interruption"] == [*FIRST_STEPS]


@pytest.mark.slow
def test_what_cannot_be_resumed_is_refused_in_one_line(trainings: Trainings) -> None:
    folder = Path(trainings.resumed.path).parents[1]

    def refused(*options: str) -> str:
        words = [CONSOLE_SCRIPT, "run", "--out", "runs", *options, "--", script("resumed.py"), "1", "-1", "Adam"]
        ended = finish(words, folder, env=environment())
        assert (ended.status, ended.err.strip().count("\n")) == (2, 0), ended.err
        return ended.err

    before = read_document(f"{trainings.resumed.path}/incarnations.json")
    path = f"{trainings.whole.path}/status.json"
    document = read_document(path)
    write_document(path, document | {"status": "Stopped", "stopped_by": "rule:loss_spike"})
    assert "loss_spike has stopped it" in refused("--resume", trainings.whole.path)
    write_document(path, document | {"status": "Starting", "agent_pid": None})
    assert "it is Starting" in refused("--resume", trainings.whole.path)
    assert "there is no run named 'trainings'" in refused("--resume", "trainings")
    assert "--resume-step -1" in refused("--resume", "training", "--resume-step", "-1")
    assert "leave out the other options" in refused("--resume", "training", "--preset", "light")
    assert "--resume RUN" in refused("--resume-step", "7")
    assert read_document(f"{trainings.resumed.path}/incarnations.json") == before
