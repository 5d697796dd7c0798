"""The page of a run, as shown by ``leadline show``."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Iterable, Sequence
from datetime import datetime
from typing import Final

from rich.console import Group, RenderableType
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from leadline.analysis.digest import Digest
from leadline.analysis.overview import overview
from leadline.analysis.overview_document import RuleOverview, RunOverview
from leadline.cli.console import LEVEL_STYLES, status
from leadline.cli.measurements import machine_block, sparkline_lines, time_block
from leadline.config.store_uri import is_uri
from leadline.records import describe
from leadline.records.documents import LoggedAction, WorkerDocument
from leadline.records.formatting import counted, duration, printable
from leadline.records.incarnations import Interruption
from leadline.records.names import JOB_ENDED
from leadline.records.rule_counts import RuleCounts
from leadline.records.totals import sampled
from leadline.records.trainer_facts import CheckpointToKeep
from leadline.store.control import read_actions

_MAX_INTERRUPTIONS: Final = 5
"""The latest ones are shown."""
_MAX_WARNINGS: Final = 8
_MAX_MODELS: Final = 3
_MAX_FINDINGS: Final = 3
_MAX_NAMES: Final = 8
_MAX_REASONS: Final = 6
_MAX_FAILURES: Final = 3
_LABELS: Final = {"asked": "in progress"}


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
        rule_block(summary["rules"], summary["outcome"]["rules"], has_ended=summary["status"] in JOB_ENDED),
        action_log(actions) if actions else None,
        time_block(summary["time"], has_problem=summary["outcome"]["level"] in ("fatal", "warning")),
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


def head(summary: RunOverview, workers: Sequence[WorkerDocument]) -> RenderableType:
    """Name and outcome; status, command, model, workers and overhead."""
    table = Table.grid(padding=(0, 2))
    cost = summary["cost"]
    interruptions = [Interruption.from_dict(what) for what in summary["interruptions"]]
    facts = {
        "status": state_line(summary),
        "interrupted": "\n".join(map(describe.interruption, interruptions[-_MAX_INTERRUPTIONS:])),
        "trainings": describe.trainings(summary["trainings"]),
        "checkpoint": checkpoint_line(summary),
        "command": " ".join(summary["command"]),
        "model": _models(workers),
        "workers": _workers(workers),
        "overhead": describe.overhead_of(workers, cost["beside_seconds"], cost["bytes"]),
        "sampled": "; ".join(describe.sampling(sampled(workers))),
        "path": summary["uri"],
        "upload": summary["upload"],
        "disk": summary["removed"],
    }
    for name, value in facts.items():
        if value:
            # before the layout: a control character has no width, but the ? that is shown for it has
            table.add_row(Text(name, style="dim"), Text(printable(value, keep="\n"), overflow="fold"))
    return Group(headline(summary), Padding(table, (0, 0, 0, 2)))


def headline(summary: RunOverview) -> Text:
    """``demo  Completed: 3,750 steps, no problem found (15 rules clear).``"""
    outcome = summary["outcome"]
    return Text.assemble((summary["name"], "bold"), "  ", (outcome["text"], LEVEL_STYLES[outcome["level"]]))


def state_line(summary: RunOverview) -> str:
    """``Stopped by exploding_tensor after 6 m 12 s, 3,750 of 10,000 steps, 12 eval steps``."""
    ended = _timestamp(summary["ended"]) if summary["ended"] else time.time()
    by = f" by {describe.sender(summary['stopped_by'])}" if summary["stopped_by"] else ""
    note = f" ({summary['status_note']})" if summary["status_note"] else ""
    seconds = max(0.0, ended - _timestamp(summary["started"]))
    after = f" after {duration(seconds)}" if seconds or not summary["ended"] else ""  # a log without times has none
    return f"{summary['status']}{by}{note}{after}, {describe.steps(summary['steps'], summary['planned_steps'])}"


def checkpoint_line(summary: RunOverview) -> str:
    """The checkpoint to go back to; empty: no trainer has told of any."""
    checkpoint = summary["checkpoint"]
    return CheckpointToKeep(**checkpoint).describe() if checkpoint else ""


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


def _next(summary: RunOverview) -> RenderableType:
    """Suggested commands."""
    name = summary["uri"] if is_uri(summary["uri"]) else summary["name"]
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


def rule_block(rules: list[RuleOverview], counts: dict[str, int], *, has_ended: bool = True) -> RenderableType:
    """Rules with findings in full, then failed rules, the clear rules, and the other ones by reason.

    Args:
        rules: As in ``leadline show --json``.
        counts: As in its ``outcome``.
        has_ended: Whether the run has.
    """
    if not rules and not has_ended:
        return Text("no rules have been evaluated yet", style="dim")
    if not rules:
        return Text("no rules were evaluated for this run; evaluate them with: leadline judge", style="dim")
    table = Table.grid(padding=(0, 2))
    known = {rule["name"] for rule in rules}
    effects: dict[str, list[RuleOverview]] = {}
    for rule in rules:
        is_effect = rule["findings"] and rule["explained_by"] in known
        effects.setdefault((is_effect and rule["explained_by"]) or "", []).append(rule)
    for rule in effects.get("", ()):
        if rule["findings"] or rule["status"] == "Error":
            findings = _findings(rule, effects.get(rule["name"], ()))
            verdict = Text("error" if rule["status"] == "Error" else "fired", style=status(rule["status"]).style)
            table.add_row(Text(rule["name"]), verdict, findings)
    rest = [rule for rule in rules if not rule["findings"] and rule["status"] != "Error"]
    for remark, names in _by_remark(rest).items():
        label = f"{_names(names)}: {remark}" if remark else _names(names)
        table.add_row(Text(counted(len(names), "rule")), Text("clear", style="green"), Text(label, style="dim"))
    for label, reasons in _by_reason(rest).items():
        for why, names in reasons[:_MAX_REASONS]:
            text = f"{_names(names)}: {why}" if why else _names(names)
            table.add_row(Text(counted(len(names), "rule")), Text(label, style="dim"), Text(text, style="dim"))
        others = sum(len(names) for _, names in reasons[_MAX_REASONS:])
        if others:
            table.add_row(Text(counted(others, "rule")), Text(label, style="dim"), Text("for other reasons", "dim"))
    return Group(_count_line(counts), table)


def _by_remark(rules: list[RuleOverview]) -> dict[str, list[str]]:
    """The names of the clear rules by how often their data was sampled and how far they are clear, if there is less."""
    clear = {
        rule["name"]: "; ".join(filter(None, (rule["sampling"], rule["why"]))) for rule in rules if _is_clear(rule)
    }
    remarks = sorted(dict.fromkeys(clear.values()), key=bool)
    return {remark: [name for name, of_rule in clear.items() if of_rule == remark] for remark in remarks}


def _is_clear(rule: RuleOverview) -> bool:
    return bool(rule["verdict"] == "clear")


def _by_reason(rules: list[RuleOverview]) -> dict[str, list[tuple[str, list[str]]]]:
    """Rules that are not clear by state and reason, undecided ones first, then the most common reason."""
    by_label: dict[str, dict[str, list[str]]] = {"undecided": {}}
    for rule in rules:
        if rule["verdict"] != "clear":
            label = str(rule["verdict"] or rule["status"]).replace("_", " ")
            by_label.setdefault(label, {}).setdefault(rule["why"] or "", []).append(rule["name"])
    return {label: sorted(reasons.items(), key=lambda reason: -len(reason[1])) for label, reasons in by_label.items()}


def _names(names: list[str]) -> str:
    more = len(names) - _MAX_NAMES
    return ", ".join(names[:_MAX_NAMES]) + (f" and {more:,} more" if more > 0 else "")


def _count_line(counts: dict[str, int]) -> Text:
    rules = RuleCounts(**counts)
    of = f"{f'{rules.fired:,}' if rules.fired else 'none'} of {counted(rules.total, 'rule')}"
    return Text(f"{of} {rules.fired_words}", style="bold")


def _findings(rule: RuleOverview, effects: Sequence[RuleOverview]) -> RenderableType:
    """The first findings of a rule, what to try, and the rules whose findings follow from them."""
    if not rule["findings"]:
        return Text(rule["why"] or "", style="dim")
    lines: list[RenderableType] = []
    for finding in rule["findings"][:_MAX_FINDINGS]:
        steps = describe.steps_of(finding["step"], finding["last_step"])
        lines.append(Text(f"{steps}: {finding['message']}"))
    if rule["findings"][0]["suggestion"]:
        lines.append(Text(f"try: {rule['findings'][0]['suggestion']}", style="dim"))
    more = len(rule["findings"]) - _MAX_FINDINGS
    if more > 0:
        lines.append(Text(f"and {counted(more, 'more finding')}", style="dim"))
    if effects:
        names = ", ".join(f"{effect['name']} (step {effect['findings'][0]['step']:,})" for effect in effects)
        lines.append(Text(f"explains {names}", style="dim"))
    return Group(*lines)


def action_log(actions: Sequence[LoggedAction]) -> RenderableType:
    """One row for each action: how often it ran, its last outcome, and its failures."""
    table = Table.grid(padding=(0, 2))
    for name in dict.fromkeys(action.action for action in actions):
        table.add_row(Text(name), *_summary([action for action in actions if action.action == name]))
    return table


def _summary(actions: Sequence[LoggedAction]) -> tuple[RenderableType, RenderableType]:
    counts = Counter(action.state for action in actions)
    failed = [action for action in actions if action.has_failed]
    states = ", ".join(f"{count:,} {_LABELS.get(state, state)}" for state, count in counts.items())
    last = [action for action in actions if not action.has_failed and action.state != "skipped"][-1:]
    lines = [Text(f"{action.rule}: {action.outcome}", style="dim") for action in last]
    lines += [Text(f"{action.rule}: {action.outcome}", style="red") for action in failed[-_MAX_FAILURES:]]
    more = len(failed) - _MAX_FAILURES
    if more > 0:
        lines.append(Text(f"and {counted(more, 'earlier failure')}", style="dim"))
    return Text(states, style="red" if failed else ""), Group(*lines)
