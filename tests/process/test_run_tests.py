"""Retry of failed tests by ``scripts/test``: accepted passes, listed tests, and failures that stay failures."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
from launching import PATIENCE

RUN_TESTS = Path(__file__).parents[2] / "scripts" / "run_tests.py"
AGAIN = "once more, one after the other"
UNSTEADY = "unsteady: passed only when run alone"
FINE = "def test_fine(): pass\n"
BROKEN = "import nothing_of_that_name\n"
WRONG = "def test_wrong(): assert False\n"
FIRST_TIME = """
import pathlib

def test_first_time():
    seen = pathlib.Path(__file__).with_suffix(".seen")
    if not seen.exists():
        seen.touch()
        raise AssertionError
"""
"""It fails once."""
SKIPPED_THEN = FIRST_TIME.replace("def ", "import pytest\ndef ") + "    pytest.skip('not here')\n"
ENDS_BADLY = """
import pathlib
import pytest

@pytest.fixture
def there(name):
    seen = pathlib.Path(__file__).with_name(f"{len(name)}.seen")
    yield
    if not seen.exists():
        seen.touch()
        raise OSError

@pytest.mark.parametrize("name", ["a::b[c]", "é/x"])
def test_ends_badly(there, name): pass
"""
"""Each teardown fails once."""
BUSY = """
import subprocess, sys

COUNT = "total = 0\\nfor number in range(8_000_000): total += number & 7"

def test_busy():
    subprocess.run([sys.executable, "-c", COUNT])
    exec(COUNT)
"""
"""It takes a third of a second on the reference, half of it in another process."""
SLOW = "import pytest\n\n@pytest.mark.slow\ndef test_slow(): pass\n"
LIMITS = "everyday_unit_test = 0.02\nprocess_test = 20.0\n[exceptions]\n"
DRAWN = """
from hypothesis import given, strategies as st

