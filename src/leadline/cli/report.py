"""``leadline report``: a run as one file that opens without a network."""

from __future__ import annotations

import os
import re
import sys
import time
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer

import leadline
from leadline.cli.console import complain, console
from leadline.errors import ConfigurationError, MissingExtraError
from leadline.judge.judge import judge_run
from leadline.records.formatting import counted, size
from leadline.records.manifest import RuleSpec
from leadline.rules.registry import canonical

if TYPE_CHECKING:
    from leadline.reader.run import Run
    from leadline.reports.section import Report

_PAGE: Final = (".html", ".htm")
_NOTEBOOK: Final = ".ipynb"
_MOST_CHARACTERS: Final = 100
MOST_SECONDS: Final = 1800.0
"""Of longer runs the profiler's rules are not judged for a report without being asked: it would take minutes."""
_PROFILER: Final = "profiler_report"

Say = Callable[[str], None]


def report(
    run: Annotated[
        str | None, typer.Argument(help="A run's name or path; default: the latest; -1 the one before.")
    ] = None,
    output: Annotated[
        str | None,
        typer.Option("-o", "--output", metavar="FILE", help="Where to; default ./<run>-report.html."),
    ] = None,
    notebook: Annotated[
        bool, typer.Option("--notebook", help="Also write the notebook that makes the report anew, beside it.")
    ] = False,
    judge: Annotated[
        bool,
        typer.Option("--judge", help="Judge the profiler's rules for it, also of a run of more than half an hour."),
    ] = False,
) -> None:
    """Write a run as one HTML file: what was learned, what was found, where the time went; also while it runs."""
    found = leadline.open_run(run)
    path = _path(output, found)
    for line in found.damage:
        complain(line)
    status, say = _progress(found.name)
    with status:
        made = _build(found, say, is_judged=judge or _seconds(found) <= MOST_SECONDS)
        say("the file")
        written = _write(made, path, found, is_notebook=path.endswith(_NOTEBOOK), with_notebook=notebook)
    for line in written:
        console().print(line, markup=False, highlight=False, soft_wrap=True)


def _progress(name: str) -> tuple[AbstractContextManager[Any], Say]:
    """A line on a terminal that says what is being done; nothing elsewhere."""
    if not sys.stderr.isatty():
        return nullcontext(), lambda words: None
    from rich.console import Console
    from rich.markup import escape

    status = Console(stderr=True).status(escape(f"report of {name}"))
    return status, lambda words: status.update(escape(f"report of {name}: {words}"))


def _build(run: Run, say: Say, *, is_judged: bool) -> Report:
    try:
        from leadline.reports.report import build
    except ModuleNotFoundError as error:
        raise MissingExtraError(f"reports need {error.name}; install it with: pip install 'leadline[ui]'") from error
    say("the profiler's rules")
    return build(run, judged=_judged(run) if is_judged else None, heard=say)


def _judged(run: Run) -> list[dict[str, Any]] | None:
    """How the profiler's rules stand in a run that did not judge them itself; None: nobody asked them."""
    if any(canonical(each.rule) == _PROFILER for each in run.manifest.rules):
        return None
    results = judge_run(run.path, [RuleSpec(_PROFILER, _PROFILER)])
    rows: list[dict[str, Any]] = list(results.rules[0].product.get("rules", ()))
    return rows


def _seconds(run: Run) -> float:
    """How long it lasted, so far."""
    ended = run.status_document.get("ended_ns")
    return ((ended if isinstance(ended, int) else time.time_ns()) - run.manifest.started_ns) / 1e9


def _path(output: str | None, run: Run) -> str:
    """Where the report goes to.

    Raises:
        ConfigurationError: There is no such folder, or the name is none of a page or notebook.
    """
    name = f"{_file_name(run.name)}-report.html"
    if output is None:
        return os.path.join(os.curdir, name)
    if os.path.isdir(output):
        return os.path.join(output, name)
    folder = os.path.dirname(output)
    if not os.path.isdir(folder or os.curdir):
        raise ConfigurationError(f"-o {output}: there is no folder {folder}")
    if not output.endswith((*_PAGE, _NOTEBOOK)):
        raise ConfigurationError(f"-o {output}: a report's name ends in .html, a notebook's in .ipynb")
    return output


def _file_name(run: str) -> str:
    """A run's name as one that every file system takes."""
    return re.sub(r"[^\w.-]+", "_", run).strip("._-")[:_MOST_CHARACTERS] or "run"


def _write(made: Report, path: str, run: Run, *, is_notebook: bool, with_notebook: bool) -> list[str]:
    """The files, each whole or not at all; a line for each.

    Raises:
        ConfigurationError: One cannot be written there.
    """
    from leadline.reports.html import write, write_whole
    from leadline.reports.notebook import build_notebook

    lines = []
    try:
        if not is_notebook:
            sections = counted(sum(len(each.sections) for each in made.chapters), "section")
            lines.append(f"{path}: {sections}, {size(write(made, path))}; it opens in any browser, without a network")
        if is_notebook or with_notebook:
            place = path if is_notebook else os.path.splitext(path)[0] + _NOTEBOOK
            count = write_whole(place, build_notebook(made, run.path))
            lines.append(f"{place}: {size(count)}; it makes the report anew from {run.path}")
    except OSError as error:
        raise ConfigurationError(f"-o {error.filename2 or path}: {(error.strerror or str(error)).lower()}") from error
    return lines
