"""Reports rendered beside the judge: not too often, one at a time, and without affecting it."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from leadline.judge.report_renderer import (
    FIRST_AFTER_SECONDS,
    MAX_SECONDS,
    MIN_INTERVAL_SECONDS,
    SHARE,
    ReportRenderer,
    render_command,
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


def until_idle(renderer: ReportRenderer) -> None:
    def advance() -> bool:
        renderer.advance()
        return not renderer.is_busy

    wait_for(advance)


def test_nothing_is_rendered_too_early_or_without_new_data(tmp_path: Path, hand: Hand) -> None:
    renderer = ReportRenderer("a report", writing(tmp_path), pytest.fail, hand)
    hand.now = FIRST_AFTER_SECONDS
    renderer.advance()
    assert not renderer.is_busy
    renderer.mark_outdated()
    hand.now = FIRST_AFTER_SECONDS - 0.1
    renderer.advance()
    assert not renderer.is_busy
    hand.now = FIRST_AFTER_SECONDS
    renderer.advance()
    assert renderer.is_busy
    until_idle(renderer)
    assert rendered(tmp_path) == 1


def test_a_report_outdated_meanwhile_is_rendered_after_the_interval(tmp_path: Path, hand: Hand) -> None:
    renderer = ReportRenderer("a report", writing(tmp_path), pytest.fail, hand)
    renderer.mark_outdated()
    hand.now = FIRST_AFTER_SECONDS
    renderer.advance()
    renderer.mark_outdated()
    renderer.advance()
    until_idle(renderer)
    assert rendered(tmp_path) == 1
    hand.now += MIN_INTERVAL_SECONDS - 0.1
    renderer.advance()
    assert not renderer.is_busy
    hand.now += 0.2
    renderer.advance()
    until_idle(renderer)
    assert (rendered(tmp_path), renderer.is_outdated) == (2, False)


def test_a_slow_report_is_rendered_less_often(tmp_path: Path, hand: Hand) -> None:
    go_on = tmp_path / "go"
    more = f"import os\nwhile not os.path.exists({str(go_on)!r}): time.sleep(0.01)"
    renderer = ReportRenderer("a report", writing(tmp_path, more), pytest.fail, hand)
    renderer.mark_outdated()
    hand.now = FIRST_AFTER_SECONDS
    renderer.advance()
    hand.now += 20.0
    go_on.touch()
    until_idle(renderer)
    renderer.mark_outdated()
    hand.now += SHARE * 20.0 - 1.0
    renderer.advance()
    assert not renderer.is_busy
    hand.now += 1.1
    renderer.advance()
    assert renderer.is_busy
    until_idle(renderer)


def test_the_last_report_is_rendered_at_once(tmp_path: Path, hand: Hand) -> None:
    renderer = ReportRenderer("a report", writing(tmp_path), pytest.fail, hand)
    renderer.mark_outdated()
    renderer.advance(is_last=True)
    assert renderer.is_busy
    until_idle(renderer)
    assert rendered(tmp_path) == 1


def test_a_rendering_that_hangs_is_killed_and_not_awaited(tmp_path: Path, hand: Hand) -> None:
    renderer = ReportRenderer("a report", writing(tmp_path, "time.sleep(600)"), pytest.fail, hand)
    renderer.mark_outdated()
    renderer.advance(is_last=True)
    hand.now += MAX_SECONDS - 1.0
    renderer.advance()
    assert renderer.is_busy
    hand.now += 1.0
    renderer.advance()
    assert not renderer.is_busy


def test_a_failure_is_reported_once(tmp_path: Path, hand: Hand) -> None:
    warnings: list[str] = []
    more = "sys.stderr.write('Traceback\\nleadline: no plotly here\\n'); sys.exit(2)"
    renderer = ReportRenderer("profiling report", writing(tmp_path, more), warnings.append, hand)
    for _ in range(2):
        renderer.mark_outdated()
        renderer.advance(is_last=True)
        until_idle(renderer)
    assert rendered(tmp_path) == 2
    assert warnings == ["could not render the profiling report: no plotly here"]


def test_a_missing_command_is_reported_and_affects_nothing_else(tmp_path: Path, hand: Hand) -> None:
    warnings: list[str] = []
    renderer = ReportRenderer("a report", [str(tmp_path / "nothing")], warnings.append, hand)
    renderer.mark_outdated()
    renderer.advance(is_last=True)
    assert not renderer.is_busy
    assert warnings == ["could not render the a report: No such file or directory"]


def test_a_long_error_does_not_block_the_rendering(tmp_path: Path, hand: Hand) -> None:
    warnings: list[str] = []
    more = "sys.stderr.write('w' * 1_000_000 + '\\n' + 'y' * 5000 + '\\n'); sys.exit(1)"
    renderer = ReportRenderer("a report", writing(tmp_path, more), warnings.append, hand)
    renderer.mark_outdated()
    renderer.advance(is_last=True)
    until_idle(renderer)
    assert len(warnings) == 1
    assert len(warnings[0]) < 400


def test_closing_kills_the_running_process(tmp_path: Path, hand: Hand) -> None:
    renderer = ReportRenderer("a report", writing(tmp_path, "time.sleep(600)"), pytest.fail, hand)
    renderer.mark_outdated()
    renderer.advance(is_last=True)
    renderer.close()
    assert not renderer.is_busy
    renderer.close()


def test_the_command_renders_a_report_of_the_run() -> None:
    assert render_command("/run", "profiling")[1:] == ["-P", "-m", "leadline.reports", "/run", "profiling"]


def test_a_report_that_is_not_complete_in_time_is_reported(tmp_path: Path) -> None:
    said: list[str] = []
    renderer = ReportRenderer("profiling report", writing(tmp_path, "time.sleep(100)"), said.append)
    renderer.mark_outdated()
    renderer.advance(is_last=True)
    assert renderer.is_awaited(3600.0)
    wait_for(lambda: renderer.advance(is_last=True) or not renderer.is_awaited(0.01))
    renderer.give_up()
    renderer.close()
    assert said == [
        "could not render the profiling report: it was not complete in time; "
        "leadline report renders one of the whole run"
    ]


def test_a_report_that_is_complete_is_not_given_up(tmp_path: Path) -> None:
    said: list[str] = []
    renderer = ReportRenderer("profiling report", writing(tmp_path), said.append)
    renderer.mark_outdated()
    wait_for(lambda: renderer.advance(is_last=True) or not renderer.is_awaited(3600.0))
    renderer.give_up()
    renderer.close()
    assert (said, rendered(tmp_path)) == ([], 1)
