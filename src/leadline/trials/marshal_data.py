"""Reader of marshaled numbers, texts, tuples and dictionaries, as cProfile dumps them; nothing is executed."""

from __future__ import annotations

import struct
from collections.abc import Callable
from typing import Any, Final

_IS_REFERENCED: Final = 0x80
_MAX_DEPTH: Final = 64
_NULL: Final = object()
"""The end of a dictionary."""


def read_marshaled(data: bytes) -> Any:
    """Return the marshaled value.

    Raises:
        ValueError: It is damaged, or contains anything but numbers, texts, tuples, lists and dictionaries.
    Source:
        CPython, ``Python/marshal.c``.
    """
    return _Reader(data).value(0)


class _Reader:
    def __init__(self, data: bytes) -> None:
        self._data, self._at = data, 0
        self._references: list[Any] = []
        self._kinds: dict[bytes, Callable[[int], Any]] = {
            b"0": lambda depth: _NULL,
            b"N": lambda depth: None,
            b"T": lambda depth: True,
            b"F": lambda depth: False,
            b"i": lambda depth: self._integer("<i"),
            b"l": lambda depth: self._long(),
            b"g": lambda depth: struct.unpack("<d", self._take(8))[0],
            b"u": lambda depth: self._text(self._integer("<i")),
            b"t": lambda depth: self._text(self._integer("<i")),
            b"a": lambda depth: self._text(self._integer("<i")),
            b"A": lambda depth: self._text(self._integer("<i")),
            b"z": lambda depth: self._text(self._integer("<B")),
            b"Z": lambda depth: self._text(self._integer("<B")),
            b"r": lambda depth: self._reference(),
            b")": lambda depth: self._items(self._integer("<B"), depth),
            b"(": lambda depth: self._items(self._integer("<i"), depth),
            b"[": lambda depth: self._items(self._integer("<i"), depth),
            b"{": self._dictionary,
        }

    def value(self, depth: int) -> Any:
        if depth > _MAX_DEPTH:
            raise ValueError("it is nested too deeply")
        code = self._take(1)[0]
        kind = bytes([code & ~_IS_REFERENCED])
        if kind not in self._kinds:
            raise ValueError(f"it contains a value of type {kind!r} at byte {self._at - 1:,}")
        place = None
        if code & _IS_REFERENCED and kind != b"r":
            place = len(self._references)
            self._references.append(None)
        value = self._kinds[kind](depth)
        if place is not None:
            self._references[place] = value
        return value

    def _take(self, size: int) -> bytes:
        if size < 0 or self._at + size > len(self._data):
            raise ValueError(f"it is truncated at byte {self._at:,}")
        self._at += size
        return self._data[self._at - size : self._at]

    def _integer(self, form: str) -> int:
        return int(struct.unpack(form, self._take(struct.calcsize(form)))[0])

    def _long(self) -> int:
        count = self._integer("<i")
        digits = struct.unpack(f"<{abs(count)}H", self._take(2 * abs(count)))
        value = sum(int(digit) << 15 * index for index, digit in enumerate(digits))
        return -value if count < 0 else value

    def _text(self, size: int) -> str:
        return self._take(size).decode("utf-8", "surrogatepass")

    def _reference(self) -> Any:
        index = self._integer("<i")
        if not 0 <= index < len(self._references):
            raise ValueError(f"it refers to a value that does not exist, at byte {self._at - 4:,}")
        return self._references[index]

    def _items(self, count: int, depth: int) -> tuple[Any, ...]:
        if count < 0 or count > len(self._data):
            raise ValueError(f"it is damaged at byte {self._at:,}")
        return tuple(self.value(depth + 1) for _ in range(count))

    def _dictionary(self, depth: int) -> dict[Any, Any]:
        result: dict[Any, Any] = {}
        while (key := self.value(depth + 1)) is not _NULL:
            try:
                result[key] = self.value(depth + 1)
            except TypeError:
                raise ValueError(f"it has a key that cannot be one, at byte {self._at:,}") from None
        return result
