"""``leadline show``: one run, as a page of text or as JSON."""

from __future__ import annotations

import json
import time
from datetime import datetime
from typing import Annotated, Any

import typer
from rich.console import Console, Group, RenderableType
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

import leadline
from leadline.agent.wording import counted, duration, share, size
from leadline.cli.overview import overview
from leadline.cli.render import console, number, status
from leadline.errors import DamagedRunError
from leadline.reader.run import Run
from leadline.records.cost import spoken_thinning
from leadline.records.names import JOB_ENDED, MODES

_MOST_FINDINGS = 3
_MOST_SCALARS = 16


def show(
    run: Annotated[
        str | None, typer.Argument(help="A run's name or path; default: the latest; -1 the one before.")
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="As JSON.")] = False,
    follow: Annotated[bool, typer.Option(help="Stay, and show how it goes on.")] = False,
    verify: Annotated[bool, typer.Option(help="Read every part and say what is damaged.")] = False,
) -> None:
    """Show a run: how it stands, what the rules found, what was captured."""
    found = leadline.open_run(run)
    if verify:
        _verify(found)
        return
    if as_json:
        typer.echo(json.dumps(overview(found), indent=2, ensure_ascii=False))
        return
    if follow:
        _follow(found, console())
        return
    console().print(page(found))


def page(run: Run) -> RenderableType:
    """A run as a page of text."""
    said = overview(run)
    parts: list[RenderableType] = [_head(run, said), Text()]
    parts += (
        [_rules(said["rules"]), Text()] if said["rules"] else [Text("no rule judged this run", style="dim"), Text()]
    )
    parts.append(_captured(run))
    warnings = _warnings(said)
    return Group(*parts, *([Text(), *warnings] if warnings else []))


def _head(run: Run, said: dict[str, Any]) -> RenderableType:
    ended = _moment(said["ended"]) if said["ended"] else time.time()
    line = Text.assemble((run.name, "bold"), "  ", status(said["status"]))
    if said["stopped_by"]:
        line.append(f" by {said['stopped_by'].removeprefix('rule:')}")
    line.append(f"  after {duration(ended - _moment(said['started']))}")
    counts = [
        f"{counted(count, 'step')}{'' if mode == 'train' else f' of {mode}'}" for mode, count in said["steps"].items()
    ]
    line.append(f", {', '.join(counts) or 'no step seen'}")
    models = {
        f"{each['name']} ({each['parameters']} parameters)" for worker in said["workers"] for each in worker["models"]
    }
    optimizers = {each for worker in said["workers"] for each in worker["optimizers"]}
    facts = [
        ("command", " ".join(said["command"])),
        ("model", f"{', '.join(sorted(models))}, {', '.join(sorted(optimizers))}" if models else ""),
        ("cost", _cost(said["cost"])),
        ("thinned", "; ".join(spoken_thinning(said["cost"]["thinned"]))),
        ("at", said["uri"]),
    ]
    table = Table.grid(padding=(0, 2))
    for name, value in facts:
        if value:
            table.add_row(Text(name, style="dim"), Text(value, overflow="fold"))
    return Group(line, Padding(table, (0, 0, 0, 2)))


def _cost(cost: dict[str, Any]) -> str:
    spoken = "" if cost["step_share"] is None else f"{share(cost['step_share'])} of the step time, "
    return f"{spoken}{size(cost['bytes'])} on disk"


def _rules(rules: list[dict[str, Any]]) -> RenderableType:
    table = Table.grid(padding=(0, 2))
    for rule in sorted(rules, key=lambda each: not each["findings"]):
        shown = "undecided" if rule["verdict"] == "undecided" and not rule["findings"] else rule["status"]
        table.add_row(Text(rule["name"]), status(shown), _findings(rule))
    return table


