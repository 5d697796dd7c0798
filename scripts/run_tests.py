"""Run pytest, retry a few failures of the parallel run one after the other, and list those that then pass."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

MAX_FAILED = 10
"""If more tests fail, the load of the machine is not the reason."""
UNSTEADY = "unsteady: passed only when run alone"
_PARALLEL = ["-n", "3", "--dist", "loadfile", "--no-loadscope-reorder"]
"""One worker more than CI has cores, because tests that start processes also wait; the short unit tests come last."""
_SEQUENTIAL = ["-n", "0", "--dist", "no", "--last-failed", "--last-failed-no-failures", "none"]
_RETRY_OPTION = "--retry"


class Record:
    """Pytest plugin of the controlling process that records which tests failed and passed."""

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


class RetryRecord(Record):
    """The same for the second run; lists unsteady tests in the summary."""

    @property
    def unsteady(self) -> list[str]:
        return [test for test in self.passed if test not in self.failed]

    def pytest_terminal_summary(self, terminalreporter: pytest.TerminalReporter) -> None:
        if self.unsteady:
            terminalreporter.section(UNSTEADY, yellow=True)
            for test in self.unsteady:
                terminalreporter.line(f"UNSTEADY {test}")


def main(arguments: list[str]) -> int:
    sys.path[0] = ""  # as with `python -m pytest`
    os.environ.setdefault("LATE_DYNAMO", "1")  # tests/late_dynamo.py
    if arguments[:1] == [_RETRY_OPTION]:
        return retry(Path(arguments[1]), arguments[2:])
    record = Record()
    status = pytest.main([*_PARALLEL, *arguments], plugins=[record])
    if status != pytest.ExitCode.TESTS_FAILED or not record.is_whole or not 0 < len(record.failed) <= MAX_FAILED:
        return int(status)
    sys.stdout.write(
        f"\n{len(record.failed)} failed in the parallel run; running them once more, one after the other\n\n"
    )
    sys.stdout.flush()
    with tempfile.TemporaryDirectory() as cache:
        failed = Path(cache, "v", "cache", "lastfailed")
        failed.parent.mkdir(parents=True)
        failed.write_text(json.dumps(dict.fromkeys(record.failed, True)), encoding="utf-8")
        return subprocess.run([sys.executable, __file__, _RETRY_OPTION, cache, *arguments]).returncode


def retry(cache: Path, arguments: list[str]) -> int:
    """Run the failed tests of a pytest cache one after the other; 0 if all of them pass."""
    failed = json.loads((cache / "v" / "cache" / "lastfailed").read_text(encoding="utf-8"))
    record = RetryRecord()
    status = pytest.main([*arguments, *_SEQUENTIAL, "-o", f"cache_dir={cache}"], plugins=[record])
    return int(status) or int(set(record.unsteady) != set(failed))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
