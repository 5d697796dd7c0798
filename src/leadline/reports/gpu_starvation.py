"""The sections on CPU and I/O bottlenecks of GPUs."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import pyarrow.compute as pc

from leadline.charts import shares, usage
from leadline.reader.run import Run
from leadline.reports.section import Chart, Section, Table, empty, table_of
from leadline.reports.sources import Sources

if TYPE_CHECKING:
    import numpy.typing as npt

_MAX_INTERVALS: Final = 200
NO_GPU: Final = "no GPU metrics were recorded in this run"


@dataclass(frozen=True, slots=True)
class Cause:
    """A possible cause of GPU starvation."""

    key: str
    title: str
    metric: str
    """The metric, over all cores of the node."""
    condition: str
    short: str
    threshold: float
    """The value of the metric in percent above which it counts as the cause."""
    gpu_threshold: float
    """The utilization in percent below which a GPU counts as idle."""


CPU: Final = Cause(
    "cpu-bottlenecks", "CPU bottlenecks", "utilization_percent", "the CPU is saturated", "CPU saturated", 90.0, 10.0
)
IO: Final = Cause("io-bottlenecks", "I/O bottlenecks", "iowait_percent", "CPU cores wait for I/O", "I/O", 50.0, 70.0)


@dataclass(frozen=True, slots=True)
class StarvationSummary:
    """Counts of the samples of all GPUs."""

    busy: int
    low: int
    """Samples of an idle GPU without the cause."""
    starved: int
    """Samples of an idle GPU with the cause."""
    times_ns: npt.NDArray[np.int64]
    """The times of the starved samples, ascending; a sample covers the interval before it."""


def bottleneck(sources: Sources, cause: Cause) -> Section:
    """The share of time in which GPUs were idle due to one cause, and the phases of the training at these times."""
    chart = _course(sources, cause)
    counts = find_starved(sources.run, cause)
    if counts is None:
        return empty(
            cause.key, cause.title, NO_GPU if not sources.has_gpu else "no CPU metrics were recorded on nodes with GPUs"
        )
    parts = {
        f"GPU above {cause.gpu_threshold:g} %": counts.busy,
        f"GPU below {cause.gpu_threshold:g} % while {cause.condition}": counts.starved,
        f"GPU below {cause.gpu_threshold:g} % otherwise": counts.low,
    }
    whole = sum(parts.values())
    text = (
        f"A GPU was below {cause.gpu_threshold:g} % while {cause.condition} (above {cause.threshold:g} %) in "
        f"{100 * counts.starved / whole:.1f} % of {whole:,} samples of all GPUs."
    )
    samples_by_state = {
        "busy": counts.busy,
        f"waiting: {cause.short}": counts.starved,
        "idle for other reasons": counts.low,
    }
    seconds = sources.run.manifest.interval_ms / 1000
    pie = shares.pie({name: seconds * samples for name, samples in samples_by_state.items()}, title="GPU time")
    charts = [Chart(pie, width="half")]
    phases = phases_then(sources, counts)
    if phases:
        charts.append(Chart(shares.pie(phases, title="Phases of starved GPUs"), width="half"))
    return Section(cause.key, cause.title, (text,), (*charts, chart), (_table(parts, whole),))


def find_starved(run: Run, cause: Cause) -> StarvationSummary | None:
    """Compare each sample of each GPU with the CPU metric of its node; None without common samples.

    All samples are used, as in the rules: means over several samples would hide short causes.
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


def phases_then(sources: Sources, counts: StarvationSummary) -> dict[str, float]:
    """Seconds by phase at the times of starved GPUs; if there are many, in a sample of them."""
    times = counts.times_ns
    if len(times) > _MAX_INTERVALS:
        times = times[np.linspace(0, len(times) - 1, _MAX_INTERVALS).astype(int)]
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
    return Chart(usage.usage(table.filter(is_shown), title=f"GPU utilization and {_axis(cause)}"))


def _axis(cause: Cause) -> str:
    return "CPU" if cause is CPU else "I/O wait"


def _table(parts: dict[str, int], whole: int) -> Table:
    rows: list[dict[str, Any]] = [
        {"state": name, "samples": count, "share": 100.0 * count / whole} for name, count in parts.items()
    ]
    return table_of(rows, {"state": "state", "samples": "samples", "share": "share, %"})
