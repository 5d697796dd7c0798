"""View of the Tensors page: the tensor list, and one tensor at a step."""

from __future__ import annotations

import re
import shlex
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from operator import itemgetter
from typing import TYPE_CHECKING, Any, Final, TypedDict
from urllib.parse import quote

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from leadline.charts.tensor_charts import stored_in
from leadline.dashboard.run_cache import OpenedRun
from leadline.errors import UnknownNameError
from leadline.reader.window import natural_sort_key
from leadline.records.names import FEATURE_COLLECTIONS, FEATURE_IMPORTANCE, MODES, SCALAR_COLLECTIONS
from leadline.statistics.definitions import STATISTICS, find_statistic

if TYPE_CHECKING:
    import numpy.typing as npt

MAX_ROWS: Final = 24
MAX_COLUMNS: Final = 12
_SCALARS: Final = SCALAR_COLLECTIONS - FEATURE_COLLECTIONS
_COLLECTION_ORDER: Final = (
    "gradients",
    "weights",
    "biases",
    "outputs",
    "inputs",
    "layers",
    "optimizer_variables",
    FEATURE_IMPORTANCE,
)
_MAX_BUCKETS: Final = 4000
_CHECKS: Final = ("nonfinite_count", "nan_count", "value")
_PREFERRED: Final = ("value", "abs_mean", "l2", "abs_max", "max", "mean")
_CHUNK_BYTES: Final = 1 << 20


@dataclass(frozen=True, slots=True)
class TensorRow:
    """A tensor in the list."""

    name: str
    shape: tuple[int, ...] | None
    dtype: str
    collections: tuple[str, ...]
    stored: int
    """Number of steps at which the raw tensor was stored."""
    findings: int

    @property
    def elements(self) -> int | None:
        return None if self.shape is None else int(np.prod(self.shape, dtype=np.int64))


def tensor_rows(opened: OpenedRun, *, collection: str = "", filter_text: str = "") -> list[TensorRow]:
    """Return the tensors of a run in order of appearance.

    Args:
        collection: Only its members; "": all.
        filter_text: Only names that contain all words of this text.
    """
    run = opened.run
    infos, stored = run.archive.infos(), run.archive.stored
    findings_by_tensor: dict[str, int] = {}
    for names in run.findings()["tensors"].to_pylist():
        for name in names or ():
            findings_by_tensor[name] = findings_by_tensor.get(name, 0) + 1
    words = filter_text.lower().split()
    rows = []
    for name in run.tensor_names(collection=collection or None):
        if all(word in name.lower() for word in words):
            info, stored_tensors = infos.get(name), stored.get(name, [])
            shape = info.shape if info else stored_tensors[0].shape if stored_tensors else None
            dtype = info.dtype if info else stored_tensors[0].dtype if stored_tensors else ""
            collections = info.collections if info else ()
            rows.append(
                TensorRow(name, shape, dtype, collections, len(stored_tensors), findings_by_tensor.get(name, 0))
            )
    return rows


SORTS: Final[Mapping[str, Callable[[TensorRow], Any]]] = {
    "name": lambda row: natural_sort_key(row.name),
    "shape": lambda row: row.shape,
    "elements": lambda row: row.elements,
    "type": lambda row: row.dtype or None,
    "collections": lambda row: ", ".join(row.collections) or None,
    "raw": lambda row: row.stored,
    "findings": lambda row: row.findings,
}
"""What each column is sorted by; None: missing."""


def sort_rows(rows: list[TensorRow], sort: str) -> list[TensorRow]:
    """Return rows in the order of a column, missing values last; unknown columns leave the order.

    Args:
        sort: The column, with ``-`` before it in descending order.
    """
    value_of = SORTS.get(sort.removeprefix("-"))
    if value_of is None:
        return rows
    keys = [(value_of(row), row) for row in rows]
    known = sorted(((key, row) for key, row in keys if key is not None), key=itemgetter(0), reverse=sort[:1] == "-")
    return [row for _, row in known] + [row for key, row in keys if key is None]


def collections_of(opened: OpenedRun) -> list[str]:
    """Return the non-empty collections, the most common first."""
    names = {collection for info in opened.run.archive.infos().values() for collection in info.collections}
    return [*(name for name in _COLLECTION_ORDER if name in names), *sorted(names - set(_COLLECTION_ORDER))]


def statistics_by_collection(opened: OpenedRun) -> dict[str, list[str]]:
    """Return the captured statistics of each collection, in definition order.

    Excluded: array statistics, collections of scalars except those of features, and collections without remaining
    statistics.
    """
    infos = opened.run.archive.infos()
    names: dict[str, set[str]] = {}
    for tensor, statistics in opened.digest.captured().items():
        for collection in infos[tensor].collections if tensor in infos else ():
            names.setdefault(collection, set()).update(statistics)
    ordered = {
        collection: order_statistics([statistic for statistic in statistics if not is_array(statistic)])
        for collection, statistics in names.items()
    }
    return {
        collection: ordered[collection]
        for collection in collections_of(opened)
        if collection not in _SCALARS and ordered.get(collection)
    }


