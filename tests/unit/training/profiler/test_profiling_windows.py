"""Windows open and close at their steps, one of a slot after the other, and say what became of them."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from leadline.records.profile_window import ProfileWindow
from leadline.store import layout
from leadline.store.documents import read_document
from leadline.training.profiler.profile_windows import ProfileWindows
from leadline.training.recording import Finish, ProfileUnavailableError

SECOND_NS = 1_000_000_000


class Scripted:
    """A recording that notes what it is told."""

    def __init__(self, window: ProfileWindow, log: list[str]) -> None:
        self.notes: list[str] = ["a note"]
        self._name, self._log = window.id, log
        self._is_refused = window.timer == "off_cpu"

    def begin(self, step: int) -> None:
        if self._is_refused:
            raise ProfileUnavailableError("somebody else profiles")
        self._log.append(f"{self._name} begins {step}")

    def enter(self, step: int, ended: str) -> None:
        self._log.append(f"{self._name} enters {step}")

    def mark(self, phase: str) -> None:
        self._log.append(f"{self._name} {phase}")

    def end(self, step: int, ended: str) -> Finish:
        self._log.append(f"{self._name} ends {step}")
        return self._write

    def _write(self, folder: str) -> Sequence[str]:
        if "broken" in self._name:
            raise ValueError("no such table")
        with open(os.path.join(folder, "data"), "w") as file:
            file.write("12345")
        return ["data"]


class Stage:
    """Windows with a clock that is set by hand."""

    def __init__(self, run: Path) -> None:
        self.run, self.log, self.told, self.now_ns = run, [], [], 0  # type: ignore[var-annotated]
        openers = dict.fromkeys(("detailed", "cprofile", "dataloader"), self._open)
        self.windows = ProfileWindows(
            str(run),
            lambda: "rank0-7",
            openers,
            started_ns=0,
            tell=self._tell,
            clock=self._clock,  # type: ignore[arg-type]
            wall_clock=self._clock,
        )

    def _clock(self) -> int:
        return self.now_ns

    def _open(self, window: ProfileWindow) -> Scripted:
        return Scripted(window, self.log)

    def _tell(self, window: str, line: str) -> None:
        self.told.append(f"{window}: {line}")

    def walk(self, first: int, end: int) -> None:
        for step in range(first, end):
            self.windows.begin_step(step)

    def document(self, window: str) -> dict[str, Any]:
        self.windows.close(99)
        found = read_document(str(self.run / layout.profile("rank0-7", window) / layout.WINDOW))
        assert isinstance(found, dict)
        return found


@pytest.fixture
def stage(tmp_path: Path) -> Stage:
    return Stage(tmp_path)


def test_a_window_covers_its_steps_and_no_other(stage: Stage) -> None:
    assert stage.windows.add(ProfileWindow("detailed", step=3, steps=2, id="d"), 0) == ""
    stage.walk(0, 5)
    assert stage.log == ["d begins 3", "d enters 4"]
    stage.walk(5, 8)
    assert stage.log[2:] == ["d ends 5"]
    assert stage.windows.is_calm
    document = stage.document("d")
    assert (document["first_step"], document["end_step"], document["bytes"], document["files"]) == (3, 5, 5, ["data"])
    assert document["notes"] == ["a note"]
    assert stage.told == ["d: recorded: steps 3 to 4, 5 bytes"]


def test_nothing_given_is_the_next_step_and_one(stage: Stage) -> None:
    stage.walk(0, 7)
    stage.windows.add(ProfileWindow("detailed", id="d"), 7)
    stage.walk(7, 10)
    assert stage.log == ["d begins 7", "d ends 8"]


def test_a_step_that_has_begun_is_refused(stage: Stage) -> None:
    said = stage.windows.add(ProfileWindow("detailed", step=3, id="d"), 7)
    assert said == "step 3 has begun already: step 7 comes next"
    assert stage.windows.is_calm


def test_a_kind_that_nobody_records_is_refused(stage: Stage) -> None:
    assert stage.windows.add(ProfileWindow("pyinstrument", id="p"), 0) == "pyinstrument cannot be recorded here"


def test_what_would_measure_each_other_waits_and_the_rest_does_not(stage: Stage) -> None:
    for each in (
        ProfileWindow("detailed", step=2, steps=2, id="d"),
        ProfileWindow("cprofile", step=3, id="p"),
        ProfileWindow("dataloader", step=3, id="l"),
    ):
        stage.windows.add(each, 0)
    stage.walk(0, 7)
    begun = [line for line in stage.log if "begins" in line]
    assert begun == ["d begins 2", "l begins 3", "p begins 4"]
    assert stage.document("p")["notes"][0] == "began at step 4: another window was under way"


def test_a_window_by_time_begins_and_ends_at_steps(stage: Stage) -> None:
    stage.windows.add(ProfileWindow("detailed", after_seconds=2.0, seconds=3.0, id="d"), 0)
    for step in range(10):
        stage.now_ns = int(0.7 * step * SECOND_NS)
        stage.windows.begin_step(step)
    assert stage.log[0] == "d begins 3"
    assert stage.log[-1] == "d ends 8"


def test_no_window_lasts_for_ever(stage: Stage) -> None:
    stage.windows.add(ProfileWindow("detailed", steps=10_000, id="d"), 0)
    stage.windows.add(ProfileWindow("dataloader", seconds=1e9, id="l"), 0)
    stage.walk(0, 150)
    assert {"d ends 100", "l ends 100"} <= set(stage.log)


def test_a_recording_may_refuse(stage: Stage) -> None:
    stage.windows.add(ProfileWindow("cprofile", timer="off_cpu", id="p"), 0)
    stage.walk(0, 3)
    assert stage.told == ["p: refused: somebody else profiles"]
    assert stage.windows.is_calm


def test_what_fails_to_be_written_is_told_and_bears_no_document(stage: Stage, tmp_path: Path) -> None:
    stage.windows.add(ProfileWindow("detailed", id="broken"), 0)
    stage.walk(0, 3)
    stage.windows.close(3)
    assert stage.told == ["broken: failed: ValueError: no such table"]
    assert not (tmp_path / layout.profile("rank0-7", "broken") / layout.WINDOW).exists()


def test_the_end_of_the_training_closes_and_tells(stage: Stage) -> None:
    stage.windows.add(ProfileWindow("detailed", step=2, steps=50, id="d"), 0)
    stage.windows.add(ProfileWindow("dataloader", step=500, id="l"), 0)
    stage.walk(0, 4)
    stage.windows.close(4)
    assert stage.log[-1] == "d ends 4"
    assert set(stage.told) == {"d: recorded: steps 2 to 3, 5 bytes", "l: never came: the training had ended"}


def test_the_process_start_and_end_are_windows_of_their_own(stage: Stage) -> None:
    stage.windows.add(ProfileWindow("cprofile", part="start", id="s"), 0)
    stage.windows.add(ProfileWindow("cprofile", part="end", id="e"), 0)
    stage.windows.begin_start()
    stage.windows.end_start()
    stage.walk(1, 3)
    assert stage.windows.is_calm
    stage.windows.begin_end(3)
    stage.windows.close(3)
    assert [each for each in stage.log if "begins" in each or "ends" in each] == [
        "s begins 0",
        "s ends 0",
        "e begins 3",
        "e ends 3",
    ]


def test_an_end_that_was_none_is_forgotten(stage: Stage) -> None:
    stage.windows.add(ProfileWindow("cprofile", part="end", id="e"), 0)
    stage.walk(1, 3)
    stage.windows.begin_end(3)
    stage.windows.mark("backward")
    stage.walk(4, 6)
    assert stage.told == []
    stage.windows.begin_end(6)
    assert stage.document("e")["first_step"] == 6
    assert [line.partition(":")[2] for line in stage.told] == [" recorded: 5 bytes"]


def test_an_end_that_nobody_saw_coming_is_told(stage: Stage) -> None:
    stage.windows.add(ProfileWindow("cprofile", part="end", id="e"), 0)
    stage.windows.close(3)
    assert stage.told == ["e: never came: the training had ended"]


def test_a_run_that_was_removed_is_not_made_anew(tmp_path: Path) -> None:
    stage = Stage(tmp_path / "gone")
    stage.windows.add(ProfileWindow("detailed", id="d"), 0)
    stage.walk(0, 2)
    stage.windows.close(2)
    assert stage.told[0].startswith("d: failed: FileNotFoundError")
    assert not (tmp_path / "gone").exists()
