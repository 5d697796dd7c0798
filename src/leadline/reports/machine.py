"""The sections on resource utilization: all metrics, GPUs, batch size and load balancing."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from typing import Any, Final

import pyarrow as pa

from leadline.analysis.distribution import Distribution, balance, distributions
from leadline.charts.chart import ChartView
from leadline.charts.system_charts import heat_map, metrics_histogram, metrics_over_time
from leadline.charts.units import metric_label, unit_of
from leadline.charts.usage import boxes, device_label
from leadline.reports.gpu_starvation import NO_GPU
from leadline.reports.section import Chart, Column, Columns, Section, Table, empty, table_of
from leadline.reports.sources import Sources

_PERCENTILES: Final = ("max", "p99", "p95", "p50", "min")
_DISTRIBUTION: Final = ("mean", "max", "p95", "p75", "p50", "p25", "p5", "min")
_UNEVEN: Final = "Utilization is uneven: {busiest} {high:.0f} % on average, {idlest} {low:.0f} %."


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
    text = () if sources.has_gpu else (f"GPUs: {NO_GPU}.",)
    return Section("system-usage", "System usage statistics", text, _non_empty(charts), (table_of(rows, columns),))


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
    if result is None or result["is_even"]:
        return "Utilization is even."
    busiest, idlest = result["busiest"], result["idlest"]
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


def _usage_row(entry: dict[str, Any]) -> dict[str, Any]:
    """A metric in a suitable unit."""
    unit = unit_of(entry["metric"], entry["max"])
    scaled = {key: entry[key] * unit.factor for key in _PERCENTILES}
    device = "" if entry["device"] in ("total", "job") else f", {device_label(entry['kind'], entry['device'])}"
    label = f"{metric_label(entry['kind'], entry['metric'])}{device}"
    return {"node": entry["node"], "metric": label, "unit": unit.name, **scaled, "samples": entry["samples"]}


def _non_empty(charts: Sequence[Chart]) -> tuple[Chart, ...]:
    """The charts with data."""
    return tuple(chart for chart in charts if not (chart.figure.layout.meta or {}).get("empty"))
