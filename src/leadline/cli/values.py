"""``leadline values``: the values of one tensor."""

from __future__ import annotations

import csv
import math
import sys
from collections.abc import Sequence
from typing import Annotated, Final

import pyarrow as pa
import pyarrow.compute as pc
import typer
from rich.text import Text

import leadline
from leadline.cli.arguments import complete_tensor
from leadline.cli.console import echo_json, number
from leadline.cli.measurements import sparkline
from leadline.cli.table import print_lines, table, table_width
from leadline.errors import ConfigurationError, NotCapturedError, UnknownNameError
from leadline.reader.tensor import Tensor
from leadline.records.formatting import counted, listed, printable
from leadline.records.names import MODES
from leadline.store.documents import to_json

_KEYS: Final = ("step", "mode", "worker", "time_ns")
_TELLING: Final = ("mean", "std", "min", "max", "l2", "nonfinite_count")
_ROWS: Final = 20
_SPARKLINE_WIDTH: Final = 40


def values(
    names: Annotated[
        list[str],
        typer.Argument(
            metavar="[RUN] NAME", help="A tensor's name; default run: the latest.", autocompletion=complete_tensor
        ),
    ],
    statistic: Annotated[
        list[str] | None, typer.Option(help="Only this statistic; may be given several times.")
    ] = None,
    mode: Annotated[
        str | None, typer.Option(help="The mode: train, eval …; default: train, if captured there.")
    ] = None,
    worker: Annotated[str | None, typer.Option(help="Only this worker.")] = None,
    rows: Annotated[int, typer.Option(help="Number of rows to show, the latest; 0: all.")] = _ROWS,
    as_csv: Annotated[bool, typer.Option("--csv", help="All rows as CSV.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="All rows as JSON.")] = False,
) -> None:
    """Print a loss, a metric, or the statistics of a tensor.

    Each statistic is shown as a sparkline, then step by step. leadline tensors lists the names.
    """
    run_name, name = _split_run(names)
    if mode not in (None, *MODES):
        raise UnknownNameError("mode", str(mode), MODES, hint="--mode")
    tensor = leadline.open_run(run_name).tensor(name)
    chosen = mode or next(iter(tensor.modes()), "train")
    found = _selected(tensor, chosen, statistic, worker)
    if as_csv:
        _write_csv(found)
    elif as_json:
        echo_json(to_json(found.to_pylist()))
    else:
        shown = statistic or _default_statistics(found.column_names)
        _print(tensor, chosen, found, rows, shown)
        others = [name for name in found.column_names if name not in (*_KEYS, *shown)]
        if others:
            typer.echo(f"\nalso captured: {', '.join(others)}; select them with --statistic")


def _split_run(names: Sequence[str]) -> tuple[str | None, str]:
    if len(names) > 2:
        raise ConfigurationError(f"one run and one tensor are needed, not {listed(names)}")
    return (names[0] if len(names) == 2 else None), names[-1]


def _selected(tensor: Tensor, mode: str, statistics: Sequence[str] | None, worker: str | None) -> pa.Table:
    """The rows and columns to show, ordered by step.

    Raises:
        NotCapturedError: There are none.
        UnknownNameError: A statistic or worker is not among those that were captured.
    """
    found = tensor.table(mode)
    known = [name for name in found.column_names if name not in _KEYS]
    if not found.num_rows:
        others = listed([known_mode for known_mode in tensor.modes() if known_mode != mode])
        stored = counted(len(tensor.steps(mode)), "step")
        why = (
            f"captured in {others}; see --mode" if others else f"stored as a raw tensor at {stored}; read it in Python"
        )
        raise NotCapturedError(f"{tensor.name} has no captured statistics in mode {mode}: {why}")
    for name in statistics or ():
        if name not in known:
            raise UnknownNameError(f"statistic of {tensor.name}", name, known)
    workers = sorted(set(found["worker"].to_pylist()))
    if worker is not None:
        if worker not in workers:
            raise UnknownNameError("worker", worker, workers, hint="--worker")
        found = found.filter(pc.equal(found["worker"], worker))
    return found.select([*_KEYS, *(statistics or known)])


def _default_statistics(columns: Sequence[str]) -> list[str]:
    """The statistics to show if none is selected: the value of a scalar, or the most telling ones of a tensor."""
    known = [name for name in columns if name not in _KEYS]
    return ["value"] if "value" in known else [name for name in _TELLING if name in known] or known[: len(_TELLING)]


def _print(tensor: Tensor, mode: str, found: pa.Table, limit: int, columns: Sequence[str]) -> None:
    shape = "scalar" if tensor.shape in ((), None) else "×".join(map(str, tensor.shape or ()))
    head = f"{tensor.name}  {shape}  {', '.join(tensor.collections)}  {counted(found.num_rows, 'row')}, mode {mode}"
    print_lines(Text(printable(head), style="bold"))
    workers = list(dict.fromkeys(found["worker"].to_pylist()))
    print_lines(table(("STATISTIC", "FIRST → LAST", "MIN … MAX", "CURVE"), [_curve(found, name) for name in columns]))
    if len(workers) > 1:
        typer.echo(f"curve of {workers[0]}, the first of {counted(len(workers), 'worker')}")
    shown = found.slice(max(0, found.num_rows - limit)) if limit > 0 else found
    if shown.num_rows < found.num_rows:
        typer.echo(f"\nthe last {shown.num_rows:,} of {found.num_rows:,} rows; --rows 0 or --csv prints all")
    else:
        typer.echo()
    keys = ("step", *(["worker"] if len(workers) > 1 else []))
    cells = [
        (f"{row['step']:,}", *(row[key] for key in keys[1:]), *(number(row[name]) for name in columns))
        for row in shown.to_pylist()
    ]
    titles = tuple(name.upper() if name in keys else name for name in (*keys, *columns))
    print_lines(table(titles, cells, right=("STEP", *columns), width=table_width()))


def _curve(found: pa.Table, statistic: str) -> tuple[str, ...]:
    """A statistic of the first worker: its name, ends, extremes, and a sparkline."""
    rows = [row for row in found.to_pylist() if row["worker"] == found["worker"][0].as_py()]
    series = [float(row[statistic]) for row in rows if row[statistic] is not None]
    finite = list(filter(math.isfinite, series))
    extremes = f"{number(min(finite))} … {number(max(finite))}" if finite else "never finite"
    ends = f"{number(series[0])} → {number(series[-1])}" if series else "–"
    return statistic, ends, extremes, sparkline(series, _SPARKLINE_WIDTH)


def _write_csv(found: pa.Table) -> None:
    """Write all rows: NaN as ``nan``, what was not captured at a step as an empty field."""
    writer = csv.writer(sys.stdout, lineterminator="\n")
    writer.writerow(found.column_names)
    for batch in found.to_batches():
        writer.writerows(row.values() for row in batch.to_pylist())
