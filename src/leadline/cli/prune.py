"""``leadline prune``: delete old runs, or the raw tensors of old runs."""

from __future__ import annotations

import os
import re
import time
from collections.abc import Iterable, Sequence
from typing import Annotated, Final

import typer

from leadline.cli.rm import confirm, delete
from leadline.cli.table import print_lines, table, table_width
from leadline.config.run_config import parse_size, runs_root
from leadline.control.deletion import check_deletable
from leadline.errors import ConfigurationError, LeadlineError
from leadline.reader.find_runs import list_runs
from leadline.reader.summary import RunSummary
from leadline.records.formatting import counted, size
from leadline.store.disk_limit import raw_bytes, remove_excess
from leadline.store.run_state import run_bytes

_SECONDS: Final = {"m": 60.0, "h": 3600.0, "d": 86_400.0, "w": 604_800.0}


def prune(
    root: Annotated[
        str | None, typer.Argument(help="Runs directory; default: $LEADLINE_ROOT or ./leadline-runs.")
    ] = None,
    keep: Annotated[int | None, typer.Option(help="Keep this many of the latest runs.")] = None,
    older_than: Annotated[
        str | None, typer.Option(help="Delete only runs that ended longer ago than this: 12h, 30d, 4w.")
    ] = None,
    max_disk: Annotated[
        str | None,
        typer.Option(help="Remove the raw tensors of old runs until all runs together take no more than this: 20GB."),
    ] = None,
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Delete without asking.")] = False,
) -> int:
    """Delete old runs, or only their raw tensors.

    --keep and --older-than delete whole run directories, with all captured data and reports: of the runs that have
    ended, all but the latest (--keep), and only those that ended long enough ago (--older-than); with both options, a
    run is deleted if both allow it. --max-disk removes raw tensors, those of the oldest runs first; statistics, losses,
    findings and reports stay. Lists what is deleted and asks first. Running jobs are left alone.
    """
    if keep is None and older_than is None and max_disk is None:
        raise ConfigurationError(
            "nothing to prune by; for example: leadline prune --keep 20, --older-than 30d, or --max-disk 20GB"
        )
    if max_disk is not None and (keep is not None or older_than is not None):
        raise ConfigurationError("--max-disk removes raw tensors, --keep and --older-than whole runs; give one of them")
    if keep is not None and keep < 0:
        raise ConfigurationError(f"--keep must be at least 0, not {keep}")
    seconds = _seconds(older_than) if older_than is not None else 0.0
    runs = list_runs(runs_root(root))
    if max_disk is not None:
        return _remove_raw_tensors(runs, parse_size(max_disk, "--max-disk"), is_confirmed=yes)
    chosen = [run.path for run in _old(runs[keep or 0 :], seconds) if _is_deletable(run)]
    if not chosen:
        typer.echo("no run to delete")
        return 0
    return delete(chosen, is_confirmed=yes)


def _remove_raw_tensors(runs: Sequence[RunSummary], max_bytes: int, *, is_confirmed: bool) -> int:
    """Remove raw tensors of the oldest runs; return the exit status."""
    sizes = {run.path: run_bytes(run.path) for run in runs}
    excess = sum(sizes.values()) - max_bytes
    chosen: dict[str, int] = {}
    for run in sorted(runs, key=lambda run: run.ended_ns or run.started_ns):
        removable = raw_bytes(run.path) if excess > 0 and _is_deletable(run) else 0
        if removable:
            chosen[run.path] = min(excess, removable)
            excess -= removable
    if not chosen:
        why = "they take no more" if excess <= 0 else "no run that has ended has any"
        typer.echo(f"no raw tensors to remove: {why}")
        return 0
    rows = [(os.path.basename(path), size(sizes[path]), size(nbytes)) for path, nbytes in chosen.items()]
    print_lines(table(("NAME", "SIZE", "TO REMOVE"), rows, right=("SIZE", "TO REMOVE"), width=table_width()))
    if not confirm(f"remove raw tensors of {counted(len(chosen), 'run')}?", is_confirmed=is_confirmed):
        return 1
    removed = []
    try:
        for path, nbytes in chosen.items():
            removed.append(remove_excess(path, sizes[path] - nbytes))
    except OSError as error:
        raise ConfigurationError(f"raw tensors of {os.path.basename(path)} cannot be removed: {error}") from error
    left = f"; the runs still take {size(max_bytes + excess)}, without any raw tensors to remove" if excess > 0 else ""
    typer.echo(f"removed {size(sum(one.nbytes for one in removed))} of raw tensors{left}")
    return 0


def _old(runs: Iterable[RunSummary], seconds: float) -> list[RunSummary]:
    latest_ns = time.time_ns() - round(seconds * 1e9)
    return [run for run in runs if (run.ended_ns or run.started_ns) <= latest_ns]


def _is_deletable(run: RunSummary) -> bool:
    try:
        check_deletable(run.path)
    except LeadlineError:
        return False
    return True


def _seconds(text: str) -> float:
    match = re.fullmatch(r"(\d+(?:\.\d+)?)\s*([mhdw])", text.strip())
    if match is None:
        raise ConfigurationError(f"--older-than must be a number and a unit (m, h, d or w), such as 30d, not {text!r}")
    return float(match[1]) * _SECONDS[match[2]]
