"""The report of a run, built from the chapters that apply to it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from leadline.analysis.trees import is_boosted_run
from leadline.errors import UnknownNameError
from leadline.reader.run import Run
from leadline.records import describe
from leadline.records.formatting import duration, moment
from leadline.records.totals import sampled
from leadline.records.version import __version__
from leadline.reports import profiling, training
from leadline.reports.section import Chapter, Report
from leadline.reports.sources import Sources

OnProgress = Callable[[str], None]


def _xgboost(sources: Sources) -> Chapter | None:
    from leadline.reports import xgboost

    return xgboost.chapter(sources.run) if is_boosted_run(sources.run) else None


CHAPTERS: Final[dict[str, Callable[[Sources], Chapter | None]]] = {
    "training": training.chapter,
    "xgboost": _xgboost,
    "profiling": profiling.chapter,
}
"""The chapters by name; a function returns None if its chapter does not apply to the run."""


def build(
    run: Run,
    chapters: tuple[str, ...] = tuple(CHAPTERS),
    *,
    judged: list[dict[str, Any]] | None = None,
    on_progress: OnProgress = lambda text: None,
) -> Report:
    """Build the report of a run in its current state.

    Args:
        chapters: The names of the chapters; those that do not apply to the run are left out.
        judged: Results of the profiler rules that were evaluated for this report; None: those stored in the run.
        on_progress: Receives a description of each step.
    Raises:
        UnknownNameError: There is no chapter of that name.
    """
    sources = Sources(run, judged)
    built = []
    for name in chapters:
        if name not in CHAPTERS:
            raise UnknownNameError("chapter of a report", name, CHAPTERS)
        on_progress(f"building the {name} chapter")
        chapter = CHAPTERS[name](sources)
        built += [chapter] if chapter is not None else []
    return Report(run.name, f"Report of {run.name}", tuple(built), _facts(sources), sources.outcome.sentences)


def _facts(sources: Sources) -> tuple[tuple[str, str], ...]:
    """The facts at the top of the report."""
    summary, job, rules = sources.summary, sources.job, sources.outcome.rules
    workers = list(sources.run.worker_documents().values())
    stopped = f", stopped by {describe.sender(summary['stopped_by'])}" if summary["stopped_by"] else ""
    facts = {
        "status": summary["status"] + stopped,
        "command": " ".join(summary["command"]),
        "started": moment(sources.run.manifest.started_ns),
        "duration": duration(job.seconds) + ("" if summary["ended"] else " so far"),
        "steps": describe.steps(summary["steps"]),
        "model": ", ".join(describe.models(workers)),
        "rules": rules.words(with_fired=True) or "no rules were evaluated",
        "overhead": describe.overhead(summary["cost"]["step_share"], written_bytes=summary["cost"]["bytes"]),
        "sampled": "; ".join(describe.sampling(sampled(workers))),
        "damaged": "; ".join(summary["damage"]),
        "created by": f"Leadline {__version__} from {summary['uri']}",
    }
    return tuple((name, fact) for name, fact in facts.items() if fact)
