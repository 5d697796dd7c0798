"""Scalars of the current step, and the rows that they become."""

from __future__ import annotations

import math
import struct
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, NamedTuple, TypeVar

from leadline.frameworks.loaded_adapters import LoadedAdapters
from leadline.frameworks.pending import PendingNumbers
from leadline.records.metric_names import PRINTED
from leadline.records.names import CHECKS, GRADIENT_NORMS
from leadline.records.plan import CaptureItem
from leadline.records.series import SeriesLayout, StepStamp, TensorInfo

Row = TypeVar("Row")
_MAX_LAYOUTS: Final = 256


class Scalar(NamedTuple):
    """A number of the current step; of a loss also the number of micro-batches that it is the mean of."""

    collection: str
    values: tuple[Any, ...]
    """Numbers or device scalars."""
    marks: tuple[str, ...] = ()
    """Further collections that it belongs to."""


@dataclass(slots=True)
class _Loss:
    """The losses of one place in the script in the current step."""

    name: str
    total: Any = 0.0
    """A number or a device scalar."""
    count: int = 0
    marks: tuple[str, ...] = ()


class LossRow(NamedTuple):
    """The row of a step that has the same losses as a step before.

    Attributes:
        values: The packed values; pending numbers if one of them is not on the host.
        is_finite: Whether all are finite; True while they are not known.
    """

    layout: SeriesLayout
    names: frozenset[str]
    values: bytes | PendingNumbers
    is_finite: bool


@dataclass(frozen=True, slots=True)
class _RowForm:
    """What the rows of steps with the same losses have in common."""

    layout: SeriesLayout
    names: frozenset[str]
    losses: tuple[_Loss, ...]
    pack: Callable[..., bytes]


class LossBuffer:
    """The losses of the current step, with one name for each place in the script."""

    def __init__(self) -> None:
        self._form: _RowForm | None = None
        """The form of the row of the last step, if it had all losses and nothing else."""
        self.latest: dict[str, float] = {}
        """The last value of each loss."""
        self._sites: dict[object, _Loss] = {}
        self.names: set[str] = set()
        """The names of all losses so far."""

    def only_name(self) -> str | None:
        """Return the name of the only loss; None if there are several."""
        return next(iter(self.names)) if len(self.names) == 1 else None

    def add(self, site: object, value: Any, name: str | None, marks: tuple[str, ...] = ()) -> None:
        """Add a loss; the first loss of a place is named.

        Args:
            name: The loss call, if known.
            marks: Further collections that the loss belongs to.
        """
        loss = self._sites.get(site)
        if loss is None:
            loss = self._sites[site] = _Loss(self._unused_name(name), marks=marks)
            self.names.add(loss.name)
        if loss.count or isinstance(value, (int, float)):
            loss.total += value
        else:
            loss.total = value  # on a device, an addition is a kernel
        loss.count += 1

    def take(self) -> dict[str, Scalar]:
        """Return the mean losses of the step by name, and start the next step."""
        taken = {}
        for loss in self._sites.values():
            if loss.count:
                mean = loss.total / loss.count if loss.count > 1 else loss.total
                taken[loss.name] = Scalar("losses", (mean, float(loss.count)), loss.marks)
                loss.total, loss.count = 0.0, 0
        return taken

    def set_row_layout(self, layout: SeriesLayout) -> None:
        """Set the layout of the row in which the losses were just written."""
        losses = tuple(self._sites.values())
        names = [tensor.name for tensor in layout.tensors]
        if losses and names == [loss.name for loss in losses] and len(layout.columns) == 2 * len(losses):
            pack = struct.Struct(f"<{2 * len(losses)}d").pack
            self._form = _RowForm(layout, frozenset(names), losses, pack)

    def take_row(self, fetch: Callable[[list[Any]], PendingNumbers | bytes]) -> LossRow | None:
        """Return the row of the step's mean losses, and start the next step.

        Args:
            fetch: Makes a row of numbers of which some are device scalars.

        Returns:
            None if nothing was taken: the losses are not those of the last row.
        """
        form = self._form
        if form is None or len(form.losses) != len(self._sites):
            return None
        is_on_host = True
        for loss in form.losses:
            if not loss.count:
                return None
            is_on_host = is_on_host and type(loss.total) is float
        values: list[Any] = []
        for loss in form.losses:
            mean = loss.total / loss.count if loss.count > 1 else loss.total
            if is_on_host:
                self.latest[loss.name] = mean
            values += (mean, float(loss.count))
            loss.total, loss.count = 0.0, 0
        if is_on_host:
            return LossRow(form.layout, form.names, form.pack(*values), all(map(math.isfinite, values)))
        return LossRow(form.layout, form.names, fetch(values), is_finite=True)

    def update_latest(self, layout: SeriesLayout, values: Sequence[float]) -> None:
        """Update the latest values from a row of scalars."""
        for (index, statistic), value in zip(layout.columns, values, strict=True):
            if statistic == "value" and "losses" in layout.tensors[index].collections:
                self.latest[layout.tensors[index].name] = value

    def _unused_name(self, name: str | None) -> str:
        if name is None:
            return "loss" if "loss" not in self.names else _numbered("loss", self.names)
        stem, _, number = name.rpartition("_")
        return name if name not in self.names else _numbered(stem if number.isdigit() else name, self.names)


