"""The report of a run, built from the chapters that apply to it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from leadline.analysis.trees import is_boosted_run
from leadline.errors import UnknownNameError
from leadline.reader.run import Run
from leadline.records import describe
from leadline.records.formatting import duration, moment, phase_label, share
from leadline.records.incarnations import Interruption
from leadline.records.profiled_rule import ProfiledRule
from leadline.records.totals import sampled
from leadline.records.version import __version__
from leadline.reports import profiling, training
from leadline.reports.section import Chapter, Report
from leadline.reports.sources import Sources

_MAX_PHASES: Final = 4
_MAX_RULES: Final = 4
_MAX_INTERRUPTIONS: Final = 5
"""The latest ones are named."""
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
    judged: list[ProfiledRule] | None = None,
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
    return Report(run.name, f"Report of {run.name}", tuple(built), _facts(sources), _first_lines(sources))


def _first_lines(sources: Sources) -> tuple[str, ...]:
    """The outcome, its cause and what to do, where the time went, and what was not evaluated."""
    return (*sources.outcome.sentences, _time(sources), _not_evaluated(sources))


def _time(sources: Sources) -> str:
    breakdown = sources.summary["time"]
    own, of_whole = describe.own_phases((phase["phase"], phase["share"]) for phase in breakdown["phases"])
    phases = [f"{phase_label(phase)} {share(ratio)}" for phase, ratio in own[:_MAX_PHASES]]
    if not phases:
        return f"Time: {duration(sources.job.seconds)}; no step was timed."
    whole = duration(sources.job.seconds)
    of_loop = f"{share(sources.job.loop_seconds / sources.job.seconds)} of {whole} in the training loop"
    bottleneck = breakdown["bound"]
    bound = f"; {bottleneck['kind']}-bound: {bottleneck['message']}" if bottleneck else ""
    return f"Time: {of_loop}; step time{of_whole}: {', '.join(phases)}{bound}."


def _not_evaluated(sources: Sources) -> str:
    rules = [rule for rule in sources.summary["rules"] if rule["verdict"] in ("undecided", "error")]
    if not sources.summary["rules"]:
        return "Not evaluated: any rule; evaluate the default ones with: leadline judge."
    named = [f"{rule['name']} ({rule['why'] or rule['verdict']})" for rule in rules[:_MAX_RULES]]
    more = [f"{len(rules) - _MAX_RULES:,} more"] if len(rules) > _MAX_RULES else []
    return f"Not evaluated: {'; '.join([*named, *more]) or 'nothing, every rule was decided'}."


def _facts(sources: Sources) -> tuple[tuple[str, str], ...]:
    """The facts at the top of the report."""
    summary, job, rules, cost = sources.summary, sources.job, sources.outcome.rules, sources.summary["cost"]
    workers = list(sources.run.worker_documents().values())
    stopped = f", stopped by {describe.sender(summary['stopped_by'])}" if summary["stopped_by"] else ""
    interrupted = [Interruption.from_dict(what) for what in summary["interruptions"]]
    facts = {
        "status": summary["status"] + stopped,
        "command": " ".join(summary["command"]),
        "started": moment(sources.run.manifest.started_ns),
        "duration": duration(job.seconds) + ("" if summary["ended"] else " so far"),
        "interrupted": "; then ".join(map(describe.interruption, interrupted[-_MAX_INTERRUPTIONS:])),
        "steps": describe.steps(summary["steps"]),
        "trainings": describe.trainings(sources.run.trainings()),
        "model": ", ".join(describe.models(workers)),
        "rules": rules.words(with_fired=True) or "no rules were evaluated",
        "overhead": describe.overhead_of(workers, cost["beside_seconds"], cost["bytes"]),
        "sampled": "; ".join(describe.sampling(sampled(workers))),
        "damaged": "; ".join(summary["damage"]),
        "created by": f"Leadline {__version__} from {summary['uri']}",
    }
    return tuple((name, fact) for name, fact in facts.items() if fact)