def order_statistics(names: Iterator[str] | list[str]) -> list[str]:
    """Sort statistics in definition order; those of statistic families last."""
    positions = {name: position for position, name in enumerate(STATISTICS)}
    return sorted(names, key=lambda name: (positions.get(name, len(positions)), name))


def is_array(statistic: str) -> bool:
    """Return whether a statistic is an array; False for unknown names."""
    try:
        return find_statistic(statistic).is_vector
    except UnknownNameError:
        return False


def preferred(statistics: list[str]) -> str:
    """Return the default statistic; of a scalar its value, which is captured more often than statistics of it."""
    return next((statistic for statistic in _PREFERRED if statistic in statistics), statistics[0])


def meaning(statistic: str) -> str:
    """Return the description of a statistic; "" for unknown names."""
    try:
        return find_statistic(statistic).meaning
    except UnknownNameError:
        return ""


@dataclass(frozen=True, slots=True)
class CaptureSummary:
    """Steps at which a tensor was captured."""

    count: int
    first: int | None
    """None: never."""
    last: int | None
    modes: tuple[str, ...]
    nearest: int | None
    """Captured step nearest to the requested one, or the last."""


def capture_summary(opened: OpenedRun, name: str, step: int | None) -> CaptureSummary:
    """Return when a tensor was captured.

    Args:
        step: Requested step; None: the last.
    """
    statistics = _covering_statistics(opened, name)
    if not statistics:
        tensor = opened.run.tensor(name)
        steps = tensor.steps()
        modes = tuple(tensor.modes())
        return _summarize(len(steps), steps, modes, step)
    parts = _steps_of(opened, name, statistics)
    table = pa.concat_tables(parts)
    modes = tuple(sorted(set(table["mode"].to_pylist()), key=_mode_order))
    steps = sorted(set(table["step"].to_pylist()))
    summary = _summarize(_count_captures(parts), steps, modes, step)
    if summary.nearest is None or summary.count <= len(steps):
        return summary
    width = (steps[-1] - steps[0]) // max(1, len(steps) - 1) + 1
    bounds = {"start_step": max(0, summary.nearest - width), "end_step": summary.nearest + width}
    nearby_steps = pa.concat_tables(_steps_of(opened, name, statistics, **bounds))["step"].to_pylist()
    first_steps = pa.concat_tables(_steps_of(opened, name, statistics, end_step=steps[0] + 1))["step"].to_pylist()
    return replace(
        summary, first=min(first_steps), nearest=_nearest(nearby_steps, summary.nearest if step is None else step)
    )


def _count_captures(parts: list[pa.Table]) -> int:
    """Return at how many steps a worker captured any of some statistics, each counted in a table of its own.

    Those captured within the range of the most frequent one are taken to be captured together with it.
    """
    counts = [_count_of_worker(part) for part in parts]
    frequent = parts[counts.index(max(counts))]
    if not frequent.num_rows:
        return 0
    ends = pc.min_max(frequent["step"]).as_py()
    total = max(counts)
    for part in parts:
        is_outside = pc.or_(pc.less(part["step"], ends["min"]), pc.greater(part["step"], ends["max"]))
        total += _count_of_worker(part.filter(is_outside))
    return total


def _count_of_worker(table: pa.Table) -> int:
    """Return the number of captures of the worker with most of them."""
    by_worker = table.group_by("worker").aggregate([("samples", "sum")])
    return max(by_worker["samples_sum"].to_pylist(), default=0)


def _covering_statistics(opened: OpenedRun, name: str) -> list[str]:
    """Return a few statistics that cover all captured steps: checks are computed at every capture of a tensor."""
    names = statistics_of(opened, name)
    checks = [name for name in _CHECKS if name in names][:1]
    return [*checks, *[name for name in names if name not in _CHECKS][:1]]


def statistics_of(opened: OpenedRun, name: str) -> list[str]:
    """Return the captured statistics of a tensor in definition order, without arrays."""
    return order_statistics(
        [statistic for statistic in opened.digest.captured().get(name, {}) if not is_array(statistic)]
    )


class NumbersOfTensor(TypedDict):
    """A statistic of a tensor at a step, by worker."""

    statistic: str
    description: str
    values: dict[str, float]


