"""The numbers of a step: losses, metrics, what the script logs; and the rows that they become."""

from __future__ import annotations

import struct
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

from leadline.records.series import SeriesLayout, TensorInfo

Row = TypeVar("Row")


@dataclass(frozen=True, slots=True)
class Scalar:
    """A number of the step under way; of a loss also how many micro-batches it is the mean of."""

    collection: str
    values: tuple[Any, ...]
    """Numbers, or some that are still on a device."""
    marks: tuple[str, ...] = ()
    """Further collections that it is a member of."""


@dataclass(slots=True)
class _Loss:
    """The losses of one place in the script in the step under way."""

    name: str
    total: Any = 0.0
    """A number, or one that is still on a device."""
    count: int = 0
    marks: tuple[str, ...] = ()


class LossBuffer:
    """The losses of the step under way, a name for each place where one comes from."""

    def __init__(self) -> None:
        self.latest: dict[str, float] = {}
        """The last value of each."""
        self._sites: dict[object, _Loss] = {}
        self._names: set[str] = set()

    def name(self, site: object) -> str | None:
        """What the losses of a place are called; None before its first."""
        known = self._sites.get(site)
        return known.name if known is not None else None

    def only_name(self) -> str | None:
        """The one name that there is; None where there are several."""
        return next(iter(self._names)) if len(self._names) == 1 else None

    def add(self, site: object, value: Any, name: str | None, marks: tuple[str, ...] = ()) -> None:
        """A loss was told; its place is named when it is the first.

        Args:
            name: What the loss call is known by; None: nobody knows.
            marks: Further collections that it is a member of.
        """
        known = self._sites.get(site)
        if known is None:
            known = self._sites[site] = _Loss(self._free(name), marks=marks)
            self._names.add(known.name)
        known.total += value
        known.count += 1

    def pending(self) -> bool:
        """Whether some were told in the step under way."""
        return any(each.count for each in self._sites.values())

    def take(self) -> dict[str, Scalar]:
        """The means of the step that ends, by name."""
        taken = {}
        for each in self._sites.values():
            if each.count:
                taken[each.name] = Scalar("losses", (each.total / each.count, float(each.count)), each.marks)
                each.total, each.count = 0.0, 0
        return taken

    def keep(self, layout: SeriesLayout, values: Sequence[float]) -> None:
        """A row that was made of what ``take`` gave has come off its device."""
        for (index, statistic), value in zip(layout.columns, values, strict=True):
            if statistic == "value" and "losses" in layout.tensors[index].collections:
                self.latest[layout.tensors[index].name] = value

    def _free(self, name: str | None) -> str:
        if name is None:
            return "loss" if "loss" not in self._names else _next("loss", self._names)
        stem, _, number = name.rpartition("_")
        return name if name not in self._names else _next(stem if number.isdigit() else name, self._names)


def _next(stem: str, taken: set[str]) -> str:
    count = 1
    while f"{stem}_{count}" in taken:
        count += 1
    return f"{stem}_{count}"


class ScalarRows:
    """Rows of scalars; equal sets of names share a layout."""

    def __init__(self) -> None:
        self._layouts: dict[tuple[tuple[str, tuple[str, ...]], ...], SeriesLayout] = {}

    def row(self, taken: Mapping[str, Scalar], fetch: Callable[[list[Any]], Row]) -> tuple[SeriesLayout, bytes | Row]:
        """The layout, and one float64 a column.

        Args:
            fetch: Makes a row of numbers of which some are still on a device.
        """
        values = [value for each in taken.values() for value in each.values]
        layout = self.layout(taken)
        is_here = all(type(value) is float for value in values)
        return layout, struct.pack(f"<{len(values)}d", *values) if is_here else fetch(values)

    def layout(self, taken: Mapping[str, Scalar]) -> SeriesLayout:
        """The layout of the row that such numbers become."""
        return self._layout(tuple((name, (each.collection, *each.marks)) for name, each in taken.items()))

    def _layout(self, names: tuple[tuple[str, tuple[str, ...]], ...]) -> SeriesLayout:
        known = self._layouts.get(names)
        if known is None:
            tensors = tuple(TensorInfo(name, collections, (), "float64") for name, collections in names)
            columns: list[tuple[int, str]] = []
            for index, (_, collections) in enumerate(names):
                columns.append((index, "value"))
                if collections[0] == "losses":
                    columns.append((index, "count"))
            known = self._layouts[names] = SeriesLayout(tensors, tuple(columns))
        return known
