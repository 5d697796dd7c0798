"""Profile windows: ranges of steps for which operators, Python functions or data loaders are recorded."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Final, Literal, NotRequired, TypedDict, TypeGuard

from leadline.records.decoding import StrictDocument

Kind = Literal["detailed", "cprofile", "pyinstrument", "dataloader"]
Timer = Literal["total", "cpu", "off_cpu"]
Part = Literal["loop", "start", "end"]

KINDS: Final[tuple[Kind, ...]] = ("detailed", "cprofile", "pyinstrument", "dataloader")
TIMERS: Final[tuple[Timer, ...]] = ("total", "cpu", "off_cpu")
PARTS: Final[tuple[Part, ...]] = ("loop", "start", "end")
MAX_STEPS: Final = 100
"""Maximum length of a window, since its data grow with each step."""
MAX_SECONDS: Final = 600.0
_GLOBAL: Final = ("first_step", "end_step")
_TRAIN: Final = ("first_train_step", "end_train_step")
_NUMBERS: Final = ("start_ns", "end_ns", *_GLOBAL, *_TRAIN, "steps", "bytes")
_WINDOW: Final = dict.fromkeys(_NUMBERS, int) | dict.fromkeys(("id", "kind", "timer", "part"), str) | {"notes": list}
_STEP: Final = {"step": int, "mode": str, "start_ns": int, "end_ns": int, "marks": dict}


@dataclass(frozen=True, slots=True)
class ProfileWindow(StrictDocument):
    """One window of one kind; at most one of ``step`` and ``time_ns`` is given, and one of ``steps`` and ``seconds``.

    By default a window starts with the next step and covers one step.
    """

    kind: Kind
    timer: Timer = "total"
    """The time that cProfile measures: wall time, CPU time of the thread, or the difference of the two."""
    part: Part = "loop"
    """``start``: from the start of the process to the first step; ``end``: after the last step; ``loop``: steps."""
    step: int | None = None
    """The first train step of the window."""
    time_ns: int | None = None
    """Wall clock: the window starts with the first step that begins at or after this time."""
    after_seconds: float | None = None
    """The same as seconds from the start of the run."""
    steps: int | None = None
    """Number of steps of all modes."""
    seconds: float | None = None
    """The window ends with the first step that ends at least this many seconds after its start."""
    with_memory: bool = False
    """Whether ``detailed`` also records memory allocations of operators; on an accelerator it always does."""
    id: str = ""
    """Name of the window's folder; unique within the run."""

    def describe(self) -> str:
        """Return a short description: ``cprofile (cpu) from step 9, 2 steps``."""
        kind = f"cprofile ({self.timer})" if self.kind == "cprofile" else self.kind
        if self.part != "loop":
            return f"{kind} at process {self.part}"
        return f"{kind} {self._describe_start()}, {self._describe_length()}"

    def _describe_start(self) -> str:
        if self.step is not None:
            return f"from step {self.step:,}"
        if self.after_seconds is not None:
            return f"{self.after_seconds:g} s after the start"
        return "from a given time" if self.time_ns is not None else "from the next step"

    def _describe_length(self) -> str:
        if self.seconds is not None:
            return f"{self.seconds:g} s"
        count = self.steps or 1
        return "1 step" if count == 1 else f"{count:,} steps"


class TraceStep(TypedDict):
    """A step of a window whose trace was recorded, with its times by the wall clock."""

    step: int
    """The global step, in the run directory."""
    mode: str
    start_ns: int
    end_ns: int
    marks: dict[str, int]
    """When each phase began that is marked."""


class WindowDocument(TypedDict):
    """``window.json``: a window that is completely written; what earlier versions did not write may be missing."""

    id: str
    kind: str
    timer: NotRequired[str]
    part: NotRequired[str]
    worker: NotRequired[str]
    first_step: int
    end_step: int
    """The step after the last; both are global steps."""
    first_train_step: NotRequired[int]
    end_train_step: NotRequired[int]
    start_ns: int
    end_ns: int
    notes: NotRequired[list[str]]
    files: NotRequired[list[str]]
    bytes: NotRequired[int]
    written_ns: NotRequired[int]


def is_window_document(document: object) -> TypeGuard[WindowDocument]:
    """Return whether a value is the document of a completely written window."""
    if not isinstance(document, dict) or not _fits(document, _WINDOW, ("id", "kind", "start_ns", "end_ns", *_GLOBAL)):
        return False
    return not any(name in document for name in _TRAIN) or all(document.get(name) is not None for name in _TRAIN)


def is_step(entry: object) -> TypeGuard[TraceStep]:
    """Return whether a value is a step of a trace; one without marks has none of that name."""
    is_one = isinstance(entry, dict) and _fits(entry, _STEP, ("step", "mode", "start_ns", "end_ns"))
    return is_one and all(map(_is_integer, entry.get("marks", {}).values()))  # type: ignore[attr-defined]


def _fits(entry: Mapping[Any, Any], kinds: Mapping[str, type], needed: Iterable[str]) -> bool:
    given = {name: entry[name] for name in kinds if entry.get(name) is not None}
    return all(name in given for name in needed) and all(
        _is_integer(value) if kinds[name] is int else isinstance(value, kinds[name]) for name, value in given.items()
    )


def _is_integer(value: object) -> bool:
    """Return whether a value is an integer of 64 bits."""
    return isinstance(value, int) and not isinstance(value, bool) and abs(value) < 1 << 63


def train_steps(document: WindowDocument) -> tuple[int, int]:
    """Return the first train step of a window and the one after the last; global steps for earlier versions."""
    if "first_train_step" in document:
        return document["first_train_step"], document["end_train_step"]
    return document["first_step"], document["end_step"]


def train_step_of(document: WindowDocument, steps: Iterable[tuple[int, str]]) -> dict[int, int]:
    """Return the train step of each global step of a window, given with its mode; of other modes the one before."""
    following, _ = train_steps(document)
    if "first_train_step" not in document or document.get("part") != "loop":
        return {step: step for step, _ in steps}
    positions = {}
    for step, mode in sorted(set(steps)):
        positions[step] = following if mode == "train" else max(0, following - 1)
        following += mode == "train"
    return positions
