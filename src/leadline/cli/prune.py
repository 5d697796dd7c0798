"""``leadline prune``: delete old runs."""

from __future__ import annotations

import re
import time
from collections.abc import Iterable
from typing import Annotated, Final

import typer

from leadline.cli.rm import delete
from leadline.config.run_config import runs_root
from leadline.control.deletion import check_deletable
from leadline.errors import ConfigurationError, LeadlineError
from leadline.reader.find_runs import list_runs
from leadline.reader.summary import RunSummary

_SECONDS: Final = {"m": 60.0, "h": 3600.0, "d": 86_400.0, "w": 604_800.0}


def prune(
    root: Annotated[
        str | None, typer.Argument(help="Runs directory; default: $LEADLINE_ROOT or ./leadline-runs.")
    ] = None,
    keep: Annotated[int | None, typer.Option(help="Keep this many of the latest runs.")] = None,
    older_than: Annotated[
        str | None, typer.Option(help="Delete only runs that ended longer ago than this: 12h, 30d, 4w.")
    ] = None,
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Delete without asking.")] = False,
) -> int:
    """Delete old runs: whole run directories, with all captured data and reports.

    Deletes runs that have ended, except the latest (--keep), and only those that ended long enough ago
    (--older-than); with both options, a run is deleted if both allow it. Lists them and asks first. Running jobs are
    never deleted.
    """
    if keep is None and older_than is None:
        raise ConfigurationError("nothing to prune by; for example: leadline prune --keep 20, or --older-than 30d")
    if keep is not None and keep < 0:
        raise ConfigurationError(f"--keep must be at least 0, not {keep}")
    seconds = _seconds(older_than) if older_than is not None else 0.0
    chosen = [run.path for run in _old(list_runs(runs_root(root))[keep or 0 :], seconds) if _is_deletable(run)]
    if not chosen:
        typer.echo("no run to delete")
        return 0
    return delete(chosen, is_confirmed=yes)


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
