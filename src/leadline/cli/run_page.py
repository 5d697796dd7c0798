"""The page of a run, as shown by ``leadline show``."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Iterable, Sequence
from datetime import datetime
from typing import Any, Final

from rich.console import Group, RenderableType
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from leadline.analysis.digest import Digest
from leadline.analysis.overview import overview
from leadline.cli.action_log import action_log
from leadline.cli.console import status
from leadline.cli.rule_results import rule_block
from leadline.cli.sparklines import sparkline_lines
from leadline.cli.time_breakdown import time_block
from leadline.cli.utilization import machine_block
from leadline.records import describe
from leadline.records.documents import WorkerDocument
from leadline.records.formatting import counted, duration
from leadline.records.names import JOB_ENDED
from leadline.records.totals import throttled
from leadline.store.control import read_actions

_MAX_WARNINGS: Final = 8
_MAX_MODELS: Final = 3


def page(digest: Digest, width: int) -> RenderableType:
    """The whole page: status, scalars, rule results, time breakdown, resource utilization, and next commands.

    Args:
        width: Of the terminal, in characters.
    """
    summary, workers = overview(digest.run), list(digest.run.worker_documents().values())
    actions = read_actions(digest.run.path)
    blocks = [
        head(summary, workers),
        sparkline_lines(digest, width),
        rule_block(summary["rules"]),
        action_log(actions) if actions else None,
        time_block(summary["time"]),
        machine_block(summary["time"]["usage"]),
        _warnings(workers, summary["damage"]),
        _next(summary),
    ]
    return apart(block for block in blocks if block is not None)


def apart(blocks: Iterable[RenderableType]) -> Group:
    """Blocks separated by empty lines."""
    parts: list[RenderableType] = []
    for block in blocks:
        parts += [Text(), block] if parts else [block]
    return Group(*parts)


def head(summary: dict[str, Any], workers: Sequence[WorkerDocument]) -> RenderableType:
    """Name, status, duration and steps; command, model, workers and overhead."""
    table = Table.grid(padding=(0, 2))
    facts = {
        "command": " ".join(summary["command"]),
        "model": _models(workers),
        "workers": _workers(workers),
        "overhead": describe.overhead(summary["cost"]["step_share"], written_bytes=summary["cost"]["bytes"]),
        "throttled": "; ".join(describe.throttling(throttled(workers))),
        "path": summary["uri"],
    }
    for name, value in facts.items():
        if value:
            table.add_row(Text(name, style="dim"), Text(value, overflow="fold"))
    return Group(headline(summary), Padding(table, (0, 0, 0, 2)))


def headline(summary: dict[str, Any]) -> Text:
    """``demo  Completed  after 6 m 12 s, 3,750 steps``."""
    ended = _timestamp(summary["ended"]) if summary["ended"] else time.time()
    line = Text.assemble((summary["name"], "bold"), "  ", status(summary["status"]))
    if summary["stopped_by"]:
        line.append(f" by {describe.sender(summary['stopped_by'])}")
    line.append(f"  after {duration(max(0.0, ended - _timestamp(summary['started'])))}")
    return line.append(f", {describe.steps(summary['steps'])}")


def _models(workers: Sequence[WorkerDocument]) -> str:
    models = describe.models(workers)
    optimizers = {name for worker in workers for name in worker.optimizers}
    shown = models[:_MAX_MODELS]
    more = [f"{len(models) - _MAX_MODELS:,} more"] if len(models) > _MAX_MODELS else []
    return ", ".join([*shown, *more, *sorted(optimizers)]) if models else ""


def _workers(workers: Sequence[WorkerDocument]) -> str:
    """The number of workers, nodes and states; empty for a single worker."""
    if len(workers) < 2:
        return ""
    states = Counter(worker.state for worker in workers)
    nodes = len({worker.node for worker in workers})
    counts = ", ".join(f"{count:,} {state}" for state, count in states.most_common())
    return f"{len(workers):,} on {counted(nodes, 'node')}: {counts}"


def _warnings(workers: Iterable[WorkerDocument], damages: Iterable[str]) -> RenderableType | None:
    """Problems of capture; a warning that several workers share is one line."""
    counts: Counter[str] = Counter()
    sources: dict[str, str] = {}
    for worker in workers:
        for line in (*describe.problems(worker).values(), *worker.notes):
            counts[line] += 1
            sources.setdefault(line, worker.worker)
    lines = [f"{counted(count, 'worker') if count > 1 else sources[line]}: {line}" for line, count in counts.items()]
    lines += [f"damaged: {damage}" for damage in damages]
    if not lines:
        return None
    more = [f"and {counted(len(lines) - _MAX_WARNINGS, 'more line')}: leadline show --json lists all"]
    shown = lines[:_MAX_WARNINGS] + (more if len(lines) > _MAX_WARNINGS else [])
    return Group(*(Text(line, style="yellow") for line in shown))


def _next(summary: dict[str, Any]) -> RenderableType:
    """Suggested commands."""
    name = summary["name"]
    if summary["status"] in JOB_ENDED:
        commands = {"dashboard": "leadline ui", "report": f"leadline report {name}"}
    else:
        follow, stop = f"leadline show {name} --follow", f"leadline stop {name}"
        commands = {"follow": follow, "dashboard": "leadline ui", "stop": stop}
    line = Text()
    for label, command in commands.items():
        line.append(f"{label}: ", style="dim").append(f"{command}    ")
    return line


def _timestamp(text: str) -> float:
    return datetime.fromisoformat(text).timestamp()
