"""Profiling windows: what is looked at in depth, from when on, for how long."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any, Final, Literal

Kind = Literal["detailed", "cprofile", "pyinstrument", "dataloader"]
Timer = Literal["total", "cpu", "off_cpu"]
Part = Literal["loop", "start", "end"]

KINDS: Final[tuple[Kind, ...]] = ("detailed", "cprofile", "pyinstrument", "dataloader")
TIMERS: Final[tuple[Timer, ...]] = ("total", "cpu", "off_cpu")
PARTS: Final[tuple[Part, ...]] = ("loop", "start", "end")
MOST_STEPS: Final = 100
"""A window never lasts longer: what it holds grows with each step."""
MOST_SECONDS: Final = 600.0


@dataclass(frozen=True, slots=True)
class ProfileWindow:
    """One window of one kind; of ``step`` and ``time_ns`` at most one is given, of ``steps`` and ``seconds`` too.

    Nothing given of either means: the step that begins next, and one step.
    """

    kind: Kind
    timer: Timer = "total"
    """What the clock of cProfile tells: all time, the thread's processor time, or the difference of the two."""
    part: Part = "loop"
    """``start``: from the start of the process to the first step; ``end``: from the end of the last step on;
    ``loop``: steps."""
    step: int | None = None
    """The first global step that it covers."""
    time_ns: int | None = None
    """Wall clock: it begins with the first step that begins then or later."""
    after_seconds: float | None = None
    """The same, counted from the start of the run."""
    steps: int | None = None
    """How many global steps it covers."""
    seconds: float | None = None
    """It ends with the first step that ends so many seconds after its begin, or later."""
    with_memory: bool = False
    """Whether ``detailed`` also tells what operators allocate; on an accelerator it always does."""
    id: str = ""
    """Names its folder; unique within the run."""

    def to_dict(self) -> dict[str, Any]:
        """As plain values for JSON."""
        return asdict(self)

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> ProfileWindow:
        """The inverse of ``to_dict``; unknown keys are of a newer version and left out."""
        return cls(**{key: data[key] for key in cls.__dataclass_fields__ if key in data})

    def spoken(self) -> str:
        """In a few words: ``cprofile (cpu) from step 9 on, 2 steps``."""
        kind = f"cprofile ({self.timer})" if self.kind == "cprofile" else self.kind
        if self.part != "loop":
            return f"{kind} of the process' {self.part}"
        return f"{kind} {self._spoken_begin()}, {self._spoken_length()}"

    def _spoken_begin(self) -> str:
        if self.step is not None:
            return f"from step {self.step:,} on"
        if self.after_seconds is not None:
            return f"{self.after_seconds:g} s after the start"
        return "from a given time on" if self.time_ns is not None else "from the next step on"

    def _spoken_length(self) -> str:
        if self.seconds is not None:
            return f"{self.seconds:g} s"
        count = self.steps or 1
        return "1 step" if count == 1 else f"{count:,} steps"
