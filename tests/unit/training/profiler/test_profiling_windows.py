"""Profile windows open and close at their steps, one per slot at a time, and report their outcomes."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from leadline.instrumentation.recording import Finish, ProfileUnavailableError
from leadline.instrumentation.step_context import StepContext
from leadline.records.profile_window import ProfileWindow
from leadline.store import layout
from leadline.store.documents import read_document
from leadline.training.profiler.profile_windows import ProfileWindows

SECOND_NS = 1_000_000_000


class FakeRecording:
    """A recording that logs its calls."""

    def __init__(self, window: ProfileWindow, log: list[str]) -> None:
        self.notes: list[str] = ["a note"]
        self._name, self._log = window.id, log
        self._is_refused = window.timer == "off_cpu"

    def begin(self, step: int) -> None:
        if self._is_refused:
            raise ProfileUnavailableError("another profiler is active")
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


class WindowsFixture:
    """Profile windows with a clock set by the test."""

    def __init__(self, run: Path) -> None:
        self.run, self.log, self.outcomes, self.now_ns = run, [], [], 0  # type: ignore[var-annotated]
        openers = dict.fromkeys(("detailed", "cprofile", "dataloader"), self._open)
        self.windows = ProfileWindows(
            StepContext(str(run), lambda: "rank0-7"),
            openers,
            started_ns=0,
            report=self._report,
            clock=self._clock,  # type: ignore[arg-type]
            wall_clock=self._clock,
        )

    def _clock(self) -> int:
        return self.now_ns

    def _open(self, window: ProfileWindow) -> FakeRecording:
        return FakeRecording(window, self.log)

    def _report(self, window: str, line: str) -> None:
        self.outcomes.append(f"{window}: {line}")

    def walk(self, first: int, end: int) -> None:
        for step in range(first, end):
            self.windows.begin_step(step)

    def document(self, window: str) -> dict[str, Any]:
        self.windows.close(99)
        document = read_document(str(self.run / layout.profile("rank0-7", window) / layout.WINDOW))
        assert isinstance(document, dict)
        return document


@pytest.fixture
def profiling(tmp_path: Path) -> WindowsFixture:
    return WindowsFixture(tmp_path)


def test_a_window_covers_exactly_its_steps(profiling: WindowsFixture) -> None:
    assert profiling.windows.add(ProfileWindow("detailed", step=3, steps=2, id="d"), 0) == ""
    profiling.walk(0, 5)
    assert profiling.log == ["d begins 3", "d enters 4"]
    profiling.walk(5, 8)
    assert profiling.log[2:] == ["d ends 5"]
    assert profiling.windows.is_idle
    document = profiling.document("d")
    assert (document["first_step"], document["end_step"], document["bytes"], document["files"]) == (3, 5, 5, ["data"])
    assert document["notes"] == ["a note"]
    assert profiling.outcomes == ["d: recorded: steps 3 to 4, 5 bytes"]


def test_the_default_is_one_step_from_the_next(profiling: WindowsFixture) -> None:
    profiling.walk(0, 7)
    profiling.windows.add(ProfileWindow("detailed", id="d"), 7)
    profiling.walk(7, 10)
    assert profiling.log == ["d begins 7", "d ends 8"]


def test_a_step_that_has_begun_is_refused(profiling: WindowsFixture) -> None:
    refusal = profiling.windows.add(ProfileWindow("detailed", step=3, id="d"), 7)
    assert refusal == "step 3 has begun already: step 7 comes next"
    assert profiling.windows.is_idle


def test_an_unknown_kind_is_refused(profiling: WindowsFixture) -> None:
    assert profiling.windows.add(ProfileWindow("pyinstrument", id="p"), 0) == "pyinstrument cannot be recorded here"


def test_only_windows_of_one_slot_wait_for_each_other(profiling: WindowsFixture) -> None:
    for window in (
        ProfileWindow("detailed", step=2, steps=2, id="d"),
        ProfileWindow("cprofile", step=3, id="p"),
        ProfileWindow("dataloader", step=3, id="l"),
    ):
        profiling.windows.add(window, 0)
    profiling.walk(0, 7)
    begun = [line for line in profiling.log if "begins" in line]
    assert begun == ["d begins 2", "l begins 3", "p begins 4"]
    assert profiling.document("p")["notes"][0] == "began at step 4: another window was open"


def test_a_detailed_window_does_not_begin_where_another_ends(profiling: WindowsFixture) -> None:
    """Compiled code around the end of the step would begin in one session of PyTorch's profiler and end in another."""
    for step, name in ((2, "d1"), (4, "d2")):
        profiling.windows.add(ProfileWindow("detailed", step=step, steps=2, id=name), 0)
    profiling.windows.add(ProfileWindow("cprofile", step=7, id="p"), 0)
    profiling.walk(0, 10)
    assert [line for line in profiling.log if "enters" not in line] == [
        "d1 begins 2",
        "d1 ends 4",
        "d2 begins 5",
        "d2 ends 7",
        "p begins 7",
        "p ends 8",
    ]


def test_a_window_by_time_begins_and_ends_at_steps(profiling: WindowsFixture) -> None:
    profiling.windows.add(ProfileWindow("detailed", after_seconds=2.0, seconds=3.0, id="d"), 0)
    for step in range(10):
        profiling.now_ns = int(0.7 * step * SECOND_NS)
        profiling.windows.begin_step(step)
    assert profiling.log[0] == "d begins 3"
    assert profiling.log[-1] == "d ends 8"


