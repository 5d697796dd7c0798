"""``leadline rm``: delete runs."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Sequence
from typing import Annotated

import typer

from leadline.cli.arguments import complete_run
from leadline.cli.console import complain
from leadline.cli.table import print_lines, table, table_width
from leadline.control.deletion import check_deletable, delete_run
from leadline.errors import ConfigurationError
from leadline.reader.find_runs import find_runs
from leadline.reader.summary import summarize
from leadline.records.formatting import counted, duration, size
from leadline.remote.mirror import refuse_mirror
from leadline.store.run_state import run_bytes


def rm(
    runs: Annotated[
        list[str], typer.Argument(help="Runs by name or path, or patterns ('lr-*').", autocompletion=complete_run)
    ],
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Delete without asking.")] = False,
) -> int:
    """Delete runs that have ended.

    Lists them and asks first. Nothing is deleted if one of them is still running.
    """
    paths = list(dict.fromkeys(path for argument in runs for path in _find(argument)))
    for path in paths:
        refuse_mirror(path, "leadline rm")
        check_deletable(path)
    return delete(paths, is_confirmed=yes)


def _find(argument: str) -> list[str]:
    """The runs of a name or pattern; a folder of runs is refused, as its runs were not named."""
    found = find_runs(argument)
    if os.path.isdir(argument) and os.path.abspath(argument) not in found:
        raise ConfigurationError(f"{argument} is a folder of runs; name the runs, or see leadline prune --help")
    return found


def delete(paths: Sequence[str], *, is_confirmed: bool) -> int:
    """List runs, ask whether they should be deleted, and delete them; return the exit status.

    Raises:
        ConfigurationError: A confirmation is needed, but there is no terminal to ask on.
    """
    sizes = [run_bytes(path) for path in paths]
    rows = [_row(path, nbytes) for path, nbytes in zip(paths, sizes, strict=True)]
    print_lines(table(("NAME", "AGE", "SIZE", "OUTCOME"), rows, right=("AGE", "SIZE"), width=table_width()))
    what = f"{counted(len(paths), 'run')} ({size(sum(sizes))})"
    question = f"delete {what} with everything in {'them' if len(paths) > 1 else 'it'}?"
    if not confirm(question, is_confirmed=is_confirmed):
        return 1
    failures = [failure for path in paths if (failure := _delete(path))]
    for failure in failures:
        complain(failure)
    if len(failures) < len(paths):
        typer.echo(f"deleted {what if not failures else counted(len(paths) - len(failures), 'run')}")
    return 1 if failures else 0


def confirm(question: str, *, is_confirmed: bool) -> bool:
    """Ask whether something should be deleted, unless that is confirmed already.

    Raises:
        ConfigurationError: A confirmation is needed, but there is no terminal to ask on.
    """
    if is_confirmed:
        return True
    if not sys.stdin.isatty():
        raise ConfigurationError("deleting needs a confirmation: answer on a terminal, or add --yes")
    if typer.confirm(question):
        return True
    typer.echo("nothing was deleted")
    return False


def _delete(path: str) -> str:
    """Delete a run; return why that was not possible."""
    try:
        delete_run(path)
    except (ConfigurationError, FileNotFoundError) as error:
        return str(error)
    return ""


def _row(path: str, nbytes: int) -> tuple[str, ...]:
    summary = summarize(path)
    if summary is None:
        return os.path.basename(path), "–", size(nbytes), "–"
    return os.path.basename(path), duration(time.time() - summary.started_ns / 1e9), size(nbytes), summary.outcome.text
