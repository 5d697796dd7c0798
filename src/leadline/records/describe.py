"""Sentences about a run, made from its documents, for terminal, notebook, pages and reports."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Final, Literal

from leadline.records.documents import (
    MAX_TRAININGS,
    Announcement,
    DisabledCapture,
    DroppedData,
    DroppedSamples,
    RuleDocument,
    RuleSummary,
    SampledItem,
    SummarizedRule,
    WorkerDocument,
)
from leadline.records.formatting import counted, duration, latency, listed, model, share, size, worker_label
from leadline.records.incarnations import Interruption, ValueChange
from leadline.records.metric import NOT_SAMPLED
from leadline.records.names import OVERHEAD
from leadline.records.plan import CaptureItem, Schedule
from leadline.records.request import (
    Acknowledgement,
    AddRules,
    ChangeCapture,
    ControlRequest,
    ExecuteCommand,
    Profile,
    RemoveRules,
    SetInterval,
    Stop,
    Track,
    UnreadableRequest,
)
from leadline.records.totals import (
    StartAndRest,
    compile_seconds,
    own_seconds,
    start_and_rest,
    step_seconds,
    step_share,
    steps_behind,
)
from leadline.records.totals import trainings as trainings_of

_MOST: Final = 0.9
_LARGE_OVERHEAD: Final = 0.1
_MAX_TRAININGS: Final = 8
_MAX_SAMPLED: Final = 4
"""Collections with the same interval that are named."""
NEW_STATE: Final = "the optimizer state was not restored"
"""What is said of an optimizer without a step behind it in a run that is resumed."""
AGENT: Final = "agent-"
"""Prefix of the names of agents in acknowledgements."""


def steps(counts: Mapping[str, int], planned: int | None = None, *, nothing: str = "no steps") -> str:
    """``3,750 steps, 12 eval steps``; ``3,750 of 10,000 steps``.

    Args:
        planned: The number of train steps that the trainer plans; None: it is not known.
    """
    counts = {mode: count for mode, count in counts.items() if count}
    parts = [counted(count, "step" if mode == "train" else f"{mode} step") for mode, count in counts.items()]
    made = counts.get("train", 0)
    if planned is not None and 0 < made < planned:
        parts[list(counts).index("train")] = f"{made:,} of {counted(planned, 'step')}"
    return ", ".join(parts) or nothing


def trainings(starts: Sequence[int]) -> str:
    """``5, from steps 0, 192, 384, 576 and 768``; empty: one.

    Args:
        starts: The first train step of each.
    """
    if len(starts) < 2:
        return ""
    shown = [f"{step:,}" for step in starts[:_MAX_TRAININGS]]
    more = [f"{len(starts) - _MAX_TRAININGS:,} more"] if len(starts) > _MAX_TRAININGS else []
    return f"{len(starts):,}, from steps {listed([*shown, *more])}"


def in_trainings(workers: Iterable[WorkerDocument]) -> str:
    """`` in 5 trainings``; empty: in one."""
    count = len(trainings_of(workers))
    more = "more than " * (count >= MAX_TRAININGS)
    return f" in {more}{count:,} trainings" if count > 1 else ""


def interruption(what: Interruption) -> str:
    """``Failed with exit status 137 at step 17; resumed at step 15 after 4 s``, and what was different then."""
    how = what.status if what.exit_status in (None, 0) else f"{what.status} with exit status {what.exit_status}"
    at = f" at step {what.steps - 1:,}" if what.steps else " before the first step"
    step = f"at step {what.resumed_step:,} " if what.resumed_step is not None else ""
    after = f"after {duration((what.resumed_ns - what.ended_ns) / 1e9)}" if what.ended_ns is not None else ""
    changes = [NEW_STATE] if what.has_new_state else []
    changes += [_value_change(change) for change in what.changes]
    if what.repeated_step is not None:
        changes.append(f"the data started over: the batch was that of step {what.repeated_step}, sample by sample")
    return "; ".join([f"{how}{at}", f"resumed {step}{after}".rstrip(), *changes])


def _value_change(change: ValueChange) -> str:
    """``Adam/lr 0.00232 at step 350, 0.02 at step 400 (8.6 times that)``."""
    ratio = change.after / change.before
    times = f"{ratio:.3g} times that" if ratio >= 1 else f"{ratio:.3g} of that"
    up_to, since = ("up to", "from") if change.readings > 1 else ("at", "at")
    before = f"{change.name} {change.before:.3g} {up_to} step {change.last_step:,}"
    return f"{before}, {change.after:.3g} {since} step {change.first_step:,} ({times})"


def resumed(worker: WorkerDocument) -> str:
    """``resumed at step 400: the optimizer state was not restored``; empty for a worker that continues nothing."""
    if not worker.starts:
        return ""
    start = worker.starts[-1]
    return f"resumed at step {start.steps.get('train', 0):,}" + (f": {NEW_STATE}" if start.has_new_state else "")


def overhead(
    seconds: float | None,
    ratio: float | None,
    *,
    start: StartAndRest | None = None,
    compile_seconds: float = 0.0,
    beside_seconds: float | None = None,
    written_bytes: int | None = None,
) -> str:
    """``9.34 s (0.7 % of step time), 8.1 s of it to compile capture programs, 41 MB written``.

    Args:
        start: Its two parts: ``708 ms: 610 ms in the first 51 steps, then 1.1 % of step time``.
        beside_seconds: The processor time of Leadline's own processes: ``5.1 s of processor time beside it``.
    """
    parts = [] if seconds is None or ratio is None else [f"{latency(seconds)} ({share(ratio)} of step time)"]
    if parts and seconds is not None and start is not None:
        once = f"{latency(start.seconds)} in the first {start.steps:,} steps"
        parts = [f"{latency(seconds)}: {once}, then {share(start.step_share_since)} of step time"]
    parts += [f"{latency(compile_seconds)} of it to compile capture programs"] if compile_seconds else []
    parts += [f"{latency(beside_seconds)} of processor time beside it"] if parts and beside_seconds else []
    return ", ".join(parts if written_bytes is None else [*parts, f"{size(written_bytes)} written"])


def overhead_of(workers: Sequence[WorkerDocument], beside_seconds: float | None, written_bytes: int | None) -> str:
    """Return the overhead of a run, as ``overhead`` does."""
    return overhead(
        own_seconds(workers),
        step_share(workers),
        start=start_and_rest(workers),
        compile_seconds=compile_seconds(workers),
        beside_seconds=beside_seconds,
        written_bytes=written_bytes,
    )


def own_phases(phases: Iterable[tuple[str, float]]) -> tuple[list[tuple[str, float]], str]:
    """Return the phases of the training's own time with their shares, and what is said of the whole; empty: nothing.

    The overhead has a line of its own, as a share of another whole: the time from the first step to the last one. Where
    it is large here, the shares are those of the rest, or most of the time would seem to be missing.

    Args:
        phases: The largest phases, or all of them, with their shares of the whole time.
    """
    shares = dict(phases)
    overhead = shares.pop(OVERHEAD, 0.0)
    if overhead < _LARGE_OVERHEAD or not shares:
        return list(shares.items()), ""
    rest = 1.0 - overhead
    return [(phase, ratio / rest if rest > 0 else 0.0) for phase, ratio in shares.items()], " without Leadline"


def sampling(items: Iterable[SampledItem]) -> list[str]:
    """``gradients, weights every 200 steps on average, 50 requested``, for what misses a tenth of its captures."""
    by_interval: dict[str, list[str]] = {}
    for item in items:
        if item.captures < _MOST * item.requests:
            by_interval.setdefault(_measured_interval(item), []).append(_name_of_sampled(item))
    return [f"{_first(list(dict.fromkeys(names)))} {interval}" for interval, names in by_interval.items()]


def _name_of_sampled(item: SampledItem) -> str:
    """Return the collection, or the patterns of a request that the user has made."""
    is_by_rules = bool(item.sources) and all(source.startswith("rule:") for source in item.sources)
    patterns = "" if is_by_rules and item.collection else ", ".join(item.regexes)
    return f"{'raw ' if item.raw else ''}{patterns or item.collection or 'tensors by name'}"


def _first(names: list[str]) -> str:
    more = len(names) - _MAX_SAMPLED
    return ", ".join(names[:_MAX_SAMPLED]) + (f" and {more:,} more" if more > 0 else "")


def _measured_interval(item: SampledItem) -> str:
    mode = "" if item.mode == "train" else f" of {item.mode}"
    average = round(item.steps / item.captures) if item.captures else 0
    if item.requested_every is None or average <= item.requested_every:
        return f"at {item.captures:,} of {counted(item.requests, 'requested step')}{mode}"
    return f"every {average:,} steps{mode} on average, {item.requested_every:,} requested"


def dropped_data(dropped: DroppedData) -> str:
    """``dropped 1 row and 2 tensors since step 7: No space left on device``."""
    counts = {"row": dropped.rows, "tensor": dropped.tensors}
    names = listed([counted(count, noun) for noun, count in counts.items() if count]) or "captured data"
    return f"dropped {names} since step {_step(dropped.since_step)}: {dropped.reason}"


def dropped_samples(dropped: DroppedSamples) -> str:
    """``412 system metric samples: No space left on device``."""
    return f"{counted(dropped.samples, 'system metric sample')}: {dropped.reason}"


def ended_capture(ended: DisabledCapture) -> str:
    """``capture ended at step 3: ValueError: …``."""
    return f"capture ended at step {_step(ended.step)}: {ended.error}"


def _step(step: int | None) -> str:
    return "?" if step is None else f"{step:,}"


def problems(worker: WorkerDocument) -> dict[str, str]:
    """Return one line for dropped data (``lost``), and one for a capture that failed (``off``)."""
    lines = {"lost": dropped_data(worker.lost)} if worker.lost is not None else {}
    return lines | ({"off": ended_capture(worker.off)} if worker.off is not None else {})


def watched(worker: WorkerDocument) -> str:
    """``watching Net (62 parameters, AdamW): losses every step, statistics every 50``."""
    parameters = sum(trained.parameters for trained in worker.models)
    details = [counted(parameters, "parameter")] if parameters else []
    details += [counted(len(worker.features), "feature")] if worker.features else []
    details += dict.fromkeys(worker.optimizers)
    subject = listed([trained.name for trained in worker.models]) or "the training"
    subject += f" ({', '.join(details)})" if details else ""
    return f"watching {subject}" + (f": {worker.watching}" if worker.watching else "")


def models(workers: Iterable[WorkerDocument]) -> list[str]:
    """Return the models that workers train: ``ResNet (62 parameter tensors)``."""
    return sorted(
        {
            model(trained.name, trained.parameters, trained.elements, trained.trainable)
            for worker in workers
            for trained in worker.models
        }
    )


def sender(by: str | None) -> str:
    """Return who stopped a job: the name of a rule, ``user`` …"""
    return (by or "").removeprefix("rule:")


_LATE_SECONDS: Final = 5.0
"""A judge that is behind by what takes so long in the training no longer keeps up; it reads what is flushed."""
ENDED_EARLY: Final = "its evaluation was ended early; complete it with: leadline judge"
"""Why a rule has not judged the whole run."""


def ended_early(judged_step: int) -> str:
    """Return how far a rule is clear whose evaluation was ended early."""
    return f"clear up to step {judged_step:,}; {ENDED_EARLY}"


def judge_lag(summary: RuleSummary, workers: Iterable[WorkerDocument]) -> str:
    """Return how far the judge of a running job is behind; empty: it keeps up."""
    known = list(workers)
    behind = steps_behind(summary, known)
    is_late = behind * step_seconds(known) >= _LATE_SECONDS
    return f"the judge is {counted(behind, 'step')} behind" if is_late and summary.rules else ""


RuleStateName = Literal["fired", "error", "undecided", "clear", "not_applicable"]


def rule_state(rule: SummarizedRule | RuleDocument) -> RuleStateName:
    """Return the state of a rule in one word."""
    if rule.findings or rule.status == "IssuesFound":
        return "fired"
    if rule.status == "Error":
        return "error"
    if rule.verdict == "not_applicable":
        return "not_applicable"
    return "clear" if rule.verdict == "clear" else "undecided"


def states_of(rules: Iterable[SummarizedRule]) -> dict[str, str]:
    """Return the state of each rule by its own name; a rule that fired under any alias has fired."""
    states: dict[str, str] = {}
    for rule in rules:
        if states.get(rule.rule) != "fired":
            states[rule.rule] = rule_state(rule)
    return states


def steps_of(first: int, last: int | None) -> str:
    """``step 300``, of a finding that fired again later ``steps 300 to 1,390``."""
    return f"step {first:,}" if last is None or last <= first else f"steps {first:,} to {last:,}"


def rule_place(rule: SummarizedRule) -> str:
    """Return the step at which a rule fired first: ``step 1,312``; otherwise its state."""
    state = rule_state(rule)
    return f"step {rule.step:,}" if state == "fired" and rule.step is not None and rule.step >= 0 else state


def advice_of_cause(cause: str) -> str:
    """Return what to try about a finding that follows from those of another rule."""
    return f"the advice of {cause} first; this usually follows from it"


def advice(suggestion: str) -> str:
    """``try: clip gradients``."""
    return suggestion if "try:" in suggestion else f"try: {suggestion}"


def announcement(line: Announcement) -> str:
    """Return a new finding, or the outcome of an action, in one line."""
    prefix = f"step {line.step:,}  " if line.step is not None and line.step >= 0 else ""
    message = f"{prefix}{line.rule}: {line.message}" + (
        f" (explains {', '.join(line.explains)})" if line.explains else ""
    )
    if line.kind:
        return message
    return f"{message} → {line.action}" if line.action else message


def request(request: ControlRequest) -> str:
    """Describe a request in a few words: ``sample the machine every 100 ms``."""
    match request:
        case SetInterval() if request.interval_ms == NOT_SAMPLED:
            return "no longer sample the machine"
        case SetInterval():
            return f"sample the machine every {interval(request.interval_ms)}"
        case Profile(off=True):
            return "end profiling"
        case Profile():
            return "profile: " + "; ".join(window.describe() for window in request.windows)
        case AddRules():
            return f"add rule {', '.join(rule.alias for rule in request.rules)}"
        case RemoveRules():
            return f"remove rule {', '.join(request.rules)}"
        case ChangeCapture():
            return captured(request.collection, request.added)
        case Stop():
            return f"stop the job{f': {request.reason}' if request.is_by_rule else ''}"
        case UnreadableRequest():
            return request.problem
        case Track() | ExecuteCommand():
            return request.kind


def captured(collection: str, items: Iterable[CaptureItem], *, verb: str = "capture") -> str:
    """``capture gradients every 500 steps``; without items: ``no longer capture gradients``."""
    schedules = dict.fromkeys(schedule(item.schedule) for item in items)
    return f"{verb} {collection} {', '.join(schedules)}" if schedules else f"no longer {verb} {collection}"


def schedule(when: Schedule) -> str:
    """``every 500 steps from step 100``, ``every 60 s``, ``at steps 0, 10 and 20``."""
    parts = [] if when.every is None else ["every step" if when.every == 1 else f"every {when.every:,} steps"]
    parts += [] if when.every_seconds is None else [f"every {when.every_seconds:g} s"]
    span = (f" from step {when.start:,}" if when.start else "") + (f" before step {when.end:,}" if when.end else "")
    listed_steps = [f"at steps {listed([f'{step:,}' for step in when.steps])}"] if when.steps else []
    return " and ".join([*(part + span for part in parts), *listed_steps])


def interval(milliseconds: int) -> str:
    """``100 ms``, ``5 s``, ``1 min``, ``off``."""
    if milliseconds == NOT_SAMPLED:
        return "off"
    if milliseconds < 1000:
        return f"{milliseconds} ms"
    seconds = milliseconds / 1000
    return f"{seconds:g} s" if seconds < 60 else f"{seconds / 60:g} min"


def response(acknowledgement: Acknowledgement) -> str:
    """``accepted by host vm``, ``refused by rank 0: the run has ended``."""
    worker, answer = acknowledgement.worker, acknowledgement.answer
    who = f"host {worker.removeprefix(AGENT)}" if worker.startswith(AGENT) else worker_label(worker)
    words = {"refused": "refused by", "failed": "failed on"}.get(answer.state, "accepted by")
    return f"{words} {who}" + (f": {answer.reason}" if answer.reason else "")
