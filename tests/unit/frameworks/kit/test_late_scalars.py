"""Numbers that a framework may still be computing: their sums are read when all parts are known."""

from __future__ import annotations

import struct
from dataclasses import dataclass

from leadline.frameworks.kit.late_scalar import LateRow, LateScalar


@dataclass
class Part:
    value: float
    ready: bool = True
    lost: bool = False

    def is_ready(self) -> bool:
        return self.ready

    def is_lost(self) -> bool:
        return self.lost

    def read(self) -> float:
        return self.value


class OfFramework(LateScalar):
    __slots__ = ()


def test_sums_and_quotients_are_of_the_framework_and_have_all_parts() -> None:
    total = sum([OfFramework([Part(2.0)]), OfFramework([Part(4.0)], known=1.0)]) / 2
    assert isinstance(total, OfFramework)
    assert float(total) == 3.5


def test_a_row_is_done_when_every_part_can_be_read_without_waiting() -> None:
    part = Part(3.0, ready=False)
    row = LateRow([1.0, OfFramework([Part(2.0), part])])
    assert not row.is_done()
    part.ready = True
    assert row.is_done()
    assert row.values() == struct.pack("<2d", 1.0, 5.0)


def test_a_row_with_a_lost_part_is_done_and_has_no_values() -> None:
    row = LateRow([1.0, OfFramework([Part(2.0, ready=False, lost=True)])])
    assert row.is_done()
    assert row.values() is None
