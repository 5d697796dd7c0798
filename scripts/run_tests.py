"""Run pytest, retry a few failures of the parallel run one after the other, and list those that then pass.

Each run leaves ``.test-runs/durations.json``: seconds, processor seconds and processes by test. The run fails if a test
takes more processor time than ``tests/limits.toml`` allows.

    scripts/test [...] --record            also updates tests/durations.json, by which the longest units start first
    scripts/test [...] --within MINUTES    leaves slow tests to other days if this machine takes longer for all of them
"""

from __future__ import annotations

import json
import os
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections import defaultdict
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import pytest

TESTS = Path(__file__).resolve().parents[1] / "tests"
MAX_FAILED = 10
"""If more tests fail, the load of the machine is not the reason."""
UNSTEADY = "unsteady: passed only when run alone"
WORKERS = "3"
"""One more than CI has cores, because tests that start processes also wait."""
TEST_SECONDS = 1200
"""A test that takes longer is hung: its stacks are printed, its worker ends, and it is a failure."""
_TIMEOUT = ["-o", f"faulthandler_timeout={TEST_SECONDS}", "-o", "faulthandler_exit_on_timeout=true"]
_PARALLEL = ["-p", "metering", "-n", WORKERS, "--no-loadscope-reorder", *_TIMEOUT]
_SEQUENTIAL = ["-n", "0", "--dist", "no", "--last-failed", "--last-failed-no-failures", "none"]
_RETRY_OPTION, _RECORD_OPTION, _WITHIN_OPTION = "--retry", "--record", "--within"
_WITHIN_VARIABLE = "TESTS_WITHIN"  # tests/within.py reads it
_SLOW_SHARE = 0.75
"""Slow tests begin within this share of the time; what follows are the everyday ones."""
_SHOWN = 60
_LOAD = 3.0
"""How much longer than alone a test may take: beside others, and as the first of its worker that needs something."""


_PROGRESS_SECONDS = 300.0
_SPEEDS = 101


@dataclass
class Cost:
    """What a test took, with its fixtures."""

    seconds: float = 0.0
    processor_seconds: float = 0.0
    processes: int = 0
    is_slow: bool = False


class Record:
    """Pytest plugin of the controlling process that records which tests failed and passed, and what each took."""

    def __init__(self) -> None:
        self.failed: dict[str, None] = {}
        self.passed: dict[str, None] = {}
        self.costs: dict[str, Cost] = defaultdict(Cost)
        self.slowness = 1.0
        self.is_whole = True
        self.left_out: dict[str, Any] = {}
        self.too_late: list[str] = []

    @pytest.hookimpl(optionalhook=True)
    def pytest_testnodedown(self, node: Any) -> None:
        self.left_out = getattr(node, "workeroutput", {}).get("left_out") or self.left_out

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if report.failed:
            self.failed[report.nodeid] = None
        elif report.passed and report.when == "call":
            self.passed[report.nodeid] = None
        elif report.skipped:
            from within import TOO_LATE

            if TOO_LATE in str(report.longrepr):
                self.too_late.append(report.nodeid)
        cost = self.costs[report.nodeid]
        cost.seconds += report.duration
        cost.processor_seconds += getattr(report, "processor_seconds", 0.0)
        cost.processes += getattr(report, "processes", 0)
        cost.is_slow = getattr(report, "is_slow", False)
        self.slowness = getattr(report, "slowness", 0.0) or self.slowness

    def pytest_collectreport(self, report: pytest.CollectReport) -> None:
        self.is_whole = self.is_whole and not report.failed

    def pytest_sessionfinish(self, session: pytest.Session) -> None:
        self.is_whole = self.is_whole and not session.shouldfail and not session.shouldstop

    def pytest_xdist_make_scheduler(self, config: pytest.Config, log: Any) -> Any:
        """Distribute the units of ``tests/units.py``; none if another distribution was asked for."""
        if config.getoption("dist") != "loadscope":
            return None
        from units import unit_of
        from xdist.scheduler import LoadScopeScheduling

        class Units(LoadScopeScheduling):
            def _split_scope(self, nodeid: str) -> str:
                is_ours = TESTS.is_relative_to(config.rootpath)
                return unit_of(nodeid, config.rootpath) if is_ours else str(super()._split_scope(nodeid))

            def _reschedule(self, node: Any) -> None:
                """Keep tests ahead: a worker begins one when it knows the next, or that there is none."""
                if node.shutting_down:
                    return
                while self.workqueue and self._pending_of(self.assigned_work[node]) <= 2:
                    self._assign_work_unit(node)
                if not self.workqueue:
                    node.shutdown()

            def remove_node(self, node: Any) -> str | None:
                """Return the test that ended its worker, which is not run again; the worker's others are."""
                for unit in self.assigned_work[node].values():
                    for test, is_done in unit.items():
                        if not is_done:
                            unit[test] = True
                            super().remove_node(node)
                            return test
                return super().remove_node(node)

        return Units(config, log)

    def pytest_terminal_summary(self, terminalreporter: pytest.TerminalReporter) -> None:
        if units := self.left_out.get("units"):
            tests, days = self.left_out["tests"], self.left_out["days"]
            terminalreporter.section(f"left to other days: {tests} slow tests; all run within {days} days", yellow=True)
            for unit in units:
                terminalreporter.line(f"LEFT OUT {unit}")
        if self.too_late:
            terminalreporter.section(f"too late on a slow machine: {len(self.too_late)} slow tests", yellow=True)
            for test in self.too_late:
                terminalreporter.line(f"LEFT OUT {test}")
        slowest = sorted(self.costs.items(), key=lambda each: -each[1].seconds)[:_SHOWN]
        if not slowest or slowest[0][1].seconds < 1:
            return
        terminalreporter.section(f"slowest {len(slowest)}: seconds, processor seconds, processes started")
        for test, cost in slowest:
            terminalreporter.line(f"{cost.seconds:7.1f} {cost.processor_seconds:7.1f} {cost.processes:3}  {test}")


