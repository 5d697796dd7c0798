"""``leadline set`` on a running job: accepted, acknowledged, visible in the data."""

from __future__ import annotations

import itertools
import subprocess
import time
from pathlib import Path

import pytest
from launching import LEADLINE, PATIENCE, environment, only_run, started

from leadline.reader.run import Run


def times(run: Run) -> list[int]:
    """Return the sample times of the system metrics."""
    return sorted(set(run.system_metrics()["time_ns"].to_pylist()))


def wait_for_samples(root: Path, count: int, *, after_ns: int = 0) -> list[int]:
    end = time.monotonic() + PATIENCE
    while time.monotonic() < end:
        time.sleep(0.1)
        if list((root / "runs").glob("*/system/*/*.arrow*")):
            samples = [time_ns for time_ns in times(only_run(root / "runs")) if time_ns > after_ns]
            if len(samples) >= count:
                return samples
    raise AssertionError(f"no {count} samples after {after_ns}")


def call(root: Path, *words: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [*LEADLINE, *words],
        cwd=root,
        env=environment(LEADLINE_ROOT=str(root / "runs")),
        capture_output=True,
        text=True,
        check=False,
        timeout=PATIENCE,
    )


def median_gap(samples: list[int]) -> float:
    gaps = sorted(later - earlier for earlier, later in itertools.pairwise(samples))
    return gaps[len(gaps) // 2] / 1e6


@pytest.mark.slow
def test_the_interval_changes_on_a_running_job_without_python(tmp_path: Path) -> None:
    with started(("--interval-ms", "500"), "sh", "-c", "while :; do :; done", folder=tmp_path) as job:
        before = wait_for_samples(tmp_path, 4)
        done = call(tmp_path, "set", "interval-ms=100")
        changed = time.time_ns()
        assert done.returncode == 0, done.stderr
        assert done.stdout.strip().startswith("accepted by host ")
        after = wait_for_samples(tmp_path, 12, after_ns=changed)
        assert median_gap(before) >= 450 > 250 > median_gap(after)
        assert job.process.poll() is None, "the job is still running"


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ((), "nothing to set; for example: leadline set interval-ms=100"),
        (("interval-m=100",), "did you mean 'interval-ms'?"),
        (("interval-ms=150",), "leadline: interval-ms must be one of 100, 200, 500, 1000, 5000, 60000, not 150"),
        (("interval-ms=fast",), "interval-ms must be an integer or off, not 'fast'"),
        (("interval-ms=100",), "no run"),
    ],
)
def test_an_invalid_setting_is_reported_in_one_line(tmp_path: Path, words: tuple[str, ...], message: str) -> None:
    done = call(tmp_path, "set", *words)
    assert done.returncode == 2
    assert message in done.stderr
    assert len(done.stderr.strip().splitlines()) == 1