@given(st.integers())
def test_drawn(number): assert number < 1000
"""
PLUGINS = "xdist.plugin,_hypothesis_pytestplugin"
"""What the runs need; all others that are installed would take most of their time."""

pytestmark = [pytest.mark.slow, pytest.mark.real_starts]


def tried(folder: Path, *options: str, **files: str) -> tuple[int, str]:
    """Run a folder of tests; return status and output."""
    (folder / "pytest.ini").write_text("[pytest]\nmarkers = slow\n")
    for name, text in files.items():
        (folder / f"test_{name}.py").write_text(text)
    clean = {key: value for key, value in os.environ.items() if not key.startswith("PYTEST")}
    clean |= {"PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1", "PYTEST_PLUGINS": PLUGINS}
    ended = subprocess.run(
        [sys.executable, str(RUN_TESTS), *options],
        cwd=folder,
        env=clean,
        timeout=PATIENCE,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    return ended.returncode, ended.stdout


def summaries(said: str) -> list[str]:
    """Return the summary line of each pytest run."""
    return [found[1] for line in said.splitlines() if (found := re.match(r"=+ (\d.*) in [\d.]+s", line))]


def named(said: str) -> list[str]:
    return re.findall("^UNSTEADY (.*)$", said, re.M)


def test_passing_tests_run_once(tmp_path: Path) -> None:
    status, said = tried(tmp_path, fine=FINE)
    assert status == 0
    assert summaries(said) == ["1 passed"]


def test_a_test_that_passes_on_retry_is_listed_and_accepted(tmp_path: Path) -> None:
    status, said = tried(tmp_path, fine=FINE, first=FIRST_TIME)
    assert status == 0
    assert summaries(said) == ["1 failed, 1 passed", "1 passed"]
    assert UNSTEADY in said
    assert named(said) == ["test_first.py::test_first_time"]
    assert re.fullmatch(r"=+ 1 passed in [\d.]+s =+", said.splitlines()[-1])


def test_a_test_that_fails_again_is_a_failure(tmp_path: Path) -> None:
    status, said = tried(tmp_path, fine=FINE, first=FIRST_TIME, wrong=WRONG)
    assert status == 1
    assert summaries(said) == ["2 failed, 1 passed", "1 failed, 1 passed"]
    assert named(said) == ["test_first.py::test_first_time"]


def test_an_error_of_a_fixture_is_retried_under_any_test_id(tmp_path: Path) -> None:
    status, said = tried(tmp_path, bad=ENDS_BADLY)
    assert status == 0
    assert summaries(said) == ["2 passed, 2 errors", "2 passed"]
    assert sorted(named(said)) == [rf"test_bad.py::test_ends_badly[{name}]" for name in (r"\xe9/x", "a::b[c]")]


def test_a_test_that_is_skipped_on_retry_is_a_failure(tmp_path: Path) -> None:
    status, said = tried(tmp_path, first=SKIPPED_THEN)
    assert status == 1
    assert summaries(said) == ["1 failed", "1 skipped"]
    assert named(said) == []


def test_a_failing_hypothesis_example_is_replayed_on_retry(tmp_path: Path) -> None:
    status, said = tried(tmp_path, drawn=DRAWN)
    assert status == 1
    assert summaries(said) == ["1 failed", "1 failed"]


@pytest.mark.parametrize(("count", "tries"), [(10, 2), (11, 1)])
def test_many_failures_are_not_retried(tmp_path: Path, count: int, tries: int) -> None:
    many = f"import pytest\n@pytest.mark.parametrize('number', range({count}))\ndef test_it(number): assert False\n"
    status, said = tried(tmp_path, many=many)
    assert status == 1
    assert summaries(said) == [f"{count} failed"] * tries


@pytest.mark.parametrize(
    ("options", "files"),
    [
        (["--no-such-option"], {"fine": FINE}),
        (["nowhere.py"], {"fine": FINE}),
        (["-k", "nothing"], {"fine": FINE}),
        ([], {"broken": BROKEN, "first": FIRST_TIME}),
        (["--continue-on-collection-errors"], {"broken": BROKEN, "first": FIRST_TIME}),
        (["-x"], {"first": FIRST_TIME}),
        (["-n", "0", "--maxfail", "1"], {"first": FIRST_TIME, "wrong": WRONG}),
    ],
    ids=["option", "path", "none", "import", "import-passed-over", "stopped", "stopped-alone"],
)
def test_only_failed_tests_are_retried(tmp_path: Path, options: list[str], files: dict[str, str]) -> None:
    status, said = tried(tmp_path, *options, **files)
    assert status != 0
    assert AGAIN not in said


@pytest.mark.parametrize(("place", "is_over"), [("unit", True), ("process", False)])
def test_a_unit_test_that_computes_for_seconds_fails_the_run(tmp_path: Path, place: str, is_over: bool) -> None:
    (tmp_path / "tests" / place).mkdir(parents=True)
    (tmp_path / "tests" / place / "test_busy.py").write_text(BUSY)
    (tmp_path / "tests" / "limits.toml").write_text(LIMITS)
    status, said = tried(tmp_path, "-n", "1")
    assert summaries(said) == ["1 passed"]
    assert status == is_over
    assert ("0.02 allowed: tests/unit/test_busy.py::test_busy" in said) == is_over
    document = json.loads((tmp_path / ".test-runs" / "durations.json").read_text())
    cost = document["tests"][f"tests/{place}/test_busy.py::test_busy"]
    assert cost["processor_seconds"] > 0.2
    assert cost["processes"] == 1


def test_a_failure_is_said_at_once(tmp_path: Path) -> None:
    _, said = tried(tmp_path, wrong=WRONG, fine=FINE)
    before = said.partition("= FAILURES =")[0]
    assert re.search(r"^\[\d+ s\] FAILED in call: test_wrong.py::test_wrong - assert False$", before, re.M), said


def test_a_test_that_never_ends_is_a_failure_with_its_stack(tmp_path: Path) -> None:
    hung = "import time\ndef test_hung(): time.sleep(1000)\n"
    status, said = tried(tmp_path, "-o", "faulthandler_timeout=1", "-n", "1", hung=hung, fine=FINE)
    assert status == 1
    assert "in test_hung" in said
    assert "crashed while running 'test_hung.py::test_hung'" in said
    assert summaries(said) == ["1 failed, 1 passed"]


@pytest.mark.parametrize("options", [["-k", "first"], ["test_first.py", "-n", "1"], ["test_first.py::test_first_time"]])
def test_options_and_paths_apply_to_both_runs(tmp_path: Path, options: list[str]) -> None:
    status, said = tried(tmp_path, *options, first=FIRST_TIME, wrong=WRONG)
    assert status == 0
    assert named(said) == ["test_first.py::test_first_time"]


def test_slow_tests_for_which_there_is_no_time_are_left_to_other_days_by_name(tmp_path: Path) -> None:
    (tmp_path / "tests" / "process").mkdir(parents=True)
    for number in range(5):
        (tmp_path / "tests" / "process" / f"test_slow_{number}.py").write_text(SLOW)
    status, said = tried(tmp_path, "--within", "0", "-m", "slow or not slow", fine=FINE)
    assert status == 0
    (left,) = re.findall(r"left to other days: (\d+) slow tests; all run within (\d+) days", said)
    assert (int(left[0]), int(left[1])) == (len(re.findall("^LEFT OUT tests/process/test_slow_", said, re.M)), 10)
    assert summaries(said) == [f"{6 - int(left[0])} passed"]
    status, said = tried(tmp_path, "--within", "600", "-m", "slow or not slow")
    assert (status, summaries(said), "LEFT OUT" in said) == (0, ["6 passed"], False)
