"""The adapters of a process as one."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pytest

from leadline.config.capture import parse_capture
from leadline.frameworks.generic.adapter import GenericAdapter, Loop
from leadline.frameworks.loaded_adapters import LoadedAdapters
from leadline.instrumentation.guard import Facts, Guard
from leadline.instrumentation.recording import ProfileUnavailableError
from leadline.instrumentation.timeline.step_timeline import StepTimeline
from leadline.records.profile_window import ProfileWindow
from leadline.training.profiler.requests import framework_openers
from leadline.training.recorder.overhead import Overhead


class Callbacks:
    """Accepts every call."""

    def __init__(self) -> None:
        self.cost = Overhead()
        self.timeline = StepTimeline(self.cost)
        self.facts = Facts(print, int)

    def __getattr__(self, name: str) -> Any:
        return lambda *args, **kwargs: None


class RecordingAdapter(GenericAdapter):
    """Records the items that it is asked to capture."""

    def __init__(self, name: str, family: Any, notes: list[str]) -> None:
        super().__init__(Loop(name), notes.append)
        self.name, self.family = name, family
        self.watched: list[tuple[str | None, ...]] = []

    def knows(self, thing: object) -> bool:
        return thing is self._loop

    def watch_forward(self, items: Any) -> None:
        self.watched.append(tuple(item.collection for item in items))


class Installed:
    """Loaded adapters, none at first, with the families at each change and the notes."""

    def __init__(self) -> None:
        self.families: list[frozenset[str]] = []
        self.notes: list[str] = []
        self.frameworks = LoadedAdapters(self.notes.append, lambda: self.families.append(self.frameworks.families))
        self.frameworks.install(Callbacks(), Guard(self.notes.append))  # type: ignore[arg-type]

    def adapter(self, name: str, family: str) -> RecordingAdapter:
        return RecordingAdapter(name, family, self.notes)


@pytest.fixture
def installed(monkeypatch: pytest.MonkeyPatch) -> Iterator[Installed]:
    monkeypatch.setattr("leadline.frameworks.loaded_adapters.FRAMEWORKS", {})  # this process has imported torch
    installed = Installed()
    yield installed
    installed.frameworks.uninstall()


def test_a_new_family_is_reported_and_a_known_one_joins_the_current_step(installed: Installed) -> None:
    frameworks = installed.frameworks
    first, second = installed.adapter("a", "trees"), installed.adapter("b", "trees")
    third = installed.adapter("c", "arrays")
    frameworks.add(first)
    frameworks.watch_forward((parse_capture("weights:every=1"),))
    frameworks.add(second)
    frameworks.add(third)
    assert installed.families == [{"trees"}, {"trees", "arrays"}]
    assert (first.watched, second.watched, third.watched) == ([("weights",)], [("weights",)], [])


def test_an_item_of_one_family_goes_to_that_family(installed: Installed) -> None:
    frameworks = installed.frameworks
    trees, arrays = installed.adapter("a", "trees"), installed.adapter("b", "arrays")
    frameworks.add(trees)
    frameworks.add(arrays)
    of_trees, of_all = replace(parse_capture("labels"), family="trees"), parse_capture("weights")
    frameworks.watch_forward((of_trees, of_all))
    assert (trees.watched, arrays.watched) == ([("labels", "weights")], [("weights",)])
    frameworks.watch_forward((of_trees,))
    assert len(arrays.watched) == 1  # no item selects anything there
    assert not frameworks.captures_between_steps(replace(parse_capture("labels"), family="network"))


def test_the_label_names_the_frameworks_that_train(installed: Installed) -> None:
    frameworks = installed.frameworks
    first, second = installed.adapter("a", "trees"), installed.adapter("b", "arrays")
    frameworks.add(first)
    frameworks.add(second)
    assert (frameworks.label(), frameworks.training_families) == ("a, b", {"trees", "arrays"})
    frameworks.subject(second._loop)
    assert (frameworks.label(), frameworks.training_families) == ("b", {"arrays"})


def test_capabilities_that_no_adapter_has(installed: Installed) -> None:
    frameworks = installed.frameworks
    openers = framework_openers(frameworks, "/run", Guard(installed.notes.append))
    frameworks.add(installed.adapter("a", "trees"))
    with pytest.raises(ProfileUnavailableError, match="for PyTorch, TensorFlow and MXNet only; this process has a"):
        openers["detailed"](ProfileWindow("detailed"))
    with pytest.raises(ProfileUnavailableError, match="PyTorch is not imported"):
        openers["dataloader"](ProfileWindow("dataloader"))
    with pytest.raises(TypeError, match="not a model of a: str"):
        frameworks.register("model")
    assert (frameworks.profiles, frameworks.memory, frameworks.rank()) == (None, None, None)
    assert not frameworks.is_distributed()
    assert list(frameworks.diagnosing([])) == []
    assert frameworks.number("2.5") == 2.5


def test_the_torch_adapter_has_every_capability() -> None:
    import torch  # noqa: F401 - adapters are added for imported frameworks

    notes: list[str] = []
    frameworks = LoadedAdapters(notes.append, lambda: None)
    connected: list[object] = []
    frameworks.connect_data_loading(connected.append)
    frameworks.install(Callbacks(), Guard(notes.append))  # type: ignore[arg-type]
    try:
        adapter = frameworks.find("torch")
        assert connected == [adapter]
        assert frameworks.profiles is adapter is frameworks.memory
        assert [adapter for adapter, _ in frameworks.diagnosing([])][:1] == [adapter]
        assert (frameworks.rank(), frameworks.is_distributed()) == (None, False)
    finally:
        frameworks.uninstall()


def test_an_unsupported_version_is_noted_and_affects_nothing_else() -> None:
    script = """
import sys, types
from leadline.frameworks.loaded_adapters import LoadedAdapters
from leadline.instrumentation.guard import Guard
class Callbacks:
    def __getattr__(self, name): return lambda *a, **k: None
fake = types.ModuleType("xgboost"); fake.__version__ = "99.0"; sys.modules["xgboost"] = fake
notes = []
frameworks = LoadedAdapters(notes.append, lambda: None)
guard = Guard(notes.append)
frameworks.install(Callbacks(), guard)
assert guard.is_open
print(notes)
"""
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, done.stderr
    assert "xgboost 99.0 is not captured: this version is not supported" in done.stdout


def test_leadline_imports_no_framework() -> None:
    script = """
import sys, leadline.training.session.api
from leadline.frameworks.loaded_adapters import LoadedAdapters
from leadline.instrumentation.guard import Guard
LoadedAdapters(print, print).install(object(), Guard(print))
print(sorted({"torch", "xgboost", "lightgbm", "sklearn"} & sys.modules.keys()))
"""
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=120, check=False)
    assert (done.returncode, done.stdout.splitlines()[-1]) == (0, "[]"), done.stderr
