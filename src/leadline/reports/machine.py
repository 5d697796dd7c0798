"""The sections on resource utilization: all metrics, GPUs, batch size, load balancing, and bottlenecks of GPUs."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from leadline.analysis.time_document import Utilization
from leadline.analysis.usage import Distribution, balance, distributions
from leadline.charts import usage
from leadline.charts.chart import ChartView
from leadline.charts.phases import pie
from leadline.charts.system_charts import heat_map, metrics_histogram, metrics_over_time
from leadline.charts.units import metric_label, unit_of
from leadline.charts.usage import boxes, device_label
from leadline.reader.run import Run
from leadline.reports.section import Chart, Column, Columns, Section, Table, empty, table_of
from leadline.reports.sources import Sources

if TYPE_CHECKING:
    import numpy.typing as npt

_PERCENTILES: Final = ("max", "p99", "p95", "p50", "min")
_DISTRIBUTION: Final = ("mean", "max", "p95", "p75", "p50", "p25", "p5", "min")
_UNEVEN: Final = "Utilization is uneven: {busiest} {high:.0f} % on average, {idlest} {low:.0f} %."
_MAX_INTERVALS: Final = 200
NO_GPU: Final = "no GPU metrics were recorded in this run"


def system_usage(sources: Sources) -> Section:
    """Percentiles of all metrics by node, and charts of CPU, GPU and network utilization over time."""
    rows = [_usage_row(entry) for entry in sources.digest.usage()]
    if not rows:
        return empty("system-usage", "System usage statistics", "no system metrics were sampled")
    columns: Columns = {
        "node": "node",
        "metric": "metric",
        "unit": "unit",
        **{key: key for key in _PERCENTILES},
        "samples": "samples",
    }
    charts = (
        Chart(metrics_over_time(sources.digest, "cpu", devices="total", title="CPU")),
        Chart(metrics_over_time(sources.digest, "network", None, "total", title="Network")),
        Chart(heat_map(ChartView(sources.digest, points=300))),
    )
    return Section("system-usage", "System usage statistics", (), _non_empty(charts), (table_of(rows, columns),))


def gpu_utilization(sources: Sources) -> Section:
    """The utilization of the GPUs: mean, 95th and 5th percentile, and a chart over time."""
    return _of_gpus(sources, "gpu-utilization", "GPU utilization", "utilization_percent", ("mean", "p95", "p5"))


def gpu_memory(sources: Sources) -> Section:
    """The used share of the memory of the GPUs."""
    return _of_gpus(sources, "gpu-memory", "GPU memory", "memory_used_percent", _DISTRIBUTION)


def batch_size(sources: Sources) -> Section:
    """The distributions of CPU, GPU and GPU memory utilization, which show whether a larger batch would fit."""
    if not sources.has_gpu:
        return empty("batch-size", "Batch size", NO_GPU)
    run = sources.run
    results = distributions(
        pa.concat_tables(
            [
                run.system_metrics("cpu", "total", "utilization_percent"),
                run.system_metrics("gpu", None, "utilization_percent"),
                run.system_metrics("gpu", None, "memory_used_percent"),
            ]
        )
    )
    text = (
        "If the 95th percentiles of all three are low, a larger batch, or several trainings on one GPU, would use the "
        "idle resources.",
    )
    charts = _non_empty([Chart(boxes(results, title="Utilization of CPU, GPUs and GPU memory"))])
    return Section("batch-size", "Batch size", text, charts, (_distribution_table(results, _DISTRIBUTION),))


def load_balancing(sources: Sources) -> Section:
    """The distributions of the utilization of the GPUs."""
    results = distributions(sources.run.system_metrics("gpu", None, "utilization_percent"))
    if len(results) < 2:
        return empty("load-balancing", "Load balancing", NO_GPU if not results else "there is only one GPU")
    text = (f"{len(results)} GPUs. {_balance(results)} Different distributions mean uneven work.",)
    figure = metrics_histogram(sources.digest, "gpu", title="Distribution of the utilization by GPU")
    table = _distribution_table(results, ("mean", "p95", "p5"))
    return Section("load-balancing", "Load balancing", text, _non_empty([Chart(figure)]), (table,))


def _balance(results: list[Distribution]) -> str:
    result = balance(results)
    if result is None or result.is_even:
        return "Utilization is even."
    busiest, idlest = result.busiest, result.idlest
    names = {"busiest": f"{busiest.node}/{busiest.device}", "idlest": f"{idlest.node}/{idlest.device}"}
    return _UNEVEN.format(**names, high=busiest.mean, low=idlest.mean)


def _of_gpus(sources: Sources, key: str, title: str, metric: str, shown: Sequence[str]) -> Section:
    results = distributions(sources.run.system_metrics("gpu", None, metric))
    if not results:
        return empty(key, title, NO_GPU)
    charts = [
        Chart(metrics_over_time(sources.digest, "gpu", metric)),
        Chart(boxes(results, title=f"{title} by device")),
    ]
    return Section(key, title, (), _non_empty(charts), (_distribution_table(results, shown),))


def _distribution_table(results: Sequence[Distribution], shown: Sequence[str]) -> Table:
    rows = [
        {
            **asdict(result),
            "metric": metric_label(result.kind, result.metric),
            "device": device_label(result.kind, result.device),
        }
        for result in results
    ]
    columns: Columns = {
        "node": "node",
        "metric": "metric",
        "device": "device",
        **{name: Column(name, "%") for name in shown},
        "samples": "samples",
    }
    return table_of(rows, columns)


def _usage_row(entry: Utilization) -> dict[str, object]:
    """A metric in a suitable unit."""
    unit = unit_of(entry["metric"], entry["max"])
    scaled = {key: entry[key] * unit.factor for key in _PERCENTILES}
    device = "" if entry["device"] in ("total", "job") else f", {device_label(entry['kind'], entry['device'])}"
    label = f"{metric_label(entry['kind'], entry['metric'])}{device}"
    return {"node": entry["node"], "metric": label, "unit": unit.name, **scaled, "samples": entry["samples"]}


def _non_empty(charts: Sequence[Chart]) -> tuple[Chart, ...]:
    """The charts with data."""
    return tuple(chart for chart in charts if not (chart.figure.layout.meta or {}).get("empty"))


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
    gpu_time = pie({name: seconds * samples for name, samples in samples_by_state.items()}, title="GPU time")
    charts = [Chart(gpu_time, width="half")]
    phases = phases_then(sources, counts)
    if phases:
        charts.append(Chart(pie(phases, title="Phases of starved GPUs"), width="half"))
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
    title = f"GPU utilization and {'CPU' if cause is CPU else 'I/O wait'}"
    return Chart(usage.usage(table.filter(is_shown), title=title))


def _table(parts: dict[str, int], whole: int) -> Table:
    rows = [{"state": name, "samples": count, "share": 100.0 * count / whole} for name, count in parts.items()]
    return table_of(rows, {"state": "state", "samples": "samples", "share": "share, %"})
