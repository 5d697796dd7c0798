"""What every unit test finds as if it ran alone."""

from __future__ import annotations

import sys
from collections.abc import Iterator

import pytest


@pytest.fixture(autouse=True)
def _nothing_compiled() -> Iterator[None]:
    """A test that compiles leaves no trace of it: a process that has compiled is watched otherwise."""
    yield
    if "torch._dynamo" in sys.modules:
        sys.modules["torch._dynamo"].reset()
