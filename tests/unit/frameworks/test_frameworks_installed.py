"""The adapters of a process as one."""

from __future__ import annotations

import subprocess
import sys
from typing import Any

import pytest

from leadline.config.options import parse_capture
from leadline.frameworks.generic.adapter import GenericAdapter, Loop
from leadline.frameworks.installed import Frameworks
from leadline.records.profile_window import ProfileWindow
from leadline.training.guard import Guard
from leadline.training.recording import ProfileUnavailableError


class Probes:
    """Takes whatever it is told."""

    def __getattr__(self, name: str) -> Any:
        return lambda *args, **kwargs: None


class Hearing(GenericAdapter):
    """Notes what it is asked to capture."""

    def __init__(self, name: str, family: Any, notes: list[str]) -> None:
        super().__init__(Loop(name), notes.append)
        self.name, self.family = name, family
        self.watched: list[tuple[str | None, ...]] = []

    def knows(self, thing: object) -> bool:
        return thing is self._loop

    def watch_forward(self, items: Any) -> None:
        self.watched.append(tuple(item.collection for item in items))


def installed() -> tuple[Frameworks, list[frozenset[str]], list[str]]:
    came: list[frozenset[str]] = []
    notes: list[str] = []
    frameworks = Frameworks(notes.append, lambda: came.append(frameworks.families))
    frameworks.install(Probes(), Guard(notes.append))  # type: ignore[arg-type]
    return frameworks, came, notes


@pytest.fixture
def frameworks() -> Any:
    found, came, notes = installed()
    found._adapters.clear()  # torch, which this process has imported
    came.clear()
    yield found, came, notes
    found.uninstall()


def test_the_first_of_a_kind_is_told_the_second_joins_the_step_under_way(frameworks: Any) -> None:
    found, came, notes = frameworks
    first, second, third = (
        Hearing(name, family, notes) for name, family in (("a", "trees"), ("b", "trees"), ("c", "arrays"))
    )
    found.add(first)
    wish = parse_capture("weights:every=1")
    found.watch_forward((wish,))
    found.add(second)
    found.add(third)
    assert came == [{"trees"}, {"trees", "arrays"}]
    assert (first.watched, second.watched, third.watched) == ([("weights",)], [("weights",)], [])


def test_a_wish_for_one_kind_goes_to_that_kind(frameworks: Any) -> None:
    found, _, notes = frameworks
    trees, arrays = Hearing("a", "trees", notes), Hearing("b", "arrays", notes)
    found.add(trees)
    found.add(arrays)
    from dataclasses import replace

    of_trees, of_all = replace(parse_capture("labels"), family="trees"), parse_capture("weights")
    found.watch_forward((of_trees, of_all))
    assert (trees.watched, arrays.watched) == ([("labels", "weights")], [("weights",)])
    found.watch_forward((of_trees,))
    assert len(arrays.watched) == 1  # nothing is due there
    assert not found.hears(replace(parse_capture("labels"), family="network"))


def test_it_says_who_trains(frameworks: Any) -> None:
    found, _, notes = frameworks
    first, second = Hearing("a", "trees", notes), Hearing("b", "arrays", notes)
    found.add(first)
    found.add(second)
    assert (found.spoken(), found.training_families) == ("a, b", {"trees", "arrays"})
    found.subject(second._loop)
    assert (found.spoken(), found.training_families) == ("b", {"arrays"})


def test_what_only_pytorch_has_is_refused_without_it(frameworks: Any) -> None:
    found, _, notes = frameworks
    found.add(Hearing("a", "trees", notes))
    with pytest.raises(ProfileUnavailableError, match="only PyTorch's operators are recorded; here is a"):
        found.open_operators(ProfileWindow("detailed"), Guard(notes.append))
    with pytest.raises(TypeError, match="a model is one of a, not a str"):
        found.register("model")
    assert not found.is_out_of_memory(MemoryError())
    assert found.number("2.5") == 2.5


def test_a_framework_that_differs_is_told_of_and_nothing_else_ends() -> None:
    script = """
import sys, types
from leadline.frameworks.installed import Frameworks
from leadline.training.guard import Guard
class Probes:
    def __getattr__(self, name): return lambda *a, **k: None
fake = types.ModuleType("xgboost"); fake.__version__ = "99.0"; sys.modules["xgboost"] = fake
notes = []
frameworks = Frameworks(notes.append, lambda: None)
guard = Guard(notes.append)
frameworks.install(Probes(), guard)
assert guard.is_open
print(notes)
"""
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, done.stderr
    assert "xgboost 99.0 is not captured: this version of it differs" in done.stdout


def test_no_framework_is_imported_by_us() -> None:
    script = """
import sys, leadline.training.session.session
from leadline.frameworks.installed import Frameworks
from leadline.training.guard import Guard
Frameworks(print, print).install(object(), Guard(print))
print(sorted({"torch", "xgboost", "lightgbm", "sklearn"} & sys.modules.keys()))
"""
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=120, check=False)
    assert (done.returncode, done.stdout.splitlines()[-1]) == (0, "[]"), done.stderr