class Progress:
    """Pytest plugin of the controlling process that says at once what failed, and every five minutes what is running.

    So the output of a run that never ends tells where it was.
    """

    def __init__(self) -> None:
        self._began = time.monotonic()
        self._running: dict[str, float] = {}
        self._ended = 0
        self._over = threading.Event()

    def pytest_sessionstart(self) -> None:
        threading.Thread(target=self._run, daemon=True).start()

    def pytest_sessionfinish(self) -> None:
        self._over.set()

    def pytest_runtest_logstart(self, nodeid: str) -> None:
        self._running[nodeid] = time.monotonic()

    def pytest_runtest_logfinish(self, nodeid: str) -> None:
        self._running.pop(nodeid, None)
        self._ended += 1

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if report.failed:
            if report.when == "???":  # its worker ended
                self._running.pop(report.nodeid, None)
            crash = getattr(report.longrepr, "reprcrash", None)
            message = crash.message if crash else str(report.longrepr)
            self._say(f"FAILED in {report.when}: {report.nodeid} - {message.strip().partition(chr(10))[0][:300]}")

    def _run(self) -> None:
        while not self._over.wait(_PROGRESS_SECONDS):
            now = time.monotonic()
            running = [f"{test} ({now - began:.0f} s)" for test, began in list(self._running.items())]
            self._say(f"{self._ended} tests ended, running: {', '.join(running) or 'none'}")

    def _say(self, text: str) -> None:
        sys.__stdout__.write(f"\n[{time.monotonic() - self._began:.0f} s] {text}\n")
        sys.__stdout__.flush()


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
    sys.path[:1] = ["", str(TESTS)]  # as with `python -m pytest`, and for the plugin
    os.environ.setdefault("LATE_DYNAMO", "1")  # tests/late_dynamo.py
    os.environ.setdefault("FORK_STARTS", "1")  # tests/fork_server
    if arguments[:1] == [_RETRY_OPTION]:
        return retry(Path(arguments[1]), arguments[2:])
    is_recorded = _RECORD_OPTION in arguments
    arguments = [word for word in arguments if word != _RECORD_OPTION]
    chosen = of_this_day(arguments)
    record, began = Record(), time.monotonic()
    status = pytest.main([*_PARALLEL, "--dist", "loadscope", *chosen, *arguments], plugins=[record, Progress()])
    write_costs(record, time.monotonic() - began)
    if is_recorded:
        write_durations(record)
    if status == pytest.ExitCode.TESTS_FAILED and record.is_whole and 0 < len(record.failed) <= MAX_FAILED:
        status = run_again(record, arguments)
    is_over = exceed_limits(record)  # said also if a test failed
    return int(status) or int(is_over)


