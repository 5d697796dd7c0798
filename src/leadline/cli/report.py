"""``leadline report``: a run as one self-contained HTML file."""

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
from leadline.cli.arguments import RunArgument
from leadline.cli.console import complain, console, error_console
from leadline.errors import ConfigurationError, MissingExtraError
from leadline.judge.judge import judge_run
from leadline.reader.pandas_import import skip_pandas_import
from leadline.records.formatting import counted, size
from leadline.records.manifest import RuleSpec
from leadline.records.profiled_rule import ProfiledRule
from leadline.rules.registry import canonical

if TYPE_CHECKING:
    from leadline.reader.run import Run
    from leadline.reports.section import Report

_PAGE: Final = (".html", ".htm")
_NOTEBOOK: Final = ".ipynb"
_MAX_CHARACTERS: Final = 100
MAX_SECONDS: Final = 1800.0
"""The profiler rules are not evaluated for reports of longer runs unless requested: it would take minutes."""
_PROFILER: Final = "profiler_report"

Progress = Callable[[str], None]


def report(
    run: RunArgument = None,
    output: Annotated[
        str | None,
        typer.Option("-o", "--output", metavar="FILE", help="Output file; default ./<run>-report.html."),
    ] = None,
    notebook: Annotated[
        bool, typer.Option("--notebook", help="Also write a notebook that rebuilds the report, beside it.")
    ] = False,
    judge: Annotated[
        bool,
        typer.Option("--judge", help="Evaluate the profiler rules also for runs of more than half an hour."),
    ] = False,
) -> None:
    """Write the report of a run as one HTML file.

    The run may still be active.
    """
    skip_pandas_import()
    opened = leadline.open_run(run)
    path = report_path(output, opened)
    for line in opened.damage:
        complain(line)
    status, show_progress = _progress(opened.name)
    with status:
        document = build_judged(opened, show_progress, must_judge=judge)
        show_progress("writing the file")
        written = write_files(document, path, opened, is_notebook=path.endswith(_NOTEBOOK), with_notebook=notebook)
    for line in written:
        console().print(line, markup=False, highlight=False, soft_wrap=True)


def _progress(name: str) -> tuple[AbstractContextManager[Any], Progress]:
    """A status line on a terminal and the function that updates it; without a terminal, nothing is shown."""
    if not sys.stderr.isatty():
        return nullcontext(), lambda text: None
    from rich.markup import escape

    status = error_console().status(escape(f"report of {name}"))
    return status, lambda text: status.update(escape(f"report of {name}: {text}"))


def build_judged(run: Run, show_progress: Progress = lambda text: None, *, must_judge: bool = False) -> Report:
    """Build the report of a run, with the results of the profiler rules.

    Args:
        must_judge: Whether they are evaluated for a long run, too.
    Raises:
        MissingExtraError: A library for rendering is not installed.
    """
    try:
        from leadline.reports.report import build
    except ModuleNotFoundError as error:
        raise MissingExtraError(f"reports need {error.name}; install it with: pip install 'leadline[ui]'") from error
    show_progress("evaluating the profiler rules")
    is_judged = must_judge or _seconds(run) <= MAX_SECONDS
    return build(run, judged=_profiler_results(run) if is_judged else None, on_progress=show_progress)


def _profiler_results(run: Run) -> list[ProfiledRule] | None:
    """The results of the profiler rules for a run that did not evaluate them itself; None if it did."""
    if any(canonical(spec.rule) == _PROFILER for spec in run.manifest.rules):
        return None
    results = judge_run(run.path, [RuleSpec(_PROFILER, _PROFILER)])
    rows: list[ProfiledRule] = list(results.rules[0].product.get("rules", ()))
    return rows


def _seconds(run: Run) -> float:
    """The duration of the run so far."""
    return ((run.status_document.ended_ns or time.time_ns()) - run.manifest.started_ns) / 1e9


def report_path(output: str | None, run: Run) -> str:
    """The path of the report.

    Raises:
        ConfigurationError: There is no such folder, or the name has another extension than a page or notebook.
    """
    name = f"{_file_name(run.name)}-report.html"
    if output is None:
        return os.path.join(os.curdir, name)
    if os.path.isdir(output):
        return os.path.join(output, name)
    folder = os.path.dirname(output)
    if not os.path.isdir(folder or os.curdir):
        raise ConfigurationError(f"-o {output}: no such folder: {folder}")
    if not output.endswith((*_PAGE, _NOTEBOOK)):
        raise ConfigurationError(f"-o {output}: a report must end in .html, a notebook in .ipynb")
    return output


def _file_name(run: str) -> str:
    """A file name of a run that is valid on every file system."""
    return re.sub(r"[^\w.-]+", "_", run).strip("._-")[:_MAX_CHARACTERS] or "run"


def write_files(document: Report, path: str, run: Run, *, is_notebook: bool, with_notebook: bool) -> list[str]:
    """Write the files, each completely or not at all; return a line for each.

    Raises:
        ConfigurationError: A file cannot be written.
    """
    from leadline.reports.files import build_notebook, write, write_whole

    lines = []
    try:
        if not is_notebook:
            sections = counted(sum(len(chapter.sections) for chapter in document.chapters), "section")
            lines.append(
                f"{path}: {sections}, {size(write(document, path))}; opens in any browser, without a network connection"
            )
        if is_notebook or with_notebook:
            notebook_path = path if is_notebook else os.path.splitext(path)[0] + _NOTEBOOK
            count = write_whole(notebook_path, build_notebook(document, run.path))
            lines.append(f"{notebook_path}: {size(count)}; rebuilds the report from {run.path}")
    except OSError as error:
        raise ConfigurationError(f"-o {error.filename2 or path}: {(error.strerror or str(error)).lower()}") from error
    return lines
