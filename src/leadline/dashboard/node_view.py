"""The nodes of a run as the page shows them: what sensors each has, and why some have none."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

from leadline.analysis.digest import Digest
from leadline.reader import liveness
from leadline.reader.interval import Sensor
from leadline.reader.run import Run
from leadline.reader.window import natural_sort_key

TITLES: Final = {
    "cpu": "CPU",
    "gpu": "GPU",
    "gpu-memory": "GPU memory",
    "memory": "Memory",
    "iowait": "Waiting for I/O",
    "network": "Network",
    "disk": "Disk",
    "job": "CPU of the job",
    "job-memory": "Memory of the job",
}
"""Titles that a chart of usage may ask for."""
_NOUNS: Final = {
    "cpu": "CPU",
    "gpu": "GPU",
    "memory": "memory",
    "network": "network",
    "disk": "disk",
    "process": "processes",
}


@dataclass(frozen=True, slots=True)
class UsageChart:
    """A chart of use over time, and the devices that it may show one by one."""

    title: str
    """One of ``TITLES``."""
    kind: str
    metrics: tuple[str, ...]
    devices: tuple[str, ...] = ()
    """Empty: there is nothing to choose."""
    noun: str = ""
    """``core`` or ``GPU``: what the devices are."""
    whole: str = ""
    """The device that stands for all; "": their mean is drawn."""


CHARTS: Final = (
    UsageChart("cpu", "cpu", ("utilization_percent",), noun="core", whole="total"),
    UsageChart("network", "network", ("received_bytes_per_second", "sent_bytes_per_second")),
    UsageChart("gpu", "gpu", ("utilization_percent",), noun="GPU"),
    UsageChart("gpu-memory", "gpu", ("memory_used_percent",), noun="GPU"),
    UsageChart("memory", "memory", ("used_percent",)),
    UsageChart("disk", "disk", ("read_bytes_per_second", "write_bytes_per_second")),
    UsageChart("iowait", "cpu", ("iowait_percent",)),
    UsageChart("job", "process", ("cpu_percent",)),
    UsageChart("job-memory", "process", ("rss_bytes",)),
)
"""What the page shows of a node, in this order."""


@dataclass(frozen=True, slots=True)
class NodeView:
    """A node and what was measured on it."""

    name: str
    label: str
    """``algo-1 (vm)`` where there are several: the place beside the host name."""
    cores: tuple[str, ...]
    gpus: tuple[str, ...]
    metrics: frozenset[tuple[str, str]]
    """Kind and metric of what was measured."""
    document: dict[str, Any]
    """What the node's agent says of it: ``cpu_count, memory_bytes, gpus, absent`` …"""

    def has(self, kind: str, metric: str) -> bool:
        """Whether it was measured."""
        return (kind, metric) in self.metrics

    @property
    def charts(self) -> list[UsageChart]:
        """What is drawn of it: what was measured, and the usual even where that says why it was not."""
        usual = ("cpu", "network", "gpu", "memory")
        return [
            replace(each, devices={"core": self.cores, "GPU": self.gpus}.get(each.noun, ()))
            for each in CHARTS
            if each.title in usual or any(self.has(each.kind, metric) for metric in each.metrics)
        ]

    @property
    def facts(self) -> dict[str, Any]:
        """What the machine is."""
        return {
            "cores": self.document.get("cpu_count") or len(self.cores) or None,
            "memory_bytes": self.document.get("memory_bytes"),
            "gpus": [str(each.get("name") or "GPU") for each in self.document.get("gpus") or ()],
            "absent": dict(self.document.get("absent") or {}),
            "lost": self.document.get("lost"),
        }


def node_views(run: Run, digest: Digest) -> list[NodeView]:
    """The nodes, in natural order."""
    documents = {str(each.get("node")): dict(each) for each in liveness.read_nodes(run.path)}
    channels = digest.channels()
    names = sorted({*documents, *(each.node for each in channels)}, key=natural_sort_key)
    labels = {name: f"algo-{place} ({name})" if len(names) > 1 else name for place, name in enumerate(names, 1)}
    return [_view(name, labels[name], [each for each in channels if each.node == name], documents) for name in names]


def _view(name: str, label: str, channels: list[Sensor], documents: dict[str, dict[str, Any]]) -> NodeView:
    used = [each for each in channels if each.metric == "utilization_percent" and each.device != "total"]
    cores, gpus = (tuple(each.device for each in used if each.kind == kind) for kind in ("cpu", "gpu"))
    metrics = frozenset((each.kind, each.metric) for each in channels)
    return NodeView(name, label, cores, gpus, metrics, documents.get(name, {}))


def chosen(nodes: Sequence[NodeView], name: str | None) -> NodeView | None:
    """The node of a name, else the first; None: there is none."""
    return next((each for each in nodes if each.name == name), nodes[0] if nodes else None)


def why_missing(run: Run, kinds: Sequence[str] | None, node: str | None) -> str:
    """Why nothing is there to be drawn: ``no GPU on this node``."""
    kind = kinds[0] if kinds else ""
    documents = [each for each in liveness.read_nodes(run.path) if node in (None, each.get("node"))]
    said = next((str(each["absent"][kind]) for each in documents if kind in (each.get("absent") or {})), "")
    if kind == "gpu":
        where = "on this node" if node else "on any node"
        return f"no GPU {where}" + (f" ({said})" if said else "")
    return f"{_NOUNS.get(kind, kind) or 'this'} was not measured here" + (f": {said}" if said else " in this interval")
