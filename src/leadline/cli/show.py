"""``leadline show``: one run as a page of text, or as JSON."""

from __future__ import annotations

import time
from typing import Annotated, Final

import typer
from rich.console import Console

import leadline
from leadline.analysis.digest import Digest
from leadline.analysis.overview import overview
from leadline.cli.arguments import RunArgument
from leadline.cli.console import console, echo_json
from leadline.cli.cost_lines import cost_lines
from leadline.cli.run_page import headline, page
from leadline.cli.table import print_lines
from leadline.errors import DamagedRunError
from leadline.reader.run import Run
from leadline.records.documents import RuleSummary
from leadline.records.formatting import counted
from leadline.records.names import JOB_ENDED
from leadline.store.run_state import read_nodes, read_rule_summary

_MIN_SECONDS: Final = 0.5
_SHARE: Final = 10.0
"""The page stays for this many times as long as it took to build."""
_LINE_SECONDS: Final = 5.0
"""The minimum interval between two lines without a terminal."""


def show(
    run: RunArgument = None,
    as_json: Annotated[bool, typer.Option("--json", help="As JSON.")] = False,
    follow: Annotated[bool, typer.Option(help="Keep updating until the run ends.", show_default=False)] = False,
    cost: Annotated[bool, typer.Option("--cost", help="What each capture cost, and what leaves it out.")] = False,
    verify: Annotated[bool, typer.Option(help="Read all files and report damage.", show_default=False)] = False,
) -> None:
    """Show the status and results of a run.

    The page contains losses and metrics, rule results, time breakdown and resource utilization.
    """
    opened = leadline.open_run(run)
    if verify:
        _verify(opened)
        return
    if as_json:
        echo_json(overview(opened))
        return
    if cost:
        workers, nodes = list(opened.worker_documents().values()), read_nodes(opened.path)
        print_lines(cost_lines(workers, nodes, read_rule_summary(opened.path) or RuleSummary()))
        return
    terminal, digest = console(), Digest(opened)
    if follow:
        _follow(digest, terminal)
    terminal.print(page(digest, terminal.width))


def _follow(digest: Digest, terminal: Console) -> None:
    """Update the page on an alternate screen until the run ends; without a terminal, print a line at intervals.

    Only new data is read, and large pages are updated less often, so that it takes a tenth of a core at most.
    """
    if not terminal.is_terminal:
        _follow_in_lines(digest, terminal)
        return
    from rich.live import Live

    with Live(console=terminal, screen=True, auto_refresh=False, vertical_overflow="crop") as live:
        while True:
            began = time.monotonic()
            live.update(page(digest, terminal.width), refresh=True)
            if digest.run.status in JOB_ENDED:
                break
            time.sleep(max(_MIN_SECONDS, _SHARE * (time.monotonic() - began)))
            _refresh(digest)
    _refresh(digest)


def _follow_in_lines(digest: Digest, terminal: Console) -> None:
    last, printed_at = "", 0.0
    while digest.run.status not in JOB_ENDED:
        now = time.monotonic()
        if now - printed_at >= _LINE_SECONDS:
            line = headline(overview(digest.run))
            if line.plain != last:
                terminal.print(line, soft_wrap=True)
            last, printed_at = line.plain, now
        time.sleep(_MIN_SECONDS)
        _refresh(digest)
    _refresh(digest)


def _refresh(digest: Digest) -> None:
    digest.run.refresh()
    digest.refresh()


def _verify(run: Run) -> None:
    damage = run.verify()
    if damage:
        raise DamagedRunError(f"{counted(len(damage), 'file')} of {run.name} cannot be read: {'; '.join(damage)}")
    console().print(f"{run.name}: no damage found")
