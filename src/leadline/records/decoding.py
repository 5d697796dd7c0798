"""The base classes of stored records, and their one decoder."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import asdict, fields
from functools import lru_cache, partial
from types import NoneType
from typing import Any, ClassVar, Final, Literal, Self, get_args, get_origin, get_type_hints, is_typeddict

from leadline.records.json_object import JsonObject

_Decode = Callable[[Any], Any]

_INVALID: Final = object()
_NUMBERS: Final = {"NaN": math.nan, "Infinity": math.inf, "-Infinity": -math.inf}
"""The numbers that JSON cannot represent, as ``store.documents`` writes them."""


class Document:
    """A record that is stored as a JSON object; the names of its fields are the keys.

    **Always decodes** - keys that are missing, and values of another type, take the default; unknown keys are ignored.
    """

    __slots__ = ()
    __dataclass_fields__: ClassVar[dict[str, Any]]

    @classmethod
    def from_dict(cls, data: Any) -> Self:
        """Create a record from a decoded JSON value."""
        if not isinstance(data, Mapping):
            return cls()
        return cls(**{name: value for name, value in _decode(cls, data).items() if value is not _INVALID})

    def fields(self) -> dict[str, object]:
        """Return the values by key; ``store.documents`` encodes records within them."""
        return {name: getattr(self, name) for name in self.__dataclass_fields__}


class StrictDocument(Document):
    """A record that is of no use if a part of it is missing.

    **Decodes or fails** - keys that are missing take the default, and unknown keys of newer versions are ignored; a
    missing key without a default and a value of another type are errors.
    """

    __slots__ = ()

    @classmethod
    def from_dict(cls, data: Any) -> Self:
        """Create a record from a decoded JSON value.

        Raises:
            TypeError: It is not such a record.
        """
        if not isinstance(data, Mapping):
            raise TypeError(f"{cls.__name__} is not an object")
        values = _decode(cls, data)
        invalid = [name for name, value in values.items() if value is _INVALID]
        if invalid:
            raise TypeError(f"invalid {', '.join(invalid)} of {cls.__name__}")
        return cls(**values)

    def to_dict(self) -> JsonObject:
        """Return the record as plain JSON values."""
        return asdict(self)


def _decode(kind: type[Document], data: Mapping[str, object]) -> JsonObject:
    decoders: dict[str, _Decode] = _decoders(kind)  # type: ignore[arg-type]
    return {name: decode(data[name]) for name, decode in decoders.items() if name in data}


@lru_cache
def _decoders(kind: type[Document]) -> dict[str, _Decode]:
    hints, is_strict = get_type_hints(kind), issubclass(kind, StrictDocument)
    return {item.name: _decoder(hints[item.name], is_strict) for item in fields(kind)}


def _decoder(kind: Any, is_strict: bool) -> _Decode:
    """Return the function that turns a JSON value into a value of a type.

    Args:
        is_strict: Whether a list or object with an invalid item is invalid, rather than shorter.
    """
    arguments, origin = get_args(kind), get_origin(kind)
    if kind is Any:
        return lambda value: value
    if origin is Literal:
        return lambda value: value if value in arguments else _INVALID
    if len(arguments) == 2 and arguments[1] is NoneType:
        decode = _decoder(arguments[0], is_strict)
        return lambda value: None if value is None else decode(value)
    if origin in (tuple, dict):
        return partial(_decode_items, origin, _decoder(arguments[origin is dict], is_strict), is_strict)
    if is_typeddict(kind):
        kind = dict
    if isinstance(kind, type) and issubclass(kind, StrictDocument):
        return kind.from_dict
    if isinstance(kind, type) and issubclass(kind, Document):
        return lambda value: kind.from_dict(value) if isinstance(value, Mapping) else _INVALID
    if kind is float:
        return lambda value: value if isinstance(value, (int, float)) else _NUMBERS.get(str(value), _INVALID)
    accepted = (int, *arguments) if float in arguments else kind
    return lambda value: value if isinstance(value, accepted) else _INVALID


def _decode_items(kind: type, of_item: _Decode, is_strict: bool, value: Any) -> Any:
    if not isinstance(value, dict if kind is dict else (list, tuple)):
        return _INVALID
    items = {key: of_item(item) for key, item in (value.items() if isinstance(value, dict) else enumerate(value))}
    valid = {key: item for key, item in items.items() if item is not _INVALID}
    if is_strict and len(valid) < len(items):
        return _INVALID
    return valid if kind is dict else tuple(valid.values())
