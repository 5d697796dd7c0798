"""Nodes page of a run: system metrics of each node above the training phases."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Final

from starlette.requests import Request
from starlette.responses import Response

from leadline.analysis.digest import Digest
from leadline.charts.system_charts import DATA_IO
from leadline.dashboard.page import open_run, render
from leadline.reader.interval import Sensor
from leadline.reader.run import Run
from leadline.reader.window import natural_sort_key
from leadline.records import describe
from leadline.records.documents import NodeDocument
from leadline.records.names import JOB_ENDED
from leadline.store.run_state import read_nodes

_LAST_STEPS: Final = (30, 100, 300)
"""Selectable numbers of last steps."""


def nodes(request: Request) -> Response:
    """Serve ``/runs/{run}/nodes``."""
    opened = open_run(request)
    with opened.lock:
        views = node_views(opened.run, opened.digest)
        context = {
            "nodes": views,
            "node": chosen(views, request.query_params.get("node")),
            "data_io": DATA_IO,
            "last": _LAST_STEPS,
            "workers": opened.digest.workers(),
            "is_over": opened.run.status in JOB_ENDED,
            "span_ns": opened.digest.span_ns(),
            "progress": opened.digest.progress,
        }
    return render(request, "nodes.html", context, page="nodes")


@dataclass(frozen=True, slots=True)
class UsageChart:
    """A chart of utilization over time, and its selectable devices."""

    key: str
    title: str
    kind: str
    metrics: tuple[str, ...]
    devices: tuple[str, ...] = ()
    """Empty: no device selection."""
    noun: str = ""
    """Noun for the devices: ``core`` or ``GPU``."""
    total: str = ""
    """Device that represents all; "": their mean is drawn."""


CHARTS: Final = (
    UsageChart("cpu", "CPU", "cpu", ("utilization_percent",), noun="core", total="total"),
    UsageChart("network", "Network", "network", ("received_bytes_per_second", "sent_bytes_per_second")),
    UsageChart("gpu", "GPU", "gpu", ("utilization_percent",), noun="GPU"),
    UsageChart("gpu-memory", "GPU memory", "gpu", ("memory_used_percent",), noun="GPU"),
    UsageChart("memory", "Memory", "memory", ("used_percent",)),
    UsageChart("iowait", "I/O wait", "cpu", ("iowait_percent",)),
    UsageChart("job", "Job CPU", "process", ("cpu_percent",)),
    UsageChart("job-memory", "Job memory (RSS)", "process", ("rss_bytes",)),
)
"""Charts of a node in display order."""


@dataclass(frozen=True, slots=True)
class NodeView:
    """A node and its sensors."""

    name: str
    label: str
    """``algo-1 (vm)`` if there are several nodes: number and host name."""
    cores: tuple[str, ...]
    gpus: tuple[str, ...]
    metrics: frozenset[tuple[str, str]]
    """Kind and metric of all sensors."""
    document: NodeDocument

    def has(self, kind: str, metric: str) -> bool:
        """Return whether the metric was sampled."""
        return (kind, metric) in self.metrics

    @property
    def has_data_io(self) -> bool:
        """Whether it was sampled what is read from disks and written to them."""
        return any(self.has("disk", metric) for metric in DATA_IO)

    @property
    def charts(self) -> list[UsageChart]:
        """Return the charts of sampled metrics, and the standard ones even if they only show why data is missing."""
        standard = ("cpu", "network", "memory")
        return [
            replace(chart, devices={"core": self.cores, "GPU": self.gpus}.get(chart.noun, ()))
            for chart in CHARTS
            if chart.key in standard or any(self.has(chart.kind, metric) for metric in chart.metrics)
        ]

    @property
    def facts(self) -> dict[str, object]:
        """Return the hardware facts."""
        return {
            "cores": self.document.cpu_count or len(self.cores) or None,
            "memory_bytes": self.document.memory_bytes,
            "why_no_gpu": self.document.absent.get("gpu", ""),
            "gpus": self.document.gpu_names,
            "absent": self.document.absent,
            "dropped": describe.dropped_samples(self.document.lost) if self.document.lost else "",
        }


def node_views(run: Run, digest: Digest) -> list[NodeView]:
    """Return the nodes in natural order."""
    documents = {document.node: document for document in read_nodes(run.path)}
    sensors = digest.channels()
    names = sorted({*documents, *(sensor.node for sensor in sensors)}, key=natural_sort_key)
    labels = {name: f"algo-{number} ({name})" if len(names) > 1 else name for number, name in enumerate(names, 1)}
    return [
        _view(name, labels[name], [sensor for sensor in sensors if sensor.node == name], documents) for name in names
    ]


def _view(name: str, label: str, sensors: list[Sensor], documents: dict[str, NodeDocument]) -> NodeView:
    busy = [sensor for sensor in sensors if sensor.metric == "utilization_percent" and sensor.device != "total"]
    cores, gpus = (tuple(sensor.device for sensor in busy if sensor.kind == kind) for kind in ("cpu", "gpu"))
    metrics = frozenset((sensor.kind, sensor.metric) for sensor in sensors)
    return NodeView(name, label, cores, gpus, metrics, documents.get(name, NodeDocument()))


def chosen(nodes: Sequence[NodeView], name: str | None) -> NodeView | None:
    """Return the node with a name, else the first; None if there is none."""
    return next((node for node in nodes if node.name == name), nodes[0] if nodes else None)