def _numbered(stem: str, used: set[str]) -> str:
    count = 1
    while f"{stem}_{count}" in used:
        count += 1
    return f"{stem}_{count}"


class ScalarRows:
    """Rows of scalars; equal sets of names share a layout."""

    def __init__(self) -> None:
        self._layouts: dict[tuple[tuple[str, str, tuple[str, ...]], ...], SeriesLayout] = {}

    def row(self, scalars: Mapping[str, Scalar], fetch: Callable[[list[Any]], Row]) -> tuple[SeriesLayout, bytes | Row]:
        """Return the layout, and one float64 per column.

        Args:
            fetch: Makes a row of numbers of which some are device scalars.
        """
        values = [value for scalar in scalars.values() for value in scalar.values]
        is_on_host = {float}.issuperset(map(type, values))
        names = tuple([(name, scalar.collection, scalar.marks) for name, scalar in scalars.items()])
        return self._layout(names), struct.pack(f"<{len(values)}d", *values) if is_on_host else fetch(values)

    def _layout(self, names: tuple[tuple[str, str, tuple[str, ...]], ...]) -> SeriesLayout:
        known = self._layouts.get(names)
        if known is None:
            if len(self._layouts) >= _MAX_LAYOUTS:
                self._layouts.clear()  # names that may never recur
            tensors = tuple(TensorInfo(name, (collection, *marks), (), "float64") for name, collection, marks in names)
            columns: list[tuple[int, str]] = []
            for index, (_, collection, _) in enumerate(names):
                columns.append((index, "value"))
                if collection == "losses":
                    columns.append((index, "count"))
            known = self._layouts[names] = SeriesLayout(tensors, tuple(columns))
        return known


