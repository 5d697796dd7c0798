"""Contracts name the variables of their trainings."""

from __future__ import annotations

from collections.abc import Iterator

import pytest


@pytest.fixture(autouse=True, scope="class")
def variables(request: pytest.FixtureRequest) -> Iterator[None]:
    """Set the ``variables`` of a contract, with which its trainings are forked."""
    with pytest.MonkeyPatch.context() as patch:
        for name, value in getattr(request.cls, "variables", {}).items():
            patch.setenv(name, value)
        yield
