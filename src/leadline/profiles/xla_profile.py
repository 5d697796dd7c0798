"""Reader of XSpace files, which the profilers of TensorFlow and JAX write; needs neither of them, nor protobuf.

Source: ``xplane.proto`` and ``hlo.proto`` of OpenXLA. Fields that are not used are skipped.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Final

from leadline.formats.protobuf import content, double, fields, signed, submessage
from leadline.records.json_object import JsonObject

_START_TIME: Final = "profile_start_time"
_OFFSETS_NS: Final = 10**15
"""The time of a line that is smaller is counted from the start of the profile, otherwise since the epoch."""


@dataclass(frozen=True, slots=True)
class SpaceEvent:
    """A time slice of a line."""

    name: str
    start_ns: int
    """ns since the epoch."""
    duration_ns: int
    stats: JsonObject


@dataclass(frozen=True, slots=True)
class SpaceLine:
    """The events of a thread, or of a stream of a device."""

    plane: str
    """``/host:CPU``, ``/device:GPU:0`` …"""
    id: int
    name: str
    events: list[SpaceEvent]


@dataclass(frozen=True, slots=True)
class Space:
    """What a profile contains.

    Attributes:
        operator_names: The name in the framework of each instruction that XLA has compiled, by the names of its
            module and of itself: ``("jit_train", "dot.3")`` is ``jit(train)/dense/dot_general``.
    """

    lines: list[SpaceLine]
    operator_names: dict[tuple[str, str], str]


def parse_space(data: bytes) -> Space:
    """Parse a serialized XSpace.

    Raises:
        ValueError: The data are damaged.
    """
    try:
        planes = [_Plane(submessage(value)) for number, value in fields(data) if number == 1]
        begun_ns = next((plane.stats[_START_TIME] for plane in planes if _START_TIME in plane.stats), 0)
        names: dict[tuple[str, str], str] = {}
        for plane in planes:
            if plane.name == "/host:metadata":
                names |= plane.operator_names()
        return Space([line for plane in planes for line in plane.lines(begun_ns)], names)
    except (IndexError, TypeError, ValueError) as error:
        raise ValueError(f"not a whole XSpace: {error}") from None


class _Plane:
    """A plane: its lines are parsed when its names are known, which may follow them."""

    def __init__(self, data: memoryview) -> None:
        self.name = ""
        self._lines: list[memoryview] = []
        self._events: dict[int, dict[int, list[Any]]] = {}
        self._stats: dict[int, str] = {}
        own_stats: list[memoryview] = []
        for number, value in fields(data):
            if number == 2:
                self.name = _text(value)
            elif number == 3:
                self._lines.append(submessage(value))
            elif number == 4:
                key, message = _entry(submessage(value))
                self._events[key] = message
            elif number == 5:
                key, message = _entry(submessage(value))
                self._stats[key] = _text(message[2][0]) if 2 in message else ""
            elif number == 6:
                own_stats.append(submessage(value))
        self._names = {key: _text(message[2][0]) if 2 in message else "" for key, message in self._events.items()}
        self.stats = self._stats_of(own_stats)

    def lines(self, begun_ns: int) -> Iterator[SpaceLine]:
        for data in self._lines:
            message = _message(data)
            base_ns = message.get(3, [0])[0]
            base_ns += begun_ns if base_ns < _OFFSETS_NS else 0
            names = message.get(11) or message.get(2) or [b""]
            events = [self._event(event, base_ns) for event in message.get(4, [])]
            yield SpaceLine(self.name, signed(message.get(1, [0])[0]), _text(names[0]), events)

    def operator_names(self) -> dict[tuple[str, str], str]:
        """Return the names of the instructions of the programs whose code the plane holds."""
        names: dict[tuple[str, str], str] = {}
        for event in self._events.values():
            for stat in event.get(5, []):
                for program in _message(stat).get(6, []):
                    names.update(_instruction_names(program))
        return names

    def _event(self, data: memoryview, base_ns: int) -> SpaceEvent:
        message = _message(data)
        start_ns = base_ns + message.get(2, [0])[0] // 1000
        name = self._names.get(message.get(1, [0])[0], "")
        return SpaceEvent(name, start_ns, message.get(3, [0])[0] // 1000, self._stats_of(message.get(4, [])))

    def _stats_of(self, stats: list[memoryview]) -> JsonObject:
        return dict(self._stat(_message(stat)) for stat in stats)

    def _stat(self, message: dict[int, list[Any]]) -> tuple[str, Any]:
        value: Any = None
        for number, values in message.items():
            if number == 2:
                value = double(values[0])
            elif number == 3:
                value = values[0]
            elif number == 4:
                value = signed(values[0])
            elif number == 5:
                value = _text(values[0])
            elif number == 6:
                value = content(values[0])
            elif number == 7:
                value = self._stats.get(values[0], "")
        return self._stats.get(message.get(1, [0])[0], ""), value


def _instruction_names(program: memoryview) -> Iterator[tuple[tuple[str, str], str]]:
    """Yield the instructions of an ``HloProto``, each with its module, and their names in the framework."""
    for module in map(_message, _message(program).get(1, [])):
        module_name = _text(module.get(1, [b""])[0])
        for computation in module.get(3, []):
            for instruction in _message(computation).get(2, []):
                message = _message(instruction)
                for metadata in message.get(7, []):
                    name = _message(metadata).get(2)
                    if name and 1 in message:
                        yield (module_name, _text(message[1][0])), _text(name[0])


def _entry(data: memoryview) -> tuple[int, dict[int, list[Any]]]:
    """Return key and value of a map whose values are messages."""
    message = _message(data)
    return message.get(1, [0])[0], _message(message[2][0]) if 2 in message else {}


def _message(data: memoryview) -> dict[int, list[Any]]:
    """Return the values of a message by field number."""
    values: dict[int, list[Any]] = {}
    for number, value in fields(data):
        values.setdefault(number, []).append(value)
    return values


def _text(data: Any) -> str:
    return content(data).decode(errors="replace")