class ScalarBuffer:
    """Losses, gradient norms, loop checks, accuracies and logged values of the current step."""

    def __init__(self, frameworks: LoadedAdapters) -> None:
        self.train_losses = LossBuffer()
        """The losses of train steps."""
        self._frameworks = frameworks
        self._losses = {"train": self.train_losses}
        self._logged: dict[str, Scalar] = {}
        self._waiting: dict[str, tuple[StepStamp, Scalar]] = {}
        """Logged at earlier steps, and to be written at the next scheduled one of their mode."""
        self._logged_names: set[str] = set()
        self._accuracies: dict[str, Scalar] = {}
        self._accuracy_names: set[str] = set()
        self._norms: dict[str, Scalar] = {}
        self._checks: dict[str, Scalar] = {}

    @property
    def latest_losses(self) -> dict[str, float]:
        """The latest value of each loss of the training; without one, of another mode."""
        return next((losses.latest for losses in self._losses.values() if losses.latest), {})

    def losses_of(self, mode: str) -> LossBuffer:
        """Return the losses of a mode."""
        if mode not in self._losses:
            self._losses[mode] = LossBuffer()
        return self._losses[mode]

    def log(self, name: str, scalar: Scalar) -> None:
        """Record a scalar of the current step; the last value of a name is kept."""
        if PRINTED in scalar.marks:
            self._logged.setdefault(name, scalar)
            if PRINTED in self._logged[name].marks:
                self._logged[name] = scalar
            return
        self._logged[name] = scalar
        self._logged_names.add(name)

    @property
    def score_names(self) -> frozenset[str]:
        """The names that were recorded within steps, without printed ones."""
        return frozenset(self._logged_names)

    def withdraw_printed(self, name: str) -> None:
        """Forget a printed number of the current step."""
        scalar = self._logged.get(name)
        if scalar is not None and PRINTED in scalar.marks:
            del self._logged[name]

    def withdraw_all_printed(self) -> None:
        """Forget the printed numbers that are not written yet."""
        for name in list(self._logged):
            self.withdraw_printed(name)

    def add_norms(self, values: Mapping[str, object]) -> None:
        """Add the norms that gradient clipping has computed."""
        self._norms |= {name: Scalar(GRADIENT_NORMS, (value,)) for name, value in values.items()}

    def add_checks(self, values: Mapping[str, object]) -> None:
        """Add results of the loop checks, and facts about loss calls."""
        self._checks |= {name: Scalar(CHECKS, (value,)) for name, value in values.items()}

    def add_accuracies(self, values: Mapping[str, object]) -> None:
        """Add accuracies, except those whose names the script logs itself."""
        for name, value in values.items():
            if name in self._accuracy_names or name not in self._logged_names:
                self._accuracy_names.add(name)
                self._accuracies[name] = Scalar("metrics", (value,))

    def has_logged(self) -> bool:
        """Return whether the current step has logged values or accuracies, or others wait."""
        return bool(self._logged or self._accuracies or self._waiting)

    def take_train_step(self) -> dict[str, Scalar]:
        """Return losses, gradient norms and loop checks of the train step, and remove them."""
        taken = self.train_losses.take() | self._norms | self._checks
        self._norms, self._checks = {}, {}
        return taken

    def take_loss_row(self) -> LossRow | None:
        """Return the row of the train step's losses if the step has nothing else; see ``LossBuffer.take_row``."""
        return None if self._norms or self._checks else self.train_losses.take_row(self._frameworks.row)

    def take_norms(self) -> dict[str, Scalar]:
        """Return the gradient norms, and remove them."""
        norms, self._norms = self._norms, {}
        return norms

    def take_logged(self, items: Sequence[CaptureItem], stamp: StepStamp) -> dict[str, Scalar]:
        """Return accuracies and the logged values of a step that ``items`` select, and remove them; others wait."""
        logged, self._logged = self._logged, {}
        if not items:
            self._wait(logged, stamp)
            return {}
        accuracies, self._accuracies = self._accuracies, {}
        return self.selected(logged, items, stamp) | accuracies

    def take_waiting(self, items: Sequence[CaptureItem], mode: str) -> dict[str, Scalar]:
        """Return the values of earlier steps of a mode that ``items`` select, by logged names, and remove them."""
        if not items or not self._waiting:
            return {}
        taken = {
            name: scalar
            for name, (stamp, scalar) in self._waiting.items()
            if stamp.mode == mode and _selects(items, name, scalar)
        }
        self._waiting = {name: waiting for name, waiting in self._waiting.items() if name not in taken}
        return {name: scalar for name, scalar in taken.items() if name not in self._logged}

    def take_waiting_steps(self) -> dict[StepStamp, dict[str, Scalar]]:
        """Return the values that wait, by their steps, and remove them."""
        waiting, self._waiting = self._waiting, {}
        steps: dict[StepStamp, dict[str, Scalar]] = {}
        for name, (stamp, scalar) in waiting.items():
            steps.setdefault(stamp, {})[name] = scalar
        return steps

    def selected(
        self, logged: Mapping[str, Scalar], items: Sequence[CaptureItem], stamp: StepStamp
    ) -> dict[str, Scalar]:
        """Return the logged values of a step that ``items`` select; others wait.

        A logged name that is also the name of an accuracy or a loss is prefixed with its collection, a printed one with
        ``printed``.
        """
        used = self._accuracy_names.union(*(losses.names for losses in self._losses.values()))
        named: dict[str, Scalar] = {}
        for name, scalar in dict(logged).items():  # copied: a thread that logs may still hold the dict
            if scalar.collection == "losses" or _selects(items, name, scalar):
                is_other = name in used and scalar.collection != "losses"
                prefix = PRINTED if PRINTED in scalar.marks else scalar.collection
                named[f"{prefix}/{name}" if is_other else name] = scalar
            else:
                self._wait({name: scalar}, stamp)
        return named

    def _wait(self, scalars: Mapping[str, Scalar], stamp: StepStamp) -> None:
        self._waiting |= {name: (stamp, scalar) for name, scalar in scalars.items() if name not in self._logged}


def _selects(items: Sequence[CaptureItem], name: str, scalar: Scalar) -> bool:
    members = frozenset({scalar.collection})
    return any(item.selects(name, members) for item in items)
