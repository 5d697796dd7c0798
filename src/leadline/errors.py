"""Every error that Leadline raises, split by what the caller can do about it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager

_MOST_LISTED = 8


class LeadlineError(Exception):
    """Root of all errors of Leadline; the message ends with what to do next."""


class ConfigurationError(LeadlineError, ValueError):
    """A setting is wrong: fix the setting."""


class UnknownNameError(ConfigurationError, LookupError):
    """A name that nothing bears.

    Attributes:
        kind: What was looked for ("rule", "preset", …).
        name: The name that was given.
        known: The names that exist.
    """

    def __init__(self, kind: str, name: str, known: Iterable[str], hint: str = "") -> None:
        self.kind, self.name, self.known, self.hint = kind, name, tuple(known), hint
        super().__init__(kind, name, self.known, hint)

    def __str__(self) -> str:
        nearest = closest(self.name, self.known)
        listed = (
            ""
            if self.hint and len(self.known) > _MOST_LISTED
            else f"; known: {', '.join(sorted(self.known)) or 'none'}"
        )
        ask = f"; did you mean {nearest!r}?" if nearest else listed
        tail = f"  ({self.hint})" if self.hint else ""
        return f"no {self.kind} named {self.name!r}{ask}{tail}"


class RunNotFoundError(LeadlineError, FileNotFoundError):
    """There is no run at that place: fix the name, or wait until it starts."""


class RunExistsError(LeadlineError, FileExistsError):
    """A run stands there already: choose another name."""


class DamagedRunError(LeadlineError, ValueError):
    """A part of a run cannot be read: the rest can."""


class NotCapturedError(LeadlineError, LookupError):
    """What was asked is not in the run and never will be: ask for its capture next time."""


class NotYetError(LeadlineError, LookupError):
    """What was asked is not in the run yet: wait."""


class MissingExtraError(LeadlineError, ImportError):
    """An optional part is not installed: install the extra that the message names."""


class StoreFullError(LeadlineError, OSError):
    """The store takes no more: make room; the training goes on without."""


class TrainingStopped(SystemExit):
    """Raised in the training process at a step boundary when somebody asked it to stop.

    A ``SystemExit``, so that ``except Exception`` does not swallow it, while ``finally`` and ``atexit`` run.
    """

    def __init__(self, reason: str = "") -> None:
        super().__init__(10)
        self.reason = reason

    def __str__(self) -> str:
        return self.reason or "stopped by Leadline"


@contextmanager
def located(place: str) -> Iterator[None]:
    """Say where, in front of what is wrong with a setting."""
    try:
        yield
    except ConfigurationError as error:
        raise ConfigurationError(f"{place}: {error}") from None


def closest(name: str, known: Iterable[str], cutoff: float = 0.6) -> str | None:
    """The known name that is most like ``name``, or None where none is like it.

    Args:
        cutoff: How alike they must be, from 0 to 1 (the same).
    """
    from difflib import get_close_matches

    folded = {each.lower().replace("-", "_"): each for each in known}
    found = get_close_matches(name.lower().replace("-", "_"), folded, n=1, cutoff=cutoff)
    return folded[found[0]] if found else None