def numbers_at(opened: OpenedRun, name: str, step: int, mode: str) -> list[NumbersOfTensor]:
    """Return every captured statistic of a tensor at a train step: name, description, and value by worker."""
    tables = {
        statistic: opened.digest.statistic(name, statistic, mode, None, step, step + 1).to_pylist()
        for statistic in statistics_of(opened, name)
    }
    return [
        {
            "statistic": statistic,
            "description": meaning(statistic),
            "values": {row["worker"]: row["value"] for row in rows},
        }
        for statistic, rows in tables.items()
        if rows
    ]


def has_histogram(opened: OpenedRun, name: str) -> bool:
    """Return whether a histogram of a tensor was captured or can be computed."""
    archive = opened.run.archive
    return bool(archive.stored.get(name)) or any(
        (name, statistic) in archive.vectors for statistic in ("histogram", "histogram_exact")
    )


def _steps_of(opened: OpenedRun, name: str, statistics: list[str], **bounds: int) -> list[pa.Table]:
    """Return the captures of each statistic."""
    return [opened.digest.statistic(name, statistic, points=_MAX_BUCKETS, **bounds) for statistic in statistics]  # type: ignore[arg-type]


def _summarize(count: int, steps: list[int], modes: tuple[str, ...], step: int | None) -> CaptureSummary:
    last = max(steps, default=None)
    return CaptureSummary(count, min(steps, default=None), last, modes, _nearest(steps, last if step is None else step))


def _nearest(steps: list[int], step: int | None) -> int | None:
    return min(steps, key=lambda candidate: abs(candidate - (step or 0)), default=None)


def _mode_order(mode: str) -> int:
    return MODES.index(mode) if mode in MODES else len(MODES)


def stored_steps(opened: OpenedRun, name: str, worker: str | None, mode: str | None) -> list[int]:
    """Return the steps of a mode at which the raw tensor was stored; None: as ``tensor_charts.stored_at``."""
    archive = opened.run.archive
    return sorted({archive.step_of(tensor) for tensor in stored_in(opened.run, name, worker, mode)})


@dataclass(frozen=True, slots=True)
class ValueTable:
    """First values of a tensor."""

    rows: tuple[tuple[str, tuple[str, ...]], ...]
    """Label and values of each row."""
    columns: int
    description: str
    """Which part of the tensor is shown."""


def first_values(values: npt.NDArray[Any]) -> ValueTable:
    """Return the first values of a tensor, as rows of its last dimension.

    Args:
        values: ``(*shape,)``.
    """
    if values.ndim == 0:
        return ValueTable((("", (format_element(values[()]),)),), 1, "scalar")
    flat = values.reshape(-1, values.shape[-1]) if values.size else values.reshape(0, values.shape[-1])
    visible = flat[:MAX_ROWS, :MAX_COLUMNS]
    labels = [", ".join(map(str, np.unravel_index(index, values.shape[:-1] or (1,)))) for index in range(len(visible))]
    rows = tuple((f"[{label}]", tuple(map(format_element, row))) for label, row in zip(labels, visible, strict=True))
    is_complete = visible.shape == flat.shape
    description = "all values" if is_complete else f"the first {visible.size:,} of {values.size:,} values"
    return ValueTable(rows, visible.shape[1] if visible.ndim > 1 else 0, description)


def format_element(value: Any) -> str:
    """Format one element."""
    if isinstance(value, (bool, np.bool_)):
        return "true" if value else "false"
    if isinstance(value, (int, np.integer)):
        return str(value)
    return value if isinstance(value, str) else f"{value:.5g}"


def npy_chunks(values: npt.NDArray[Any]) -> Iterator[bytes]:
    """Yield an array as chunks of a file for ``numpy.load``."""
    import io

    header = io.BytesIO()
    header_fields = np.lib.format.header_data_from_array_1_0(np.empty((0,), values.dtype))
    np.lib.format.write_array_header_1_0(header, {**header_fields, "shape": values.shape, "fortran_order": False})
    yield header.getvalue()
    data = np.ascontiguousarray(values).reshape(-1).view(np.uint8)
    for start in range(0, len(data), _CHUNK_BYTES):
        yield data[start : start + _CHUNK_BYTES].tobytes()


def file_name(name: str, step: int) -> str:
    """Return the download file name of a tensor, restricted to safe characters."""
    return f"{re.sub(r'[^A-Za-z0-9._-]+', '_', name)[-80:].strip('._') or 'tensor'}-step{step}.npy"


def capture_option(name: str) -> str:
    """Return the option of ``leadline run`` that captures the raw tensor."""
    pattern = f"^{re.escape(name)}$".replace(r"\/", "/")
    return f"--capture {shlex.quote(f'one:regex={pattern},every=100,raw=true,statistics=histogram')}"


def run_link(run: str) -> str:
    """Return the URL path of a run's pages."""
    return f"/runs/{quote(run, safe='')}"
