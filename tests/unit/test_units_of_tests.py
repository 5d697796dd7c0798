"""Which tests run together in one worker, and which units come first."""

from __future__ import annotations

import json
import time
from pathlib import Path

import pytest
import units
import within

SHARING = '@pytest.fixture(scope="module")\ndef run(): ...\n'

KEEPING = "@cache\ndef watched(): ...\n"
RECORDING = "ended, folder = recorded([sys.executable])\n"
FILES = (
    ("process/test_alone", ""),
    ("process/test_shared", SHARING),
    ("process/test_keeping", KEEPING),
    ("process/test_recording", RECORDING),
    ("unit/test_quick", ""),
)


@pytest.fixture
def project(tmp_path: Path) -> Path:
    for name, text in FILES:
        file = tmp_path / "tests" / f"{name}.py"
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)
    browser = tmp_path / "tests" / "browser"
    browser.mkdir()
    (browser / "conftest.py").write_text(SHARING)
    (browser / "test_page.py").write_text("")
    return tmp_path


@pytest.mark.parametrize(
    ("test", "unit"),
    [
        ("tests/process/test_alone.py::test_it[a-b::c]", "tests/process/test_alone.py::test_it"),
        ("tests/process/test_shared.py::test_it", "tests/process/test_shared.py"),
        ("tests/process/test_keeping.py::test_it", "tests/process/test_keeping.py"),
        ("tests/process/test_recording.py::test_it", "tests/process/test_recording.py"),
        ("tests/browser/test_page.py::test_it", "tests/browser/test_page.py"),
        ("tests/unit/test_quick.py::test_it", "tests/unit/test_quick.py"),
    ],
)
def test_tests_that_share_a_fixture_run_together(project: Path, test: str, unit: str) -> None:
    assert units.unit_of(test, project) == unit


def test_new_units_that_start_processes_are_expected_to_take_longer() -> None:
    assert units.expected_seconds("tests/process/test_of_tomorrow.py") > units.expected_seconds(
        "tests/unit/test_new.py"
    )


def test_the_recorded_units_exist() -> None:
    root = Path(__file__).parents[2]
    recorded = json.loads(units.DURATIONS.read_text())
    assert recorded
    assert [unit for unit in recorded if not (root / unit.partition("::")[0]).is_file()] == []


@pytest.mark.parametrize("available", [30.0, 55.0, 130.0, 400.0])
def test_all_units_run_within_the_days_of_all(available: float) -> None:
    seconds = {f"tests/process/test_{number}.py": float(number) for number in range(1, 31)}
    days = within.days_of_all(sum(seconds.values()), available)
    for first in (20_000, 20_786):
        chosen = [within.of_the_day(seconds, available, first + day) for day in range(days)]
        assert set.union(*chosen) == set(seconds)
        assert max(sum(map(seconds.__getitem__, of_day)) for of_day in chosen) <= available + max(seconds.values())


def test_with_time_for_all_every_unit_runs() -> None:
    seconds = {"tests/process/test_a.py": 10.0, "tests/process/test_b.py": 20.0}
    assert within.of_the_day(seconds, 30.0, 7) == set(seconds)


@pytest.mark.parametrize(
    ("marker", "seconds_left", "is_skipped"), [("slow", -1, True), ("slow", 60, False), ("", -1, False)]
)
def test_no_slow_test_begins_too_late(
    marker: str, seconds_left: float, is_skipped: bool, request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(within.VARIABLE, f"3600 20786 {time.time() + seconds_left:.0f}")
    monkeypatch.setattr(request.node, "get_closest_marker", lambda name: name == marker or None)
    if is_skipped:
        with pytest.raises(pytest.skip.Exception, match=within.TOO_LATE):
            within.pytest_runtest_setup(request.node)
    else:
        within.pytest_runtest_setup(request.node)