def test_the_length_of_a_window_is_limited(profiling: WindowsFixture) -> None:
    profiling.windows.add(ProfileWindow("detailed", steps=10_000, id="d"), 0)
    profiling.windows.add(ProfileWindow("dataloader", seconds=1e9, id="l"), 0)
    profiling.walk(0, 150)
    assert {"d ends 100", "l ends 100"} <= set(profiling.log)


def test_a_recording_may_refuse(profiling: WindowsFixture) -> None:
    profiling.windows.add(ProfileWindow("cprofile", timer="off_cpu", id="p"), 0)
    profiling.walk(0, 3)
    assert profiling.outcomes == ["p: refused: another profiler is active"]
    assert profiling.windows.is_idle


def test_a_failed_write_is_reported_and_leaves_no_document(profiling: WindowsFixture, tmp_path: Path) -> None:
    profiling.windows.add(ProfileWindow("detailed", id="broken"), 0)
    profiling.walk(0, 3)
    profiling.windows.close(3)
    assert profiling.outcomes == ["broken: failed: ValueError: no such table"]
    assert not (tmp_path / layout.profile("rank0-7", "broken") / layout.WINDOW).exists()


def test_the_end_of_the_training_closes_windows_and_reports_pending_ones(profiling: WindowsFixture) -> None:
    profiling.windows.add(ProfileWindow("detailed", step=2, steps=50, id="d"), 0)
    profiling.windows.add(ProfileWindow("dataloader", step=500, id="l"), 0)
    profiling.walk(0, 4)
    profiling.windows.close(4)
    assert profiling.log[-1] == "d ends 4"
    assert set(profiling.outcomes) == {
        "d: recorded: steps 2 to 3, 5 bytes",
        "l: not recorded: the training ended first",
    }


def test_the_process_start_and_end_are_windows_of_their_own(profiling: WindowsFixture) -> None:
    profiling.windows.add(ProfileWindow("cprofile", part="start", id="s"), 0)
    profiling.windows.add(ProfileWindow("cprofile", part="end", id="e"), 0)
    profiling.windows.begin_start()
    profiling.windows.end_start()
    profiling.walk(1, 3)
    assert profiling.windows.is_idle
    profiling.windows.begin_end(3)
    profiling.windows.close(3)
    assert [line for line in profiling.log if "begins" in line or "ends" in line] == [
        "s begins 0",
        "s ends 0",
        "e begins 3",
        "e ends 3",
    ]


def test_operators_of_the_start_wait_for_a_framework(profiling: WindowsFixture) -> None:
    profiling.windows.add(ProfileWindow("detailed", part="start", id="d"), 0)
    profiling.windows.add(ProfileWindow("detailed", step=0, id="first"), 0)
    profiling.windows.begin_start()
    assert profiling.log == []
    profiling.windows.begin_start(has_framework=True)
    profiling.windows.begin_start(has_framework=True)  # another framework
    profiling.windows.end_start()
    profiling.walk(0, 3)
    begun = [line for line in profiling.log if "begins" in line or "ends" in line]
    assert begun == ["d begins 0", "d ends 0", "first begins 1", "first ends 2"]


def test_operators_of_the_start_without_a_framework(profiling: WindowsFixture) -> None:
    profiling.windows.add(ProfileWindow("detailed", part="start", id="d"), 0)
    profiling.windows.begin_start()
    profiling.windows.end_start()
    assert (profiling.log, profiling.windows.is_idle) == ([], True)
    (outcome,) = profiling.outcomes
    assert outcome.startswith("d: not recorded: no framework")


def test_an_end_that_is_followed_by_a_step_is_discarded(profiling: WindowsFixture) -> None:
    profiling.windows.add(ProfileWindow("cprofile", part="end", id="e"), 0)
    profiling.walk(1, 3)
    profiling.windows.begin_end(3)
    profiling.windows.mark("backward")
    profiling.walk(4, 6)
    assert profiling.outcomes == []
    profiling.windows.begin_end(6)
    assert profiling.document("e")["first_step"] == 6
    assert [line.partition(":")[2] for line in profiling.outcomes] == [" recorded: 5 bytes"]


def test_an_end_window_that_never_opened_is_reported(profiling: WindowsFixture) -> None:
    profiling.windows.add(ProfileWindow("cprofile", part="end", id="e"), 0)
    profiling.windows.close(3)
    assert profiling.outcomes == ["e: not recorded: the training ended first"]


def test_a_deleted_run_is_not_recreated(tmp_path: Path) -> None:
    profiling = WindowsFixture(tmp_path / "gone")
    profiling.windows.add(ProfileWindow("detailed", id="d"), 0)
    profiling.walk(0, 2)
    profiling.windows.close(2)
    assert profiling.outcomes[0].startswith("d: failed: FileNotFoundError")
    assert not (tmp_path / "gone").exists()


def test_a_window_is_requested_by_train_step(profiling: WindowsFixture) -> None:
    clock = profiling.windows._context.clock
    profiling.windows.add(ProfileWindow("detailed", step=3, steps=2, id="d"), 0)
    for mode in ("train", "train", "eval", "eval", "train", "train", "eval", "train"):
        profiling.windows.begin_step(clock.step)
        clock.tick(mode)
    assert profiling.log == ["d begins 5", "d enters 6", "d ends 7"]
    assert profiling.windows.add(ProfileWindow("detailed", step=4, id="late"), clock.step) == (
        "step 4 has begun already: step 5 comes next"
    )
    document = profiling.document("d")
    assert (document["first_step"], document["end_step"]) == (5, 7)
    assert (document["first_train_step"], document["end_train_step"]) == (3, 4)
    assert profiling.outcomes == ["d: recorded: steps 3 to 3, 5 bytes"]
