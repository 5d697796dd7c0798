"""The sections on what the GPUs waited for: the CPU, and input and output."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import pyarrow.compute as pc

from leadline.figures import shares, usage
from leadline.reader.run import Run
from leadline.reports.section import Chart, Section, Table, empty, table_of
from leadline.reports.sources import Sources

if TYPE_CHECKING:
    import numpy.typing as npt

_MOST_INTERVALS: Final = 200
NO_GPU: Final = "no GPU was read on any node of this run"


@dataclass(frozen=True, slots=True)
class Cause:
    """What a GPU may wait for."""

    key: str
    title: str
    metric: str
    """Of all cores of its node."""
    words: str
    short: str
    threshold: float
    """Per cent of the metric above which it is held to be the cause."""
    gpu_threshold: float
    """Per cent of a GPU below which it does little."""


CPU: Final = Cause(
    "cpu-bottlenecks", "CPU bottlenecks", "utilization_percent", "the CPU is nearly full", "CPU full", 90.0, 10.0
)
IO: Final = Cause("io-bottlenecks", "I/O bottlenecks", "iowait_percent", "cores wait for I/O", "I/O", 50.0, 70.0)


@dataclass(frozen=True, slots=True)
class StarvationSummary:
    """How the samples of all GPUs divide."""

    busy: int
    low: int
    """The GPU does little, and the cause is not there."""
    starved: int
    """The GPU does little while the cause is there."""
    times_ns: npt.NDArray[np.int64]
    """When that was, ascending; a sample tells of the interval before it."""


def bottleneck(sources: Sources, cause: Cause) -> Section:
    """How much of the time GPUs stood by because of one cause, and what the training did then."""
    course = _course(sources, cause)
    found = find_starved(sources.run, cause)
    if found is None:
        return empty(cause.key, cause.title, NO_GPU if not sources.has_gpu else "its nodes' cores were not measured")
    parts = {
        f"GPU above {cause.gpu_threshold:g} %": found.busy,
        f"GPU below {cause.gpu_threshold:g} % while {cause.words}": found.starved,
        "GPU below it for another reason": found.low,
    }
    whole = sum(parts.values())
    said = (
        f"A GPU was below {cause.gpu_threshold:g} % while {cause.words} (above {cause.threshold:g} %) in "
        f"{100 * found.starved / whole:.1f} % of {whole:,} samples of all GPUs."
    )
    drawn = {"at work": found.busy, f"waiting: {cause.short}": found.starved, "idle otherwise": found.low}
    seconds = sources.run.manifest.interval_ms / 1000
    pie = shares.pie({name: seconds * each for name, each in drawn.items()}, title="What the GPUs did")
    charts = [Chart(pie, width="half")]
    meanwhile = phases_then(sources, found)
    if meanwhile:
        words = "Phases while GPUs waited"
        charts.append(Chart(shares.pie(meanwhile, title=words), width="half"))
    return Section(cause.key, cause.title, (said,), (*charts, course), (_table(parts, whole),))


def find_starved(run: Run, cause: Cause) -> StarvationSummary | None:
    """Each sample of each GPU beside that of its node's cores; None: there is nothing to lay side by side.

    Every sample is looked at, as the rules do: the mean of some of them hides that a cause came and went.
    """
    gpus = run.system_metrics("gpu", None, "utilization_percent").select(["node", "time_ns", "value"])
    cores = run.system_metrics("cpu", "total", cause.metric).select(["node", "time_ns", "value"])
    both = gpus.join(cores.rename_columns(["node", "time_ns", "cause"]), ["node", "time_ns"], join_type="inner")
    if not both.num_rows:
        return None
    is_low = both["value"].to_numpy() < cause.gpu_threshold
    is_caused = is_low & (both["cause"].to_numpy() > cause.threshold)
    return StarvationSummary(
        int((~is_low).sum()),
        int((is_low & ~is_caused).sum()),
        int(is_caused.sum()),
        np.unique(both["time_ns"].to_numpy()[is_caused]),
    )


def phases_then(sources: Sources, found: StarvationSummary) -> dict[str, float]:
    """Seconds by phase in the moments at which GPUs waited; of very many a sample of them."""
    times = found.times_ns
    if len(times) > _MOST_INTERVALS:
        times = times[np.linspace(0, len(times) - 1, _MOST_INTERVALS).astype(int)]
    sums: dict[str, float] = {}
    interval_ns = sources.run.manifest.interval_ms * 1_000_000
    for end_ns in times.tolist():
        for name, seconds in sources.digest.phases(start_ns=end_ns - interval_ns, end_ns=end_ns).items():
            sums[name] = sums.get(name, 0.0) + seconds
    return sums


def _course(sources: Sources, cause: Cause) -> Chart:
    table = sources.machine
    is_gpu = pc.and_(pc.equal(table["kind"], "gpu"), pc.equal(table["metric"], "utilization_percent"))
    is_cause = pc.and_(pc.equal(table["device"], "total"), pc.equal(table["metric"], cause.metric))
    is_shown = pc.or_(is_gpu, pc.and_(pc.equal(table["kind"], "cpu"), is_cause))
    return Chart(usage.usage(table.filter(is_shown), title=f"GPU beside {_axis(cause)}"))


def _axis(cause: Cause) -> str:
    return "CPU" if cause is CPU else "waiting for I/O"


def _table(parts: dict[str, int], whole: int) -> Table:
    rows: list[dict[str, Any]] = [
        {"what": name, "samples": count, "share": 100.0 * count / whole} for name, count in parts.items()
    ]
    return table_of(rows, {"what": "GPU and cause", "samples": "samples", "share": "share, %"})
