"""Runs pytest with its options; the few tests that fail beside others are run once more, alone, and named."""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

MOST_FAILED = 10
"""Where more fail it is not the load of the machine."""
UNSTEADY = "unsteady: passed only when run alone"
_BESIDE = ["-n", "2", "--dist", "loadfile"]
_ALONE = ["-n", "0", "--dist", "no", "--last-failed", "--last-failed-no-failures", "none"]
_AGAIN = "--once-more"


class Record:
    """What became of the tests: a plugin of pytest, of the process that hears of them all."""

    def __init__(self) -> None:
        self.failed: dict[str, None] = {}
        self.passed: dict[str, None] = {}
        self.is_whole = True

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if report.failed:
            self.failed[report.nodeid] = None
        elif report.passed and report.when == "call":
            self.passed[report.nodeid] = None

    def pytest_collectreport(self, report: pytest.CollectReport) -> None:
        self.is_whole = self.is_whole and not report.failed

    def pytest_sessionfinish(self, session: pytest.Session) -> None:
        self.is_whole = self.is_whole and not session.shouldfail and not session.shouldstop


class SecondRecord(Record):
    """The same of the second try; tells of it in pytest's summary."""

    @property
    def unsteady(self) -> list[str]:
        return [each for each in self.passed if each not in self.failed]

    def pytest_terminal_summary(self, terminalreporter: pytest.TerminalReporter) -> None:
        if self.unsteady:
            terminalreporter.section(UNSTEADY, yellow=True)
            for each in self.unsteady:
                terminalreporter.line(f"UNSTEADY {each}")


def main(arguments: list[str]) -> int:
    sys.path[0] = ""  # as `python -m pytest` has it
    if arguments[:1] == [_AGAIN]:
        return second_try(Path(arguments[1]), arguments[2:])
    record = Record()
    status = pytest.main([*_BESIDE, *arguments], plugins=[record])
    if status != pytest.ExitCode.TESTS_FAILED or not record.is_whole or not 0 < len(record.failed) <= MOST_FAILED:
        return int(status)
    sys.stdout.write(f"\n{len(record.failed)} failed beside others: once more, one after the other\n\n")
    sys.stdout.flush()
    with tempfile.TemporaryDirectory() as cache:
        failed = Path(cache, "v", "cache", "lastfailed")
        failed.parent.mkdir(parents=True)
        failed.write_text(json.dumps(dict.fromkeys(record.failed, True)), encoding="utf-8")
        return subprocess.run([sys.executable, __file__, _AGAIN, cache, *arguments]).returncode


def second_try(cache: Path, arguments: list[str]) -> int:
    """Run the tests that a cache of pytest holds as failed, alone; 0 where each of them passes."""
    failed = json.loads((cache / "v" / "cache" / "lastfailed").read_text(encoding="utf-8"))
    record = SecondRecord()
    status = pytest.main([*arguments, *_ALONE, "-o", f"cache_dir={cache}"], plugins=[record])
    return int(status) or int(set(record.unsteady) != set(failed))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
