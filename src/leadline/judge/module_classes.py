"""The classes of modules that have only an index for a name, for the messages of findings."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Final

from leadline.reader.point import Point
from leadline.records.names import MODULE_COLLECTIONS, is_module_collection, module_of
from leadline.records.series import SeriesLayout, TensorInfo

_INDEX: Final = re.compile(r"(?:.*\.)?\d+")


class ModuleClasses:
    """The classes of the modules whose inputs or outputs were captured, and whose names end with an index.

    ``0`` or ``features.3`` says little to a reader: a message about ``2.weight`` becomes one about
    ``2.weight (linear)``, with the class as the collections have it (``linear_output``).
    """

    def __init__(self) -> None:
        self._classes: dict[str, str] = {}
        self._seen: dict[int, SeriesLayout] = {}

    def update(self, point: Point) -> None:
        """Look at what was captured at a point."""
        for layout in (group.layout for group in point.groups):
            if id(layout) not in self._seen:
                self._seen[id(layout)] = layout
                for tensor in layout.tensors:
                    self._add(tensor)

    def _add(self, tensor: TensorInfo) -> None:
        module = module_of(tensor.name)
        if not _INDEX.fullmatch(module) or module in self._classes:
            return
        kinds = (name for name in tensor.collections if is_module_collection(name) and name not in MODULE_COLLECTIONS)
        if (kind := next(kinds, None)) is not None:
            self._classes[module] = kind.rpartition("_")[0]

    def name(self, message: str, tensors: Iterable[str]) -> str:
        """Return a message with the class behind the first mention of each module of the tensors."""
        modules: dict[str, list[str]] = {}
        for tensor in tensors:
            modules.setdefault(module_of(tensor), []).append(re.escape(tensor.removeprefix("gradient/")))
        for module, names in modules.items():
            kind = self._classes.get(module)
            if kind is not None:
                mentions = "|".join([f"(?:module|layer) {re.escape(module)}", *names])
                message = re.sub(rf"(?<![\w.])(?:{mentions})(?![\w.]*\w)", rf"\g<0> ({kind})", message, count=1)
        return message
