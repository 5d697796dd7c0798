"""Whether the process is being forked for a copy that is tested, which has no session."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager


class _Forking:
    makes_copy = False


_state = _Forking()


@contextmanager
def making_copy() -> Iterator[None]:
    """Fork children without a session within this block."""
    _state.makes_copy = True
    try:
        yield
    finally:
        _state.makes_copy = False


def makes_copy() -> bool:
    """Return whether the child that was just forked is such a copy."""
    return _state.makes_copy
