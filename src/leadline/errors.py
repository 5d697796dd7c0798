"""The exceptions of Leadline, by what the caller can do about them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import Final

_MAX_LISTED = 8


class LeadlineError(Exception):
    """Base class of all exceptions of Leadline; the message ends with what to do next."""


class ConfigurationError(LeadlineError, ValueError):
    """A setting is invalid: fix the setting."""


class RunNotWritableError(ConfigurationError):
    """The run directory cannot be written: choose another folder."""


class UnknownNameError(ConfigurationError, LookupError):
    """There is nothing of that name.

    Attributes:
        kind: The kind of thing ("rule", "preset", …).
        name: The name that was given.
        known: The names that exist.
    """

    def __init__(self, kind: str, name: str, known: Iterable[str], hint: str = "") -> None:
        self.kind = kind
        self.name = name
        self.known = tuple(known)
        self.hint = hint
        super().__init__(kind, name, self.known, hint)

    def __str__(self) -> str:
        match = closest(self.name, self.known)
        is_listed = not self.hint or len(self.known) <= _MAX_LISTED
        known = f"; known: {', '.join(sorted(self.known)) or 'none'}" if is_listed else ""
        suggestion = f"; did you mean {match!r}?" if match else known
        hint = f"  ({self.hint})" if self.hint else ""
        return f"no {self.kind} named {self.name!r}{suggestion}{hint}"


class RunNotFoundError(LeadlineError, FileNotFoundError):
    """There is no such run: fix the name, or wait until it starts."""


class RunExistsError(LeadlineError, FileExistsError):
    """There is a run already: choose another name."""


class DamagedRunError(LeadlineError, ValueError):
    """A part of a run is damaged: the rest can be read."""


class NewerRunError(LeadlineError, ValueError):
    """A later version of Leadline has written the run: install that version."""


class NotCapturedError(LeadlineError, LookupError):
    """The data was not captured in the run: capture it next time."""


class NotYetError(LeadlineError, LookupError):
    """The data is not in the run yet: wait."""


class MissingExtraError(LeadlineError, ImportError):
    """An optional dependency is not installed: install the extra that the message names."""


class StoreFullError(LeadlineError, OSError):
    """The store is full: free some space; the training continues without it."""


STOPPED: Final = 10
"""The exit status of a job that a request stopped."""


class TrainingStopped(SystemExit):
    """Raised in the training process at a step boundary when a stop was requested.

    A ``SystemExit``, so that ``except Exception`` does not swallow it, while ``finally`` and ``atexit`` run.
    """

    def __init__(self, reason: str = "") -> None:
        super().__init__(STOPPED)
        self.reason = reason

    def __str__(self) -> str:
        return self.reason or "stopped by Leadline"


@contextmanager
def located(place: str) -> Iterator[None]:
    """Prefix the message of a configuration error with its location."""
    try:
        yield
    except ConfigurationError as error:
        raise ConfigurationError(f"{place}: {error}") from None


def closest(name: str, known: Iterable[str], cutoff: float = 0.6) -> str | None:
    """Return the known name that is most similar to ``name``, or the only one that begins with it; None if none is.

    Args:
        cutoff: The minimum similarity, from 0 to 1 (identical).
    """
    from difflib import get_close_matches

    folded = {candidate.lower().replace("-", "_"): candidate for candidate in known}
    wanted = name.lower().replace("-", "_")
    matches = get_close_matches(wanted, folded, n=1, cutoff=cutoff)
    longer = [candidate for candidate in folded if candidate.startswith(f"{wanted}_")]
    found = matches or (longer if len(longer) == 1 else [])
    return folded[found[0]] if found else None
