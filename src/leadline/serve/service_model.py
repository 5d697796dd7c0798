"""botocore's models of the services, and validation of requests with them."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import lru_cache
from itertools import islice
from typing import Any, Final

from botocore.loaders import Loader
from botocore.model import OperationModel, ServiceModel, Shape

from leadline.records.formatting import counted
from leadline.serve.api_error import ApiError, invalid

_MAX_SHOWN: Final = 100
_MAX_VIOLATIONS: Final = 20
_LONG: Final = 1 << 63
_INTEGER: Final = 1 << 31
_JAVA_CLASSES: Final = {r"\p{L}": r"\w", r"\p{N}": r"\d", r"\p{Z}": r"\s", r"\p{Alnum}": "a-zA-Z0-9"}
"""Character classes of Java's regular expressions, in those of Python."""
_TYPES: Final[Mapping[str, tuple[type, ...]]] = {
    "structure": (dict,),
    "map": (dict,),
    "list": (list,),
    "string": (str,),
    "boolean": (bool,),
    "blob": (str,),
    "integer": (int,),
    "long": (int,),
    "timestamp": (int, float),
}
UNLIMITED_KEYS: Final = frozenset({"action_json"})
"""Keys of maps whose values may exceed the limit of the model: SDK v2 writes whole lists of actions into one."""


@lru_cache
def service_model(service: str) -> ServiceModel:
    """Return botocore's model of a service."""
    return ServiceModel(Loader().load_service_model(service, "service-2"), service)


def validate(operation: OperationModel, request: Any) -> None:
    """Check a request against the input shape of its operation.

    Raises:
        ApiError: A value has the wrong type (``SerializationException``), or breaks a constraint.
    """
    if operation.input_shape is not None:
        refuse(_violations(operation.input_shape, request, ""))


def refuse(violations: Iterable[str]) -> None:
    """Refuse a request with broken constraints.

    Raises:
        ApiError: There is one.
    """
    found = list(islice(violations, _MAX_VIOLATIONS))
    if found:
        raise invalid(f"{counted(len(found), 'validation error')} detected: {'; '.join(found)}")


def _violations(shape: Shape, value: Any, path: str) -> Iterator[str]:
    expected = _TYPES[shape.type_name]
    is_right = isinstance(value, expected) and (bool in expected or not isinstance(value, bool))
    if not is_right:
        found = type(value).__name__ if value is not None else "null"
        raise ApiError("SerializationException", f"{path or 'the request'} must be a {shape.type_name}, not {found}")
    yield from _CHECKS[shape.type_name](shape, value, path)


def _structure(shape: Any, value: Mapping[str, Any], path: str) -> Iterator[str]:
    for name in shape.required_members:
        if value.get(name) is None:
            yield broken(None, _join(path, name), "Member must not be null")
    for name, item in value.items():
        if name not in shape.members:
            yield broken(item, _join(path, name), "there is no such member")
        elif item is not None:
            yield from _violations(shape.members[name], item, _join(path, name))


def _list(shape: Any, value: list[Any], path: str) -> Iterator[str]:
    yield from _length(shape, value, path)
    for number, item in enumerate(value, 1):
        yield from _violations(shape.member, item, f"{path}.{number}.member")


def _map(shape: Any, value: Mapping[str, Any], path: str) -> Iterator[str]:
    yield from _length(shape, value, path)
    for key, item in value.items():
        yield from _violations(shape.key, key, path)
        if key not in UNLIMITED_KEYS:
            yield from _violations(shape.value, item, f"{path}.{_shown(key)}.member")


def _string(shape: Any, value: str, path: str) -> Iterator[str]:
    yield from _length(shape, value, path)
    if shape.enum and value not in shape.enum:
        shown = ", ".join(shape.enum[:_MAX_VIOLATIONS])
        yield broken(value, path, f"Member must satisfy enum value set: [{shown}]")
    pattern = shape.metadata.get("pattern")
    if pattern is not None and not _compiled(pattern).fullmatch(value):
        yield broken(value, path, f"Member must satisfy regular expression pattern: {pattern}")


def _number(shape: Any, value: float, path: str) -> Iterator[str]:
    least, most = shape.metadata.get("min", -math.inf), shape.metadata.get("max", math.inf)
    size = {"integer": _INTEGER, "long": _LONG}.get(shape.type_name, math.inf)
    if value < max(least, -size):
        yield broken(value, path, f"Member must have value greater than or equal to {max(least, -size)}")
    elif value > most or value >= size:
        yield broken(value, path, f"Member must have value less than or equal to {min(most, size - 1)}")


def _any(shape: Any, value: Any, path: str) -> Iterator[str]:
    yield from ()


def _length(shape: Any, value: Any, path: str) -> Iterator[str]:
    least, most = shape.metadata.get("min", 0), shape.metadata.get("max", math.inf)
    if len(value) < least:
        yield broken(value, path, f"Member must have length greater than or equal to {least}")
    elif len(value) > most:
        yield broken(value, path, f"Member must have length less than or equal to {most}")


_CHECKS: Final[Mapping[str, Callable[[Any, Any, str], Iterator[str]]]] = {
    "structure": _structure,
    "map": _map,
    "list": _list,
    "string": _string,
    "boolean": _any,
    "blob": _any,
    "integer": _number,
    "long": _number,
    "timestamp": _number,
}


def broken(value: Any, path: str, constraint: str) -> str:
    """Return in the words of AWS which constraint a value breaks; None is a value that is missing."""
    return f"Value '{_shown(value)}' at '{path}' failed to satisfy constraint: {constraint}"


def _shown(value: Any) -> str:
    text = "null" if value is None else str(value)
    return text if len(text) <= _MAX_SHOWN else f"{text[:_MAX_SHOWN]}…"


def _join(path: str, name: str) -> str:
    """Return the path of a member as AWS writes it: ``debugHookConfig.s3OutputPath``."""
    member = f"{name[:1].lower()}{name[1:]}"
    return f"{path}.{member}" if path else member


@lru_cache
def _compiled(pattern: str) -> re.Pattern[str]:
    for java, python in _JAVA_CLASSES.items():
        pattern = pattern.replace(java, python)
    return re.compile(pattern)
