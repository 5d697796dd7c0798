"""The one harness of all benchmarks: pairs measured in turn, their spread, a table and a JSON file."""

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
from typing import Any

HERE = Path(__file__).resolve().parent
PROJECT = HERE.parent
RESULTS = HERE / "results"
LEADLINE = str(Path(sys.executable).parent / "leadline")
"""The command that belongs to this interpreter."""
_RESAMPLES = 2000


@dataclass(frozen=True, slots=True)
class Spread:
    """The median of some measurements, and how far it can be trusted."""

    median: float
    low: float
    """Lower end of the 95 % bootstrap interval of the median."""
    high: float
    """Upper end of it."""
    quartiles: tuple[float, float]
    least: float
    most: float
    n: int


@dataclass(frozen=True, slots=True)
class Limit:
    """What a row must keep: at most, or at least, so much."""

    value: float
    at_least: bool = False
    figure: str = "median"
    """Which figure of the spread the limit is about: ``median`` or ``most``."""

    def is_met(self, spread: Spread) -> bool:
        seen: float = getattr(spread, self.figure)
        return seen >= self.value if self.at_least else seen <= self.value

    def __str__(self) -> str:
        of = "" if self.figure == "median" else " (max)"
        return f"{'>=' if self.at_least else '<='} {self.value:g}{of}"


@dataclass(frozen=True, slots=True)
class Row:
    """One line of a benchmark's table."""

    name: str
    unit: str
    """``x`` for a ratio, else the unit of the figures."""
    spread: Spread | None
    """None: the row could not be measured; ``note`` says why."""
    limit: Limit | None = None
    asked: int | None = None
    """How many tensors or statistics should be on disk."""
    found: int | None = None
    """How many are."""
    note: str = ""
    values: tuple[float, ...] = ()
    """Every single measurement, in the order in which they were made."""
    details: dict[str, Any] = field(default_factory=dict)

    @property
    def counts(self) -> bool:
        """Whether the row was measured and everything that was asked is there."""
        return self.spread is not None and self.asked == self.found

    @property
    def verdict(self) -> str:
        """``yes``, ``NO`` or nothing where there is no limit."""
        if self.limit is None:
            return ""
        if self.spread is None or not self.counts:
            return "NO DATA"
        return "yes" if self.limit.is_met(self.spread) else "NO"


def spread(values: Sequence[float]) -> Spread:
    """The spread of at least one value."""
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
    first: Callable[[], float],
    second: Callable[[], float],
    *,
    count: int,
    warmups: int = 1,
    on_pair: Callable[[int, float, float], None] | None = None,
) -> list[tuple[float, float]]:
    """Measure two things in turn, ``count`` times, after ``warmups`` pairs that are thrown away.

    The order is ABBA, since whatever drifts steadily (heat, a filling page cache) then falls on both alike.
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
    """How long ``work`` takes."""
    began = time.perf_counter()
    work()
    return time.perf_counter() - began


def process_seconds(command: Sequence[str], environment: dict[str, str] | None = None) -> float:
    """How long a process takes from its start to its end; it must succeed."""
    began = time.perf_counter()
    subprocess.run(command, env=environment, check=True, stdin=subprocess.DEVNULL)
    return time.perf_counter() - began


def processor_ns(pid: int) -> int:
    """Processor time of a process's threads, in ns from the scheduler: finer than the ticks of /proc/<pid>/stat."""
    return sum(int(each.read_text().split()[0]) for each in Path(f"/proc/{pid}/task").glob("*/schedstat"))


def children(pid: int) -> list[int]:
    """The processes that the main thread of one has started."""
    return [int(each) for each in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]