def of_this_day(arguments: list[str]) -> list[str]:
    """Take the time limit out of the arguments, and return the options of pytest that keep it."""
    if _WITHIN_OPTION not in arguments:
        return []
    from speed import sample_speed

    place = arguments.index(_WITHIN_OPTION)
    _, minutes = arguments[place : place + 2]
    del arguments[place : place + 2]
    slowness = statistics.median(sample_speed() for _ in range(_SPEEDS))
    available = float(minutes) * 60 * int(WORKERS) / max(1.0, slowness)
    now = time.time()
    last = now + _SLOW_SHARE * float(minutes) * 60
    os.environ[_WITHIN_VARIABLE] = f"{available:.0f} {now // 86400:.0f} {last:.0f}"
    sys.stdout.write(f"this machine is {slowness:.2f} times as slow as the reference\n")
    sys.stdout.flush()
    return ["-p", "within"]


def run_again(record: Record, arguments: list[str]) -> int:
    """Run what failed once more, in a process of its own."""
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
    status = pytest.main([*_TIMEOUT, *arguments, *_SEQUENTIAL, "-o", f"cache_dir={cache}"], plugins=[record])
    return int(status) or int(set(record.unsteady) != set(failed))


def write_costs(record: Record, seconds: float) -> None:
    """Write what each test took."""
    folder = Path(".test-runs")
    tests = {test: asdict(cost) for test, cost in sorted(record.costs.items())}
    document = {"seconds": round(seconds, 1), "slowness": round(record.slowness, 2), "tests": tests}
    try:
        folder.mkdir(exist_ok=True)
        folder.joinpath("durations.json").write_text(json.dumps(document, indent=1), encoding="utf-8")
    except OSError as error:
        sys.stdout.write(f"{folder}: {error.strerror}; the durations are not kept\n")


def write_durations(record: Record) -> None:
    """Write how long each unit took, so that the next run begins with the longest; what was left out stays."""
    from units import DURATIONS, is_kept, unit_of

    left_out = record.left_out.get("units", ())
    seconds: dict[str, float] = defaultdict(float)
    for unit, known in json.loads(DURATIONS.read_text(encoding="utf-8")).items():
        if unit in left_out:
            seconds[unit] = known
    for test, cost in record.costs.items():
        if (unit := unit_of(test, TESTS.parent)) not in left_out:
            seconds[unit] += cost.seconds
    kept = {unit: max(1, round(seconds[unit])) for unit in sorted(seconds) if is_kept(unit, seconds[unit])}
    DURATIONS.write_text(json.dumps(kept, indent=0) + "\n", encoding="utf-8")


def exceed_limits(record: Record) -> bool:
    """Say which tests take more processor time than is allowed, and return whether there are any."""
    import tomllib

    own, general = Path("tests", "limits.toml"), TESTS / "limits.toml"
    limits = tomllib.loads((own if own.exists() else general).read_text(encoding="utf-8"))
    over = []
    for test, cost in record.costs.items():
        limit = limit_of(test, cost, limits)
        if limit is not None and cost.processor_seconds > limit * max(1.0, record.slowness) * _LOAD:
            over.append(f"{cost.processor_seconds:6.1f} s of processor time, {limit:g} allowed: {test}")
    if over:
        factor = f", on a machine {record.slowness:.2f} times as slow as the reference" if record.slowness > 1 else ""
        sys.stdout.write(f"\ntests/limits.toml is exceeded{factor}:\n" + "\n".join(sorted(over, reverse=True)) + "\n")
    return bool(over)


def limit_of(test: str, cost: Cost, limits: dict[str, Any]) -> float | None:
    """Return the limit of a test in seconds of processor time; None: it has none."""
    file = test.partition("::")[0]
    for named in (test.partition("[")[0], file):
        if named in limits["exceptions"]:
            return float(limits["exceptions"][named])
    if file.startswith("tests/unit/"):
        return None if cost.is_slow else float(limits["everyday_unit_test"])
    return float(limits["process_test"]) if file.startswith("tests/") else None


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
