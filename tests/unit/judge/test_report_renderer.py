"""Reports are rendered beside the judge: not too often, one at a time, and never to its harm."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from leadline.judge.report_renderer import (
    EVERY_SECONDS,
    FIRST_SECONDS,
    LONGEST_SECONDS,
    SHARE,
    ReportRenderer,
    printing,
)

PATIENCE_SECONDS = 60.0


class Hand:
    """A clock that is turned by hand."""

    now = 0.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def hand() -> Hand:
    return Hand()


def script(tmp_path: Path, text: str) -> list[str]:
    place = tmp_path / "render.py"
    place.write_text(text)
    return [sys.executable, "-I", "-S", str(place), str(tmp_path / "log")]


def writing(tmp_path: Path, more: str = "") -> list[str]:
    return script(tmp_path, f"import sys, time\nopen(sys.argv[1], 'a').write('x')\n{more}")


def rendered(tmp_path: Path) -> int:
    return len((tmp_path / "log").read_text()) if (tmp_path / "log").exists() else 0


def wait_for(is_so: Callable[[], bool]) -> None:
    until = time.monotonic() + PATIENCE_SECONDS
    while not is_so():
        assert time.monotonic() < until
        time.sleep(0.01)


def until_idle(printer: ReportRenderer) -> None:
    def turn() -> bool:
        printer.turn()
        return not printer.is_busy

    wait_for(turn)


def test_nothing_is_rendered_before_its_time_or_without_a_wish(tmp_path: Path, hand: Hand) -> None:
    printer = ReportRenderer("a report", writing(tmp_path), pytest.fail, hand)
    hand.now = FIRST_SECONDS
    printer.turn()
    assert not printer.is_busy
    printer.want()
    hand.now = FIRST_SECONDS - 0.1
    printer.turn()
    assert not printer.is_busy
    hand.now = FIRST_SECONDS
    printer.turn()
    assert printer.is_busy
    until_idle(printer)
    assert rendered(tmp_path) == 1


def test_what_is_wanted_meanwhile_waits_until_it_is_due_again(tmp_path: Path, hand: Hand) -> None:
    printer = ReportRenderer("a report", writing(tmp_path), pytest.fail, hand)
    printer.want()
    hand.now = FIRST_SECONDS
    printer.turn()
    printer.want()
    printer.turn()
    until_idle(printer)
    assert rendered(tmp_path) == 1
    hand.now += EVERY_SECONDS - 0.1
    printer.turn()
    assert not printer.is_busy
    hand.now += 0.2
    printer.turn()
    until_idle(printer)
    assert (rendered(tmp_path), printer.is_wanted) == (2, False)


def test_one_that_takes_long_is_left_alone_for_longer(tmp_path: Path, hand: Hand) -> None:
    go_on = tmp_path / "go"
    more = f"import os\nwhile not os.path.exists({str(go_on)!r}): time.sleep(0.01)"
    printer = ReportRenderer("a report", writing(tmp_path, more), pytest.fail, hand)
    printer.want()
    hand.now = FIRST_SECONDS
    printer.turn()
    hand.now += 20.0
    go_on.touch()
    until_idle(printer)
    printer.want()
    hand.now += SHARE * 20.0 - 1.0
    printer.turn()
    assert not printer.is_busy
    hand.now += 1.1
    printer.turn()
    assert printer.is_busy
    until_idle(printer)


def test_the_last_is_rendered_at_once(tmp_path: Path, hand: Hand) -> None:
    printer = ReportRenderer("a report", writing(tmp_path), pytest.fail, hand)
    printer.want()
    printer.turn(is_last=True)
    assert printer.is_busy
    until_idle(printer)
    assert rendered(tmp_path) == 1


def test_one_that_hangs_is_ended_and_nobody_waits_for_it(tmp_path: Path, hand: Hand) -> None:
    printer = ReportRenderer("a report", writing(tmp_path, "time.sleep(600)"), pytest.fail, hand)
    printer.want()
    printer.turn(is_last=True)
    hand.now += LONGEST_SECONDS
    printer.turn()
    assert printer.is_busy
    hand.now += 1.0
    printer.turn()
    assert not printer.is_busy


def test_why_it_failed_is_said_once(tmp_path: Path, hand: Hand) -> None:
    said: list[str] = []
    more = "sys.stderr.write('Traceback\\nleadline: no plotly here\\n'); sys.exit(2)"
    printer = ReportRenderer("profiling report", writing(tmp_path, more), said.append, hand)
    for _ in range(2):
        printer.want()
        printer.turn(is_last=True)
        until_idle(printer)
    assert rendered(tmp_path) == 2
    assert said == ["the profiling report could not be made: no plotly here"]


def test_a_command_that_is_not_there_is_said_and_harms_nobody(tmp_path: Path, hand: Hand) -> None:
    said: list[str] = []
    printer = ReportRenderer("a report", [str(tmp_path / "nothing")], said.append, hand)
    printer.want()
    printer.turn(is_last=True)
    assert not printer.is_busy
    assert said == ["the a report could not be made: No such file or directory"]


def test_much_that_is_said_does_not_stop_it(tmp_path: Path, hand: Hand) -> None:
    said: list[str] = []
    more = "sys.stderr.write('w' * 1_000_000 + '\\n' + 'y' * 5000 + '\\n'); sys.exit(1)"
    printer = ReportRenderer("a report", writing(tmp_path, more), said.append, hand)
    printer.want()
    printer.turn(is_last=True)
    until_idle(printer)
    assert len(said) == 1
    assert len(said[0]) < 400


def test_closing_ends_what_is_under_way(tmp_path: Path, hand: Hand) -> None:
    printer = ReportRenderer("a report", writing(tmp_path, "time.sleep(600)"), pytest.fail, hand)
    printer.want()
    printer.turn(is_last=True)
    printer.close()
    assert not printer.is_busy
    printer.close()


def test_the_command_renders_by_a_module_of_the_judge() -> None:
    assert printing("/run", "profiling")[1:] == ["-m", "leadline.judge.render_report", "/run", "profiling"]
