"""``leadline ls``: the runs below a folder."""

from __future__ import annotations

import time
from typing import Annotated, Any

import typer
from rich.table import Table
from rich.text import Text

from leadline.agent.wording import duration, share
from leadline.cli.prepare import runs_root
from leadline.cli.render import console, number, status
from leadline.reader.locate import RunSummary, list_runs
from leadline.records.cost import step_share


def ls(
    root: Annotated[str | None, typer.Argument(help="A folder of runs; default ./leadline-runs.")] = None,
    follow: Annotated[bool, typer.Option(help="Stay, and show how they go on.")] = False,
) -> None:
    """List the runs below a folder, the latest first."""
    place = runs_root(root)
    if not follow:
        console().print(_table(place))
        return
    from rich.live import Live

    with Live(_table(place), console=console(), auto_refresh=False) as live:
        while True:
            time.sleep(1)
            live.update(_table(place), refresh=True)


def _table(root: str) -> Table | Text:
    runs = list_runs(root)
    if not runs:
        return Text(f"no runs below {root}; leadline run train.py makes one")
    table = Table(box=None, pad_edge=False, header_style="dim", padding=(0, 2, 0, 0))
    for name in ("NAME", "STATUS", "STEPS", "LOSS", "RULES", "COST", "AGE"):
        table.add_column(name, justify="right" if name in ("STEPS", "LOSS", "COST", "AGE") else "left", no_wrap=True)
    for each in runs:
        table.add_row(*_row(each))
    return table


def _judged(rules: list[dict[str, Any]]) -> Text:
    fired = [rule["name"] for rule in rules if rule["findings"]]
    if fired:
        return Text(", ".join(fired), style="red")
    counts = [(sum(rule["verdict"] == word for rule in rules), word) for word in ("clear", "undecided")]
    return Text(", ".join(f"{count} {word}" for count, word in counts if count) or "–", style="dim")


def _row(run: RunSummary) -> tuple[str | Text, ...]:
    judged = _judged(run.rules.get("rules", []))
    losses = [loss for document in run.workers.values() for loss in (document.get("losses") or {}).values()]
    age = duration(time.time() - run.manifest.started_ns / 1e9)
    steps = run.steps.get("train") or sum(run.steps.values())
    taken = step_share(run.workers.values())
    cost = share(taken) if taken is not None else "–"
    return run.name, status(run.status), f"{steps:,}", number(losses[0]) if losses else "–", judged, cost, age
