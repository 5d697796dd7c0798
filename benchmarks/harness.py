"""Shared benchmark harness: alternating measurements, their spread, a result table and a JSON file."""

from __future__ import annotations

import argparse
import json
import os
import platform
import random
import signal
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import asdict, dataclass, field
from importlib import metadata
from pathlib import Path
from typing import Any, TypeVar

HERE = Path(__file__).resolve().parent
PROJECT = HERE.parent
RESULTS = HERE / "results"
LEADLINE = str(Path(sys.executable).parent / "leadline")
"""The ``leadline`` command of this interpreter's environment."""
_RESAMPLES = 2000
T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Spread:
    """The median of some measurements, with its confidence interval and quartiles."""

    median: float
    low: float
    """Lower end of the 95 % bootstrap interval of the median."""
    high: float
    """Upper end of the interval."""
    quartiles: tuple[float, float]
    least: float
    most: float
    n: int


@dataclass(frozen=True, slots=True)
class Limit:
    """The upper or lower limit of a row."""

    value: float
    at_least: bool = False
    figure: str = "median"
    """The figure of the spread that the limit applies to: ``median`` or ``most``, the maximum."""

    def is_met(self, spread: Spread) -> bool:
        value: float = getattr(spread, self.figure)
        return value >= self.value if self.at_least else value <= self.value

    def __str__(self) -> str:
        suffix = "" if self.figure == "median" else " (max)"
        return f"{'>=' if self.at_least else '<='} {self.value:g}{suffix}"


@dataclass(frozen=True, slots=True)
class Row:
    """One line of a benchmark's table."""

    name: str
    unit: str
    """``x`` for a ratio, otherwise the unit of the figures."""
    spread: Spread | None
    """None: the row could not be measured; ``note`` says why."""
    limit: Limit | None = None
    asked: int | None = None
    """Expected number of tensors or statistics on disk."""
    found: int | None = None
    """Actual number."""
    note: str = ""
    values: tuple[float, ...] = ()
    """All measurements in order."""
    details: dict[str, Any] = field(default_factory=dict)

    @property
    def counts(self) -> bool:
        """Whether the row was measured and everything expected was found."""
        return self.spread is not None and self.asked == self.found

    @property
    def verdict(self) -> str:
        """``yes`` or ``NO``, ``NO DATA`` if the row does not count, empty without a limit."""
        if self.limit is None:
            return ""
        if self.spread is None or not self.counts:
            return "NO DATA"
        return "yes" if self.limit.is_met(self.spread) else "NO"


def spread(values: Sequence[float]) -> Spread:
    """Return the spread of at least one value."""
    quartiles = statistics.quantiles(values, n=4, method="inclusive") if len(values) > 1 else [values[0]] * 3
    generator = random.Random(0)
    medians = sorted(statistics.median(generator.choices(values, k=len(values))) for _ in range(_RESAMPLES))
    return Spread(
        median=statistics.median(values),
        low=medians[int(0.025 * _RESAMPLES)],
        high=medians[int(0.975 * _RESAMPLES)],
        quartiles=(quartiles[0], quartiles[2]),
        least=min(values),
        most=max(values),
        n=len(values),
    )


def pairs(
    first: Callable[[], T],
    second: Callable[[], T],
    *,
    count: int,
    warmups: int = 1,
    on_pair: Callable[[int, T, T], None] | None = None,
) -> list[tuple[T, T]]:
    """Measure two callables alternately, ``count`` times, after ``warmups`` pairs that are discarded.

    The order is ABBA, so that steady drift (heat, a filling page cache) affects both equally.
    """
    measured = []
    for index in range(-warmups, count):
        if index % 2:
            b = second()
            a = first()
        else:
            a = first()
            b = second()
        if index >= 0:
            measured.append((a, b))
            if on_pair is not None:
                on_pair(index, a, b)
    return measured


def elapsed_seconds(work: Callable[[], object]) -> float:
    """Return the duration of a call of ``work``."""
    began = time.perf_counter()
    work()
    return time.perf_counter() - began


def process_seconds(command: Sequence[str], environment: dict[str, str] | None = None) -> float:
    """Return the duration of a process from start to exit; it must succeed."""
    began = time.perf_counter()
    subprocess.run(command, env=environment, check=True, stdin=subprocess.DEVNULL)
    return time.perf_counter() - began


def processor_ns(pid: int) -> int:
    """Return the CPU time of all threads of a process in ns, from the scheduler: finer than /proc/<pid>/stat."""
    return sum(int(file.read_text().split()[0]) for file in Path(f"/proc/{pid}/task").glob("*/schedstat"))


def children(pid: int) -> list[int]:
    """Return the child processes that the main thread of a process has started."""
    return [int(child) for child in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]


