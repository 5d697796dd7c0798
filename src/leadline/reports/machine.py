"""The sections on how the machine was used: all of it, and its GPUs."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as pc

from leadline.analysis.distribution import Distribution, balance, distributions
from leadline.figures import box_plots, usage, utilization_heat_map
from leadline.figures.units import unit_of, words_of
from leadline.figures.usage import device_words
from leadline.reports.gpu_starvation import NO_GPU
from leadline.reports.section import Chart, Column, Columns, Section, Table, empty, table_of
from leadline.reports.sources import Sources

_PERCENTILES: Final = ("max", "p99", "p95", "p50", "min")
_SPREAD: Final = ("mean", "max", "p95", "p75", "p50", "p25", "p5", "min")
_UNEVEN: Final = "They were used unevenly: {busiest} {most:.0f} % on average, {idlest} {least:.0f} %."


def system_usage(sources: Sources) -> Section:
    """Percentiles of every metric of every node, the whole system as a heat map, and its course."""
    rows = [_usage_row(each) for each in sources.digest.usage()]
    if not rows:
        return empty("system-usage", "System usage statistics", "the machine was not sampled")
    columns: Columns = {
        "node": "node",
        "metric": "metric",
        "unit": "unit",
        **{key: key for key in _PERCENTILES},
        "samples": "samples",
    }
    heat = utilization_heat_map.heat_map(
        sources.digest.system(kind=["cpu", "gpu"], metric="utilization_percent", points=300)
    )
    cpu = _select(sources.machine, "cpu", "utilization_percent", "total")
    charts = [Chart(usage.usage(cpu, title="CPU")), Chart(heat)]
    network = sources.digest.system(kind="network", device="total")
    if network.num_rows:
        charts.insert(1, Chart(usage.usage(network, title="Network")))
    words = () if sources.has_gpu else (f"GPUs: {NO_GPU}.",)
    return Section("system-usage", "System usage statistics", words, _seen(charts), (table_of(rows, columns),))


def gpu_utilization(sources: Sources) -> Section:
    """How much each GPU was used: mean, 95th and 5th percentile, and its course."""
    return _of_gpus(sources, "gpu-utilization", "GPU utilization", "utilization_percent", ("mean", "p95", "p5"))


def gpu_memory(sources: Sources) -> Section:
    """How much of each GPU's memory was taken."""
    return _of_gpus(sources, "gpu-memory", "GPU memory", "memory_used_percent", _SPREAD)


def batch_size(sources: Sources) -> Section:
    """Whether CPU, GPUs and their memory have room for a larger batch: how each is spread."""
    if not sources.has_gpu:
        return empty("batch-size", "Batch size", NO_GPU)
    run = sources.run
    found = distributions(
        pa.concat_tables(
            [
                run.system_metrics("cpu", "total", "utilization_percent"),
                run.system_metrics("gpu", None, "utilization_percent"),
                run.system_metrics("gpu", None, "memory_used_percent"),
            ]
        )
    )
    words = (
        "Where the 95th percentiles of all three lie low, a larger batch (or several trainings on one GPU) uses what "
        "now stands idle.",
    )
    charts = _seen([Chart(box_plots.boxes(found, title="CPU, GPUs and their memory"))])
    return Section("batch-size", "Batch size", words, charts, (_spread_table(found, _SPREAD),))


def load_balancing(sources: Sources) -> Section:
    """How the utilization of each GPU is distributed, one beside the other."""
    table = _select(sources.machine, "gpu", "utilization_percent", None)
    found = distributions(sources.run.system_metrics("gpu", None, "utilization_percent"))
    if len(found) < 2:
        return empty(
            "load-balancing", "Load balancing", NO_GPU if not found else "there is one GPU: nothing to balance"
        )
    words = (f"{len(found)} GPUs. {_balance(found)} Curves that lie apart mean that some do more than others.",)
    charts = _seen([Chart(usage.histogram(table, title="Distribution of the utilization of each GPU"))])
    table_ = _spread_table(found, ("mean", "p95", "p5"))
    return Section("load-balancing", "Load balancing", words, charts, (table_,))


def _balance(found: list[Distribution]) -> str:
    told = balance(found)
    if told is None or told["is_even"]:
        return "On average they were used alike."
    most, least = told["busiest"], told["idlest"]
    names = {"busiest": f"{most.node}/{most.device}", "idlest": f"{least.node}/{least.device}"}
    return _UNEVEN.format(**names, most=most.mean, least=least.mean)


def _of_gpus(sources: Sources, key: str, title: str, metric: str, shown: Sequence[str]) -> Section:
    table = _select(sources.machine, "gpu", metric, None)
    if not table.num_rows:
        return empty(key, title, NO_GPU)
    found = distributions(sources.run.system_metrics("gpu", None, metric))
    charts = [Chart(usage.usage(table)), Chart(box_plots.boxes(found, title=f"{title}, device by device"))]
    return Section(key, title, (), _seen(charts), (_spread_table(found, shown),))


def _spread_table(found: Sequence[Distribution], shown: Sequence[str]) -> Table:
    rows = [
        {**asdict(each), "what": words_of(each.kind, each.metric), "device": device_words(each.kind, each.device)}
        for each in found
    ]
    columns: Columns = {
        "node": "node",
        "what": "metric",
        "device": "device",
        **{name: Column(name, "%") for name in shown},
        "samples": "samples",
    }
    return table_of(rows, columns)


def _usage_row(each: dict[str, Any]) -> dict[str, Any]:
    """A metric in a unit that suits it."""
    unit = unit_of(each["metric"], each["max"])
    scaled = {key: each[key] * unit.factor for key in _PERCENTILES}
    words = words_of(each["kind"], each["metric"])
    device = "" if each["device"] in ("total", "job") else f", {device_words(each['kind'], each['device'])}"
    return {"node": each["node"], "metric": f"{words}{device}", "unit": unit.name, **scaled, "samples": each["samples"]}


def _select(table: pa.Table, kind: str, metric: str, device: str | None) -> pa.Table:
    keep = pc.and_(pc.equal(table["kind"], kind), pc.equal(table["metric"], metric))
    return table.filter(keep if device is None else pc.and_(keep, pc.equal(table["device"], device)))


def _seen(charts: Sequence[Chart]) -> tuple[Chart, ...]:
    """Those that show something."""
    return tuple(each for each in charts if not (each.figure.layout.meta or {}).get("empty"))
