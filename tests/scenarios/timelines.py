"""Timelines and system metrics for synthetic runs."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Final

from leadline.records.event import Event
from leadline.records.metric import Channel
from leadline.records.series import TensorInfo
from leadline.testing.runs import SECOND_NS, START_NS, Capture, DetailedProfile, Part, SystemSample, TimelineEvent

MS: Final = SECOND_NS // 1000
WORKER: Final = "rank0-1"
CPU: Final = Channel("cpu", "total", "utilization_percent")
IOWAIT: Final = Channel("cpu", "total", "iowait_percent")
MEMORY: Final = Channel("memory", "total", "used_percent")
RSS: Final = Channel("process", "job", "rss_bytes")
RESIDENT: Final = "process/rss_bytes"


def gpu(number: int, metric: str = "utilization_percent") -> Channel:
    """Return a channel of a GPU."""
    return Channel("gpu", f"gpu{number}", metric)


def resident(
    course: Sequence[float], *, name: str = RESIDENT, every: int = 10, step_ns: int = 10 * MS, worker: str = WORKER
) -> list[Part]:
    """Return the readings of a process' memory at every few steps."""
    infos = {name: TensorInfo(name, ("checks",), (), "float64")}
    return [
        Capture(
            index * every, {name: {"value": value}}, worker, time_ns=START_NS + index * every * step_ns, infos=infos
        )
        for index, value in enumerate(course)
    ]


def step_rows(
    step: int,
    start_ns: int,
    phases: Mapping[str, float],
    *,
    worker: str = WORKER,
    mode: str = "train",
    within: Mapping[str, str] | None = None,
    other_ms: float = 0.0,
    cpu_ms: Mapping[str, float] | None = None,
    ready_ms: Mapping[str, float] | None = None,
) -> list[TimelineEvent]:
    """Return the rows of one step, in the order in which they end; the last one is the step itself.

    Args:
        phases: Milliseconds of each phase, one after the other; a nested phase starts with its outer phase.
        within: The outer phase of each nested phase.
        other_ms: The time of the step outside its phases.
        cpu_ms: Milliseconds of processor time in each phase, where it was taken.
        ready_ms: Milliseconds of the ready times in its args, by name without unit.
    """
    within, at_ns = within or {}, start_ns
    begins: dict[str, int] = {}
    rows: list[Event] = []
    for name, length_ms in phases.items():
        if name in within:
            begin = begins.get(within[name], at_ns)
        else:
            begin = begins[name] = at_ns
            at_ns += round(length_ms * MS)
        args = {"within": within[name]} if name in within else {}
        rows.append(Event(name, step, begin, round(length_ms * MS), mode, args=args))
    at_ns += round(other_ms * MS)
    cpu = {f"{name}_cpu_ns": round(length_ms * MS) for name, length_ms in (cpu_ms or {}).items()}
    ready = {f"{name}_ns": round(length_ms * MS) for name, length_ms in (ready_ms or {}).items()}
    rows.append(Event("step", step, start_ns, at_ns - start_ns, mode, args=cpu | ready))
    rows.sort(key=lambda event: event.start_ns + event.duration_ns)
    return [TimelineEvent(event, worker) for event in rows]


def training(
    steps: Iterable[Mapping[str, float]],
    *,
    worker: str = WORKER,
    start_ns: int = START_NS,
    first_step: int = 0,
    within: Mapping[str, str] | None = None,
    other_ms: float = 0.0,
    cpu_ms: Mapping[str, float] | None = None,
    delayed_ms: Mapping[str, float] | None = None,
    has_captures: bool = True,
) -> list[Part]:
    """Return the timeline of successive training steps.

    Args:
        steps: Milliseconds by phase, for each step.
        cpu_ms: Milliseconds of processor time in each phase of every step.
        delayed_ms: Milliseconds of each phase for which the thread waited for a processor, where that is known;
            ``other``: between the phases.
        has_captures: Whether a loss was captured at each step.
    """
    parts: list[Part] = []
    thread = {"ready": 0.0, "run_delay": 0.0}
    for step, phases in enumerate(steps, first_step):
        ready = None
        if delayed_ms is not None:
            used = {name: (cpu_ms or {}).get(name, 0.0) for name in {**phases, "other": 0.0}}
            both = {name: ms + delayed_ms.get(name, 0.0) for name, ms in used.items()}
            thread["run_delay"] += sum(delayed_ms.values())
            thread["ready"] += sum(both.values())
            ready = {**{f"{name}_ready": both[name] for name in phases}, **thread}
        taken = {"ready_ms": ready} if ready else {"cpu_ms": cpu_ms}
        rows = step_rows(step, start_ns, phases, worker=worker, within=within, other_ms=other_ms, **taken)
        parts += rows
        start_ns += rows[-1].event.duration_ns
        if has_captures:
            parts.append(Capture(step, {"loss": {"value": 1.0}}, worker=worker, time_ns=start_ns))
    return parts


def sampled(
    channels: Mapping[Channel, Sequence[float]],
    *,
    node: str = "node",
    start_ns: int = START_NS,
    every_ms: float = 500.0,
) -> list[SystemSample]:
    """Return samples of channels at a fixed interval, the first one interval after the start."""
    longest = max(map(len, channels.values()), default=0)
    return [
        SystemSample(start_ns + round((index + 1) * every_ms * MS), values[index], channel, node)
        for index in range(longest)
        for channel, values in channels.items()
        if index < len(values)
    ]


def merge_by_time(*scenarios: Sequence[Part]) -> list[Part]:
    """Merge scenarios into one, in order of time."""
    return sorted((part for scenario in scenarios for part in scenario), key=_time_of)


def _time_of(part: Part) -> int:
    match part:
        case SystemSample():
            return part.time_ns
        case TimelineEvent():
            return part.event.start_ns + part.event.duration_ns
        case Capture():
            return part.at_ns
        case DetailedProfile():
            return part.complete_ns
        case _:
            return START_NS + part.step * SECOND_NS // 10