def _findings(rule: dict[str, Any]) -> RenderableType:
    if not rule["findings"]:
        return Text(rule["why"] or "", style="dim")
    lines: list[RenderableType] = []
    for each in rule["findings"][:_MOST_FINDINGS]:
        until = f" to {each['last_step']:,}" if each["last_step"] > each["step"] else ""
        lines.append(Text(f"step {each['step']:,}{until}: {each['message']}"))
    if rule["explained_by"]:
        lines.append(Text(f"usually follows from what {rule['explained_by']} found", style="dim"))
    elif rule["findings"][0]["suggestion"]:
        lines.append(Text(rule["findings"][0]["suggestion"], style="dim"))
    more = len(rule["findings"]) - _MOST_FINDINGS
    if more > 0:
        lines.append(Text(f"and {counted(more, 'more finding')}", style="dim"))
    return Group(*lines)


def _captured(run: Run) -> RenderableType:
    table = Table.grid(padding=(0, 2))
    courses = _courses(run)
    for name, mode, values in courses[:_MOST_SCALARS]:
        course = f"{number(values[0])} → {number(values[-1])}"
        finite = [each for each in values if each == each and abs(each) != float("inf")]
        extremes = f"least {number(min(finite))}, most {number(max(finite))}" if finite else "never finite"
        counts = Text(f"{extremes}, {counted(len(values), 'value')}", style="dim")
        table.add_row(Text(name), Text("" if mode == "train" else mode, style="dim"), Text(course), counts)
    if len(courses) > _MOST_SCALARS:
        table.add_row(Text(f"and {counted(len(courses) - _MOST_SCALARS, 'more scalar')}", style="dim"))
    tensors = [
        counted(len(names), noun, "biases" if noun == "bias" else "")
        for noun, names in (
            ("gradient", run.tensor_names(collection="gradients")),
            ("weight", run.tensor_names(collection="weights")),
            ("bias", run.tensor_names(collection="biases")),
            ("activation", run.tensor_names(collection="layers")),
        )
        if names
    ]
    captured = Text(f"captured: {', '.join(tensors)}" if tensors else "", style="dim")
    return Group(table, captured)


def _courses(run: Run) -> list[tuple[str, str, list[float]]]:
    """The values of each loss, metric and logged scalar in each mode, in the order of their steps."""
    found: list[tuple[str, str, list[float]]] = []
    for collection in ("losses", "metrics", "scalars"):
        for name in run.tensor_names(collection=collection):
            by_mode: dict[str, list[float]] = {}
            for row in run.tensor(name).statistics("value").select(["mode", "value"]).to_pylist():
                by_mode.setdefault(row["mode"], []).append(row["value"])
            found += [(name, mode, by_mode[mode]) for mode in sorted(by_mode, key=MODES.index)]
    return found


def _warnings(said: dict[str, Any]) -> list[RenderableType]:
    lines = []
    for worker in said["workers"]:
        if worker["lost"]:
            lost = worker["lost"]
            lines.append(
                f"{worker['worker']}: from step {lost['since_step']:,} on something was not written: {lost['reason']} "
                f"({counted(lost['rows'], 'row')}, {counted(lost['tensors'], 'tensor')})"
            )
        if worker["off"]:
            lines.append(
                f"{worker['worker']}: capture went off at step {worker['off']['step']:,}: {worker['off']['error']}"
            )
        lines += [f"{worker['worker']}: {note}" for note in worker["notes"] or ()]
    lines += [f"damaged: {each}" for each in said["damage"]]
    return [Text(line, style="yellow") for line in lines]


def _follow(run: Run, terminal: Console) -> None:
    from rich.live import Live

    with Live(page(run), console=terminal, auto_refresh=False) as live:
        while run.status not in JOB_ENDED:
            time.sleep(0.5)
            run.refresh()
            live.update(page(run), refresh=True)


def _verify(run: Run) -> None:
    damage = run.verify()
    if damage:
        raise DamagedRunError(f"{counted(len(damage), 'part')} of {run.name} cannot be read: {'; '.join(damage)}")
    console().print(f"{run.name}: every part is whole")


def _moment(spoken: str) -> float:
    return datetime.fromisoformat(spoken).timestamp()
