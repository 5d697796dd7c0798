"""The tensors of which a worker has written rows."""

from __future__ import annotations

import re

from leadline.records.documents import SampledItem
from leadline.records.series import SeriesLayout


class WrittenTensors:
    """Knows the names of the tensors of which rows were written, by mode and collection."""

    def __init__(self) -> None:
        self._names: dict[tuple[str, str], set[str]] = {}
        self._noted: set[tuple[int, str]] = set()
        """The layouts in use, by their ids, with the modes of their rows."""

    def note(self, layout: SeriesLayout, modes: set[str]) -> None:
        """Note rows of some modes, in a layout that stays in use until ``forget``."""
        for mode in modes:
            if (id(layout), mode) not in self._noted:
                self._noted.add((id(layout), mode))
                for tensor in layout.tensors:
                    for collection in tensor.collections:
                        self._names.setdefault((mode, collection), set()).add(tensor.name)

    def forget(self, layout: SeriesLayout) -> None:
        """Forget that a layout was noted, whose id may be that of an earlier one."""
        self._noted = {noted for noted in self._noted if noted[0] != id(layout)}

    def may_have(self, item: SampledItem) -> bool:
        """Return whether the training may have tensors of an item: it was never captured, or rows of some were."""
        if not item.captures or item.raw or item.collection is None:
            return True
        names = self._names.get((item.mode, item.collection), set())
        return any(not item.regexes or any(re.search(regex, name) for regex in item.regexes) for name in names)
