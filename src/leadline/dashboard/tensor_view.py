"""What a run holds of its tensors, in the words of a page: the list of them, and one at a step."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import quote

import numpy as np
import pyarrow as pa

from leadline.dashboard.run_cache import OpenedRun
from leadline.errors import DamagedRunError, UnknownNameError
from leadline.reader.tensors import StoredTensor
from leadline.records.names import MODES, SCALAR_COLLECTIONS
from leadline.statistics.definitions import STATISTICS, find_statistic

if TYPE_CHECKING:
    import numpy.typing as npt

MOST_BYTES: Final = 256 << 20
"""Of a tensor that is shown; a larger one can be downloaded."""
MOST_ROWS: Final = 24
MOST_COLUMNS: Final = 12
_SCALARS: Final = frozenset(SCALAR_COLLECTIONS)
_FIRST: Final = ("gradients", "weights", "biases", "outputs", "inputs", "layers", "optimizer_variables")
_FINE: Final = 4000
_CHECKS: Final = ("nonfinite_count", "nan_count", "value")
_CHUNK_BYTES: Final = 1 << 20


@dataclass(frozen=True, slots=True)
class TensorRow:
    """A tensor in the list."""

    name: str
    shape: tuple[int, ...] | None
    dtype: str
    collections: tuple[str, ...]
    stored: int
    """How often the tensor itself was stored."""
    findings: int

    @property
    def elements(self) -> int | None:
        return None if self.shape is None else int(np.prod(self.shape, dtype=np.int64))


def tensor_rows(found: OpenedRun, *, collection: str = "", words: str = "") -> list[TensorRow]:
    """The tensors of a run, in the order in which they appeared.

    Args:
        collection: Only its members; "": all.
        words: Only names with all of these words in them.
    """
    run = found.run
    infos, stored = run.archive.infos(), run.archive.stored
    named: dict[str, int] = {}
    for names in run.findings()["tensors"].to_pylist():
        for name in names or ():
            named[name] = named.get(name, 0) + 1
    wanted = words.lower().split()
    rows = []
    for name in run.tensor_names(collection=collection or None):
        if all(word in name.lower() for word in wanted):
            info, kept = infos.get(name), stored.get(name, [])
            shape = info.shape if info else kept[0].shape if kept else None
            dtype = info.dtype if info else kept[0].dtype if kept else ""
            collections = info.collections if info else ()
            rows.append(TensorRow(name, shape, dtype, collections, len(kept), named.get(name, 0)))
    return rows


def collections_of(found: OpenedRun) -> list[str]:
    """The collections that have members, those that people ask for first in front."""
    names = {each for info in found.run.archive.infos().values() for each in info.collections}
    return [*(each for each in _FIRST if each in names), *sorted(names - set(_FIRST))]


def statistics_by_collection(found: OpenedRun) -> dict[str, list[str]]:
    """The statistics that were captured of each collection's tensors, in the order of the definitions.

    Arrays are left out, and collections of single numbers; those of which nothing is left, too.
    """
    infos = found.run.archive.infos()
    names: dict[str, set[str]] = {}
    for tensor, statistics in found.digest.captured().items():
        for collection in infos[tensor].collections if tensor in infos else ():
            names.setdefault(collection, set()).update(statistics)
    known = {each: in_order([one for one in kept if not is_array(one)]) for each, kept in names.items()}
    return {each: known[each] for each in collections_of(found) if each not in _SCALARS and known.get(each)}


def in_order(names: Iterator[str] | list[str]) -> list[str]:
    """Statistics as the definitions have them; those of families behind."""
    places = {name: place for place, name in enumerate(STATISTICS)}
    return sorted(names, key=lambda name: (places.get(name, len(places)), name))


def is_array(statistic: str) -> bool:
    """Whether a statistic is an array; one of a name that nobody knows is none."""
    try:
        return find_statistic(statistic).is_vector
    except UnknownNameError:
        return False


def meaning(statistic: str) -> str:
    """What a statistic is; "" of a name that nobody knows."""
    try:
        return find_statistic(statistic).meaning
    except UnknownNameError:
        return ""


@dataclass(frozen=True, slots=True)
class Captured:
    """At which steps something of a tensor was captured."""

    count: int
    first: int | None
    """None: never."""
    last: int | None
    modes: tuple[str, ...]
    nearest: int | None
    """The step nearest to the one that was asked about, or the last."""


def captured(found: OpenedRun, name: str, step: int | None) -> Captured:
    """When a tensor was captured.

    Args:
        step: The step that is asked about; None: the last.
    """
    statistics = _covering(found, name)
    if not statistics:
        tensor = found.run.tensor(name)
        steps = tensor.steps()
        modes = tuple(mode for mode in found.run.modes() if tensor.steps(mode))
        return _captured(len(steps), steps, modes, step)
    table = _steps_of(found, name, statistics)
    by_worker = table.group_by("worker").aggregate([("samples", "sum")])
    modes = tuple(sorted(set(table["mode"].to_pylist()), key=_mode_order))
    steps = sorted(set(table["step"].to_pylist()))
    told = _captured(max(by_worker["samples_sum"].to_pylist(), default=0), steps, modes, step)
    if told.nearest is None or told.count <= len(steps):
        return told
    width = (steps[-1] - steps[0]) // max(1, len(steps) - 1) + 1
    bounds = {"start_step": max(0, told.nearest - width), "end_step": told.nearest + width}
    near = _steps_of(found, name, statistics, **bounds)["step"].to_pylist()
    begin = _steps_of(found, name, statistics, end_step=steps[0] + 1)["step"].to_pylist()
    return replace(told, first=min(begin), nearest=_nearest(near, told.nearest if step is None else step))


def _covering(found: OpenedRun, name: str) -> list[str]:
    """A few statistics of which there is one wherever there are any: checks are made wherever a tensor is looked at."""
    names = statistics_of(found, name)
    checks = [each for each in _CHECKS if each in names][:1]
    return [*checks, *[each for each in names if each not in _CHECKS][:1]]


def statistics_of(found: OpenedRun, name: str) -> list[str]:
    """The statistics that were captured of a tensor, in the order of the definitions; arrays are left out."""
    return in_order([each for each in found.digest.captured().get(name, {}) if not is_array(each)])


def has_histogram(found: OpenedRun, name: str) -> bool:
    """Whether a histogram of a tensor was captured, or can be made of it."""
    run = found.run.archive
    return bool(run.stored.get(name)) or any((name, each) in run.vectors for each in ("histogram", "histogram_exact"))


def _steps_of(found: OpenedRun, name: str, statistics: list[str], **bounds: int) -> pa.Table:
    return pa.concat_tables(
        [found.digest.statistic(name, each, points=_FINE, **bounds) for each in statistics]  # type: ignore[arg-type]
    )


def _captured(count: int, steps: list[int], modes: tuple[str, ...], step: int | None) -> Captured:
    last = max(steps, default=None)
    return Captured(count, min(steps, default=None), last, modes, _nearest(steps, last if step is None else step))


def _nearest(steps: list[int], step: int | None) -> int | None:
    return min(steps, key=lambda each: abs(each - (step or 0)), default=None)


def _mode_order(mode: str) -> int:
    return MODES.index(mode) if mode in MODES else len(MODES)


def stored_at(found: OpenedRun, name: str, step: int | None, worker: str | None) -> StoredTensor | None:
    """The tensor as it was stored at a step, or at the one that is nearest to it; None: it never was.

    Args:
        step: None: the last.
        worker: None: the first that has it.
    """
    kept = [each for each in found.run.archive.stored.get(name, []) if worker in (None, each.worker)]
    if step is None:
        return max(kept, key=lambda each: each.step, default=None)
    return min(kept, key=lambda each: abs(each.step - step), default=None)


def stored_steps(found: OpenedRun, name: str, worker: str | None) -> list[int]:
    """The steps at which the tensor itself was stored."""
    return sorted({each.step for each in found.run.archive.stored.get(name, []) if worker in (None, each.worker)})


@dataclass(frozen=True, slots=True)
class ValueTable:
    """The first values of a tensor."""

    rows: tuple[tuple[str, tuple[str, ...]], ...]
    """A label and the values of each row."""
    columns: int
    words: str
    """What of it this is."""


def first_values(values: npt.NDArray[Any]) -> ValueTable:
    """The first values of a tensor, as rows of its last dimension.

    Args:
        values: ``(*shape,)``.
    """
    if values.ndim == 0:
        return ValueTable((("", (spoken(values[()]),)),), 1, "a single number")
    flat = values.reshape(-1, values.shape[-1]) if values.size else values.reshape(0, values.shape[-1])
    shown = flat[:MOST_ROWS, :MOST_COLUMNS]
    labels = [", ".join(map(str, np.unravel_index(place, values.shape[:-1] or (1,)))) for place in range(len(shown))]
    rows = tuple((f"[{label}]", tuple(map(spoken, row))) for label, row in zip(labels, shown, strict=True))
    is_whole = shown.shape == flat.shape
    words = "all values" if is_whole else f"the first {shown.size:,} of {values.size:,} values"
    return ValueTable(rows, shown.shape[1] if shown.ndim > 1 else 0, words)


def spoken(value: Any) -> str:
    """One element."""
    if isinstance(value, (bool, np.bool_)):
        return "true" if value else "false"
    if isinstance(value, (int, np.integer)):
        return str(value)
    return f"{value:.5g}"


def as_image(values: npt.NDArray[Any]) -> npt.NDArray[np.float64] | None:
    """A tensor as a matrix to draw: rows are the first dimension, columns all others; None: it has too few.

    Args:
        values: ``(rows, *others)``.
    """
    if values.ndim < 2 or values.size < 4:
        return None
    matrix = np.abs(values) if np.iscomplexobj(values) else values
    return np.asarray(matrix, np.float64).reshape(values.shape[0], -1)


def npy_chunks(stored: StoredTensor) -> Iterator[bytes]:
    """A stored tensor as a file that ``numpy.load`` opens, piece by piece.

    Raises:
        DamagedRunError: It cannot be read.
    """
    import io

    values = stored.load()
    head = io.BytesIO()
    form = np.lib.format.header_data_from_array_1_0(np.empty((0,), values.dtype))
    np.lib.format.write_array_header_1_0(head, {**form, "shape": values.shape, "fortran_order": False})
    yield head.getvalue()
    data = np.ascontiguousarray(values).reshape(-1).view(np.uint8)
    for start in range(0, len(data), _CHUNK_BYTES):
        yield data[start : start + _CHUNK_BYTES].tobytes()


def file_name(name: str, step: int) -> str:
    """What a download of a tensor is called: letters, digits and the like, whatever the tensor is."""
    return f"{re.sub(r'[^A-Za-z0-9._-]+', '_', name)[-80:].strip('._') or 'tensor'}-step{step}.npy"


def load_shown(stored: StoredTensor) -> tuple[npt.NDArray[Any] | None, str]:
    """The elements of a tensor to be shown; or None, and why not."""
    if stored.nbytes > MOST_BYTES:
        return None, f"it has {stored.nbytes / 1e6:,.0f} MB, which is too much for a page; download it"
    try:
        return stored.load(), ""
    except DamagedRunError as error:
        return None, str(error)


def capture_words(name: str) -> str:
    """How the tensor itself is captured: an option of ``leadline run``."""
    pattern = f"^{re.escape(name)}$".replace(r"\/", "/")
    return f"--capture {shlex.quote(f'one:regex={pattern},every=100,raw=true,statistics=histogram')}"


def run_link(run: str) -> str:
    """The address of a run's pages."""
    return f"/runs/{quote(run, safe='')}"
