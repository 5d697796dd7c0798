"""What every unit test finds as if it ran alone."""

from __future__ import annotations

import shutil
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

DATA = Path(__file__).parents[1] / "data" / "smdebug"


@pytest.fixture(autouse=True)
def _nothing_compiled() -> Iterator[None]:
    """A test that compiles leaves no trace of it: a process that has compiled is watched otherwise."""
    yield
    if "torch._dynamo" in sys.modules:
        sys.modules["torch._dynamo"].reset()


@pytest.fixture(autouse=True)
def cache(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The cache of readers: none of the user's."""
    folder = tmp_path_factory.getbasetemp() / "cache-of-a-test"
    shutil.rmtree(folder, ignore_errors=True)
    monkeypatch.setenv("LEADLINE_CACHE", str(folder))
    return folder


@pytest.fixture
def copy_of(tmp_path: Path) -> Callable[[str], Path]:
    """Copies recordings that smdebug wrote, by name, so that a test may change them."""

    def copy(name: str) -> Path:
        return Path(shutil.copytree(DATA / name, tmp_path / name))

    return copy
