"""A run as a report: the chapters that apply to it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from leadline.errors import UnknownNameError
from leadline.reader.run import Run
from leadline.records.formatting import duration, model, share, size
from leadline.records.overhead import format_throttling
from leadline.records.version import __version__
from leadline.reports import profiling, training
from leadline.reports.section import Chapter, Report
from leadline.reports.sources import Sources

Heard = Callable[[str], None]


def _xgboost(sources: Sources) -> Chapter | None:
    from leadline.reports import xgboost

    return xgboost.chapter(sources.run) if xgboost.is_of_trees(sources.run) else None


CHAPTERS: Final[dict[str, Callable[[Sources], Chapter | None]]] = {
    "training": training.chapter,
    "xgboost": _xgboost,
    "profiling": profiling.chapter,
}
"""Each by its name; None comes of one that does not apply to the run."""


def build(
    run: Run,
    chapters: tuple[str, ...] = tuple(CHAPTERS),
    *,
    judged: list[dict[str, Any]] | None = None,
    heard: Heard = lambda words: None,
) -> Report:
    """A report of a run as it stands.

    Args:
        chapters: Which, by name; those that do not apply to the run are left out.
        judged: How the profiler's rules stand, where somebody judged them for this; None: as the run has it.
        heard: Told what is being done, for long ones.
    Raises:
        UnknownNameError: There is no chapter of that name.
    """
    sources = Sources(run, judged)
    made = []
    for name in chapters:
        if name not in CHAPTERS:
            raise UnknownNameError("chapter of a report", name, CHAPTERS)
        heard(f"the {name} part")
        chapter = CHAPTERS[name](sources)
        made += [chapter] if chapter is not None else []
    return Report(run.name, f"Report of {run.name}", tuple(made), _facts(sources))


def _facts(sources: Sources) -> tuple[tuple[str, str], ...]:
    """What stands at the head."""
    said, job = sources.said, sources.job
    models = {model(each["name"], each["parameters"]) for worker in said["workers"] for each in worker["models"] or ()}
    steps = ", ".join(f"{count:,} {mode}" for mode, count in said["steps"].items()) or "none seen"
    stopped = f", stopped by {said['stopped_by'].removeprefix('rule:')}" if said["stopped_by"] else ""
    facts = {
        "status": said["status"] + stopped,
        "command": " ".join(said["command"]),
        "started": sources.moment(sources.run.manifest.started_ns),
        "duration": duration(job.seconds) + ("" if said["ended"] else ", and it goes on"),
        "steps": steps,
        "model": ", ".join(sorted(models)),
        "rules": _verdicts(said["rules"]),
        "watching cost": _cost(said["cost"]),
        "thinned": "; ".join(format_throttling(said["cost"]["thinned"])),
        "damaged": "; ".join(said["damage"]),
        "made by": f"Leadline {__version__} from {said['uri']}",
    }
    return tuple((name, each) for name, each in facts.items() if each)


def _verdicts(rules: list[dict[str, Any]]) -> str:
    fired = [each["name"] for each in rules if each["findings"]]
    if not rules:
        return "none judged this run"
    found = f"{len(fired)} of {len(rules)} found something" + (f": {', '.join(fired)}" if fired else "")
    undecided = sum(each["verdict"] == "undecided" and not each["findings"] for each in rules)
    return found + (f"; {undecided} undecided" if undecided else "")


def _cost(cost: dict[str, Any]) -> str:
    spoken = "" if cost["step_share"] is None else f"{share(cost['step_share'])} of the step time, "
    return f"{spoken}{size(cost['bytes'])} on disk"
