"""A run as a page of text."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Iterable
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
from leadline.cli.rule_results import verdicts
from leadline.cli.sparklines import sparkline_lines
from leadline.cli.time_breakdown import time_block
from leadline.cli.utilization import machine_block
from leadline.records.formatting import counted, duration, model, share, size
from leadline.records.names import JOB_ENDED
from leadline.records.overhead import format_throttling

_MOST_WARNINGS: Final = 8
_MOST_MODELS: Final = 3


def page(digest: Digest, width: int) -> RenderableType:
    """All of it: how the run stands, its numbers, what the rules say, where the time went, and what to do next.

    Args:
        width: Of the terminal, in characters.
    """
    said = overview(digest.run)
    done = action_log(said["actions"]) if said["actions"] else None
    blocks = [
        head(said),
        sparkline_lines(digest, width),
        verdicts(said["rules"]),
        done,
        time_block(said["time"]),
        machine_block(said["time"]["usage"]),
        _warnings(said),
        _next(said),
    ]
    return apart(each for each in blocks if each is not None)


def apart(blocks: Iterable[RenderableType]) -> Group:
    """Blocks with an empty line between them."""
    parts: list[RenderableType] = []
    for each in blocks:
        parts += [Text(), each] if parts else [each]
    return Group(*parts)


def head(said: dict[str, Any]) -> RenderableType:
    """Name, status, how long, how many steps; command, model, workers, cost."""
    table = Table.grid(padding=(0, 2))
    facts = {
        "command": " ".join(said["command"]),
        "model": _models(said["workers"]),
        "workers": _workers(said["workers"]),
        "cost": _cost(said["cost"]),
        "thinned": "; ".join(format_throttling(said["cost"]["thinned"])),
        "at": said["uri"],
    }
    for name, value in facts.items():
        if value:
            table.add_row(Text(name, style="dim"), Text(value, overflow="fold"))
    return Group(headline(said), Padding(table, (0, 0, 0, 2)))


def headline(said: dict[str, Any]) -> Text:
    """``demo  Completed  after 6 m 12 s, 3,750 steps``."""
    ended = _moment(said["ended"]) if said["ended"] else time.time()
    line = Text.assemble((said["name"], "bold"), "  ", status(said["status"]))
    if said["stopped_by"]:
        line.append(f" by {said['stopped_by'].removeprefix('rule:')}")
    line.append(f"  after {duration(max(0.0, ended - _moment(said['started'])))}")
    counts = [
        f"{counted(count, 'step')}{'' if mode == 'train' else f' of {mode}'}" for mode, count in said["steps"].items()
    ]
    return line.append(f", {', '.join(counts) or 'no step seen'}")


def _models(workers: list[dict[str, Any]]) -> str:
    models = {model(each["name"], each["parameters"]) for worker in workers for each in worker["models"] or ()}
    optimizers = {each for worker in workers for each in worker["optimizers"] or ()}
    named = sorted(models)[:_MOST_MODELS]
    more = [f"{len(models) - _MOST_MODELS:,} more"] if len(models) > _MOST_MODELS else []
    return ", ".join([*named, *more, *sorted(optimizers)]) if models else ""


def _workers(workers: list[dict[str, Any]]) -> str:
    """Of several: how many, on how many nodes, in which state."""
    if len(workers) < 2:
        return ""
    states = Counter(str(each["state"]) for each in workers)
    nodes = len({each["node"] for each in workers})
    told = ", ".join(f"{count:,} {state}" for state, count in states.most_common())
    return f"{len(workers):,} on {counted(nodes, 'node')}: {told}"


def _cost(cost: dict[str, Any]) -> str:
    spoken = "" if cost["step_share"] is None else f"{share(cost['step_share'])} of the step time, "
    return f"{spoken}{size(cost['bytes'])} on disk"


def _warnings(said: dict[str, Any]) -> RenderableType | None:
    """What went wrong with the watching; what many workers say alike is one line."""
    lines: Counter[str] = Counter()
    speakers: dict[str, str] = {}
    for worker in said["workers"]:
        for line in _of_worker(worker):
            lines[line] += 1
            speakers.setdefault(line, worker["worker"])
    told = [f"{counted(count, 'worker') if count > 1 else speakers[line]}: {line}" for line, count in lines.items()]
    told += [f"damaged: {each}" for each in said["damage"]]
    if not told:
        return None
    more = [f"and {counted(len(told) - _MOST_WARNINGS, 'more line')} like these: leadline show --json"]
    shown = told[:_MOST_WARNINGS] + (more if len(told) > _MOST_WARNINGS else [])
    return Group(*(Text(line, style="yellow") for line in shown))


def _of_worker(worker: dict[str, Any]) -> list[str]:
    lines = []
    if worker["lost"]:
        lost = worker["lost"]
        lines.append(
            f"from step {lost['since_step']:,} on something was not written: {lost['reason']} "
            f"({counted(lost['rows'], 'row')}, {counted(lost['tensors'], 'tensor')})"
        )
    if worker["off"]:
        lines.append(f"capture went off at step {worker['off']['step']:,}: {worker['off']['error']}")
    return [*lines, *(worker["notes"] or ())]


def _next(said: dict[str, Any]) -> RenderableType:
    """What may be done now."""
    name = said["name"]
    if said["status"] in JOB_ENDED:
        steps = {"look": "leadline ui", "report": f"leadline report {name}"}
    else:
        steps = {"follow": f"leadline show {name} --follow", "look": "leadline ui", "stop": f"leadline stop {name}"}
    line = Text()
    for word, command in steps.items():
        line.append(f"{word}: ", style="dim").append(f"{command}    ")
    return line


def _moment(spoken: str) -> float:
    return datetime.fromisoformat(spoken).timestamp()