def arguments(description: str | None, *, rounds: int, quick_rounds: int) -> argparse.ArgumentParser:
    """Return a parser of the options that all benchmarks share; see ``rounds_of`` for the number of rounds."""
    # so that a terminated benchmark removes its scratch folder
    signal.signal(signal.SIGTERM, lambda number, _: sys.exit(128 + number))
    parser = argparse.ArgumentParser(description=description, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.set_defaults(default_rounds=rounds, quick_rounds=quick_rounds)
    parser.add_argument(
        "--quick", action="store_true", help="few rounds: a check that it runs; do not quote the figures"
    )
    parser.add_argument("--rounds", type=int, help=f"pairs or repetitions of each row (default {rounds})")
    parser.add_argument("--json", type=Path, metavar="FILE", help="result file (default results/…)")
    return parser


def rounds_of(options: argparse.Namespace) -> int:
    """Return the requested number of rounds."""
    if options.rounds is not None:
        return int(options.rounds)
    return int(options.quick_rounds if options.quick else options.default_rounds)


def machine() -> dict[str, Any]:
    """Return a description of this machine and its software."""
    return {
        "cpu": _cpu_name(),
        "cores": len(os.sched_getaffinity(0)),
        "memory_bytes": os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES"),
        "kernel": platform.release(),
        "python": platform.python_version(),
        "torch": _version("torch"),
        "leadline": _version("leadline"),
        "commit": _commit(),
        "load": os.getloadavg()[0],
    }


def report(name: str, rows: Iterable[Row], *, started: dict[str, Any], options: argparse.Namespace) -> int:
    """Print the table and save the rows.

    Returns:
        0, or 1 if a row could not be measured or did not store everything expected.
    """
    rows = list(rows)
    load = os.getloadavg()[0]
    print(f"\n{name}{'  (quick: not to be quoted)' if options.quick else ''}")
    print(_machine_line(started, load))
    print(_table(rows))
    print(f"written to {save(name, rows, started=started, options=options)}")
    return 0 if all(row.counts for row in rows) else 1


def save(name: str, rows: Sequence[Row], *, started: dict[str, Any], options: argparse.Namespace) -> Path:
    """Write the JSON file; long benchmarks call this after each row, since they may be interrupted."""
    path: Path = options.json or RESULTS / f"{name}.json"
    path.parent.mkdir(parents=True, exist_ok=True)
    document = {
        "benchmark": name,
        "quick": options.quick,
        "command": [Path(sys.argv[0]).name, *sys.argv[1:]],
        "machine": started,
        "load_at_end": os.getloadavg()[0],
        "rows": [{**asdict(row), "counts": row.counts, "verdict": row.verdict} for row in rows],
    }
    path.write_text(json.dumps(document, indent=1) + "\n")
    return path


def row_from_dict(data: dict[str, Any]) -> Row:
    """Return a row from a JSON file that ``report`` wrote."""
    known = {key: value for key, value in data.items() if key not in ("counts", "verdict")}
    if known["spread"]:
        known["spread"] = Spread(**{**known["spread"], "quartiles": tuple(known["spread"]["quartiles"])})
    if known["limit"]:
        known["limit"] = Limit(**known["limit"])
    return Row(**{**known, "values": tuple(known["values"])})


def progress(text: str) -> None:
    """Print a progress message to stderr."""
    print(text, file=sys.stderr, flush=True)


def _table(rows: Sequence[Row]) -> str:
    lines = [("row", "median", "95 % interval", "quartiles", "n", "limit", "met", "found/expected", "")]
    for row in rows:
        figures = row.spread
        stored = "" if row.asked is None else f"{row.found}/{row.asked}"
        if figures is None:
            lines.append((row.name, "-", "", "", "", str(row.limit or ""), row.verdict, stored, row.note))
            continue
        unit = "x" if row.unit == "x" else f" {row.unit}"
        lines.append(
            (
                row.name,
                f"{_figure(figures.median)}{unit}",
                f"{_figure(figures.low)} … {_figure(figures.high)}",
                f"{_figure(figures.quartiles[0])} … {_figure(figures.quartiles[1])}",
                str(figures.n),
                str(row.limit or ""),
                row.verdict,
                stored,
                row.note,
            )
        )
    widths = [max(len(line[column]) for line in lines) for column in range(len(lines[0]))]
    return "\n".join(
        "  ".join(cell.ljust(width) for cell, width in zip(line, widths, strict=True)).rstrip() for line in lines
    )


def _figure(value: float) -> str:
    if abs(value) >= 1000:
        return f"{value:,.0f}"
    return f"{value:.3f}" if abs(value) < 10 else f"{value:.1f}"


def _machine_line(machine: dict[str, Any], load_at_end: float) -> str:
    return (
        f"{machine['cpu']}, {machine['cores']} cores, {machine['memory_bytes'] / 2**30:.0f} GiB, "
        f"Linux {machine['kernel']}, Python {machine['python']}, torch {machine['torch']}, "
        f"leadline {machine['leadline']} ({machine['commit']}), "
        f"load {machine['load']:.1f} before, {load_at_end:.1f} after"
    )


def _cpu_name() -> str:
    for line in Path("/proc/cpuinfo").read_text().splitlines():
        if line.startswith("model name"):
            return line.partition(":")[2].strip()
    return platform.machine()


def _version(distribution: str) -> str | None:
    try:
        return metadata.version(distribution)
    except metadata.PackageNotFoundError:
        return None


def _commit() -> str | None:
    command = ["git", "-C", str(PROJECT), "describe", "--always", "--dirty"]
    try:
        result = subprocess.run(command, capture_output=True, text=True, check=False)
    except FileNotFoundError:
        return None
    return result.stdout.strip() or None