def arguments(description: str | None, *, rounds: int, quick_rounds: int) -> argparse.ArgumentParser:
    """The options that all benchmarks share; ``rounds_of`` turns them into a number."""
    # so that an ended benchmark takes its scratch folder with it
    signal.signal(signal.SIGTERM, lambda number, _: sys.exit(128 + number))
    parser = argparse.ArgumentParser(description=description, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.set_defaults(default_rounds=rounds, quick_rounds=quick_rounds)
    parser.add_argument("--quick", action="store_true", help="few rounds: to see that it runs, not to quote")
    parser.add_argument("--rounds", type=int, help=f"pairs or repetitions of each row (default {rounds})")
    parser.add_argument("--json", type=Path, metavar="FILE", help="where the result goes (default results/…)")
    return parser


def rounds_of(options: argparse.Namespace) -> int:
    """How many rounds were asked for."""
    if options.rounds is not None:
        return int(options.rounds)
    return int(options.quick_rounds if options.quick else options.default_rounds)


def machine() -> dict[str, Any]:
    """What the figures were measured on."""
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
        0, or 1 where a row could not be measured or misses something that it was asked to store.
    """
    rows = list(rows)
    load = os.getloadavg()[0]
    print(f"\n{name}{'  (quick: not to quote)' if options.quick else ''}")
    print(_machine_line(started, load))
    print(_table(rows))
    print(f"written to {save(name, rows, started=started, options=options)}")
    return 0 if all(each.counts for each in rows) else 1


def save(name: str, rows: Sequence[Row], *, started: dict[str, Any], options: argparse.Namespace) -> Path:
    """Write the JSON file; also called between the rows of a long benchmark, which may be interrupted."""
    path: Path = options.json or RESULTS / f"{name}.json"
    path.parent.mkdir(parents=True, exist_ok=True)
    written = {
        "benchmark": name,
        "quick": options.quick,
        "command": [Path(sys.argv[0]).name, *sys.argv[1:]],
        "machine": started,
        "load_at_end": os.getloadavg()[0],
        "rows": [{**asdict(each), "counts": each.counts, "verdict": each.verdict} for each in rows],
    }
    path.write_text(json.dumps(written, indent=1) + "\n")
    return path


def row_from_dict(data: dict[str, Any]) -> Row:
    """A row out of a JSON file that ``report`` wrote."""
    known = {key: value for key, value in data.items() if key not in ("counts", "verdict")}
    if known["spread"]:
        known["spread"] = Spread(**{**known["spread"], "quartiles": tuple(known["spread"]["quartiles"])})
    if known["limit"]:
        known["limit"] = Limit(**known["limit"])
    return Row(**{**known, "values": tuple(known["values"])})


def progress(text: str) -> None:
    """Say on the error stream what is under way."""
    print(text, file=sys.stderr, flush=True)


def _table(rows: Sequence[Row]) -> str:
    lines = [("row", "median", "95 % interval", "quartiles", "n", "limit", "met", "found/asked", "")]
    for row in rows:
        seen = row.spread
        stored = "" if row.asked is None else f"{row.found}/{row.asked}"
        if seen is None:
            lines.append((row.name, "-", "", "", "", str(row.limit or ""), row.verdict, stored, row.note))
            continue
        unit = "x" if row.unit == "x" else f" {row.unit}"
        lines.append(
            (
                row.name,
                f"{_figure(seen.median)}{unit}",
                f"{_figure(seen.low)} … {_figure(seen.high)}",
                f"{_figure(seen.quartiles[0])} … {_figure(seen.quartiles[1])}",
                str(seen.n),
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


def _machine_line(seen: dict[str, Any], load_at_end: float) -> str:
    return (
        f"{seen['cpu']}, {seen['cores']} cores, {seen['memory_bytes'] / 2**30:.0f} GiB, Linux {seen['kernel']}, "
        f"Python {seen['python']}, torch {seen['torch']}, leadline {seen['leadline']} ({seen['commit']}), "
        f"load {seen['load']:.1f} before, {load_at_end:.1f} after"
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
    asked = ["git", "-C", str(PROJECT), "describe", "--always", "--dirty"]
    try:
        done = subprocess.run(asked, capture_output=True, text=True, check=False)
    except FileNotFoundError:
        return None
    return done.stdout.strip() or None
