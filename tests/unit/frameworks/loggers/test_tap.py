"""What is heard becomes one scalar each, and a library that we listen to behaves as it did."""

from __future__ import annotations

import inspect
import pickle
from collections.abc import Mapping
from types import ModuleType, SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch

from leadline.frameworks.loggers.interceptor import Interceptor
from leadline.frameworks.loggers.patches import Logger, Replacement
from leadline.frameworks.loggers.registry import Loggers
from leadline.frameworks.loggers.unique_names import UniqueNames
from leadline.frameworks.loggers.values import scalar
from leadline.training.guard import Guard


class Sink:
    """Keeps what a recorder would keep for the step under way."""

    def __init__(self) -> None:
        self.clock: Any = SimpleNamespace(step=0)
        self.cost: Any = SimpleNamespace(own_ns=0, loop_ns=0)
        self.kept: dict[str, Any] = {}

    def log(self, values: Mapping[str, Any], collection: str) -> None:
        assert collection == "metrics"
        self.kept |= values

    def withdraw(self, name: str, collection: str) -> None:
        self.kept.pop(name, None)

    def next_step(self) -> dict[str, Any]:
        kept, self.kept = self.kept, {}
        self.clock.step += 1
        return kept


class Metric:
    def __init__(self) -> None:
        self._computed: Any = None


class Writer:
    """A library's."""

    def write(self, name: str, value: object, *, twice: bool = False) -> str:
        """Its own words."""
        if value == "refused":
            raise ValueError("the library's own")
        return f"{name}={value}"


LIBRARY = ModuleType("library")
LIBRARY.Writer = Writer  # type: ignore[attr-defined]


def written(writer: object, name: str, value: object, **others: object) -> dict[str, Any]:
    if value == "unexpected":
        raise KeyError("ours")
    return {name: value}


def replacements(library: ModuleType, tap: Interceptor) -> list[Replacement]:
    return [Replacement(library.Writer, "write", tap.after(written))]


@pytest.fixture
def sink() -> Sink:
    return Sink()


@pytest.fixture
def tap(sink: Sink) -> Interceptor:
    return Interceptor(sink, Guard(pytest.fail), float)


def listening(sink: Sink, told: list[str], wrap: Any = replacements) -> Loggers:
    return Loggers(sink, float, told.append, (Logger("library", {"library_waited_for": wrap}),))


def test_a_library_behaves_as_it_did_and_is_put_back(sink: Sink, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(__import__("sys").modules, "library_waited_for", LIBRARY)
    before = vars(Writer)["write"]
    loggers = listening(sink, [])
    loggers.install()
    assert vars(Writer)["write"] is not before
    assert Writer().write("a", 1.5) == "a=1.5"
    assert Writer().write(name="b", value=torch.tensor(2.5), twice=True) == "b=2.5"
    with pytest.raises(ValueError, match="the library's own"):
        Writer().write("c", "refused")
    assert sink.kept == {"a": 1.5, "b": 2.5}
    assert inspect.signature(Writer.write) == inspect.signature(before)
    assert (Writer.write.__doc__, Writer.write.__qualname__) == ("Its own words.", "Writer.write")
    assert pickle.loads(pickle.dumps(Writer.write)) is Writer.write
    loggers.uninstall()
    assert vars(Writer)["write"] is before


def test_a_failure_of_ours_ends_the_listening_and_nothing_else(sink: Sink, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(__import__("sys").modules, "library_waited_for", LIBRARY)
    before, told = vars(Writer)["write"], list[str]()
    listening(sink, told).install()
    assert Writer().write("a", "unexpected") == "a=unexpected"
    assert vars(Writer)["write"] is before
    assert len(told) == 1
    assert told[0].startswith("what the script logs is no longer captured: KeyError")


def test_a_library_of_another_version_is_told_and_left_alone(sink: Sink, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(__import__("sys").modules, "library_waited_for", ModuleType("library_waited_for"))
    told = list[str]()
    loggers = listening(sink, told)
    loggers.install()
    assert len(told) == 1
    assert told[0].startswith("what is logged through library is not captured: this version of it differs")
    loggers.uninstall()


def test_what_somebody_else_put_in_place_of_ours_stays(sink: Sink, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(__import__("sys").modules, "library_waited_for", LIBRARY)
    before = vars(Writer)["write"]
    loggers = listening(sink, [])
    loggers.install()
    ours = vars(Writer)["write"]

    def theirs(writer: Any, *args: Any) -> Any:
        return ours(writer, *args)

    monkeypatch.setattr(Writer, "write", theirs)
    loggers.uninstall()
    assert vars(Writer)["write"] is theirs
    assert Writer().write("a", 1) == "a=1"
    monkeypatch.setattr(Writer, "write", before)


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (1, 1.0),
        (True, 1.0),
        (0.5, 0.5),
        (np.float32(0.5), 0.5),
        (np.array([2]), 2.0),
        (np.bool_(True), 1.0),
        (torch.tensor([3.0]), 3.0),
        (torch.nn.Parameter(torch.tensor(3.0)), 3.0),
        (torch.tensor(True), 1.0),
        ("1", None),
        (None, None),
        (1j, None),
        (10**400, None),
        (np.array([1.0, 2.0]), None),
        (np.array("a"), None),
        (torch.tensor([1.0, 2.0]), None),
        (torch.tensor(1j), None),
        (torch.empty(1, device="meta"), None),
        (torch.tensor([1.0]).to_sparse(), None),
        ([1.0], None),
        ({"a": 1.0}, None),
        (np.array(1j), None),
    ],
)
def test_only_real_scalars_count(value: Any, expected: float | None) -> None:
    found = scalar(value)
    assert (found is None) if expected is None else (torch.as_tensor(found).detach().item() == expected)


def test_what_one_library_passes_on_to_another_is_heard_once(sink: Sink, tap: Interceptor) -> None:
    def inner(name: str, value: float) -> None:
        return None

    inner = tap.after(lambda name, value: {name: value})(inner)

    def outer(logs: dict[str, float]) -> None:
        logs["added"] = 7.0
        for name, value in logs.items():
            inner("train/" + name, value)
        inner("a callback's own", 9.0)

    outer = tap.around(lambda logs: logs, lambda logs: logs)(outer)
    outer({"loss": 0.5, "bad": float("nan")})
    assert sink.kept.keys() == {"loss", "bad", "added", "a callback's own"}
    inner("train/loss", 0.5)
    assert "train/loss" in sink.kept


def test_an_error_of_the_library_ends_the_passing_on(sink: Sink, tap: Interceptor) -> None:
    def outer(fails: bool) -> None:
        if fails:
            raise ValueError("its own")

    outer = tap.around(lambda fails: None, lambda fails: {})(outer)
    with pytest.raises(ValueError, match="its own"):
        outer(True)
    tap.after(lambda: {"after": 1.0})(lambda: None)()
    assert sink.kept == {"after": 1.0}


def log(tap: Interceptor, name: str, value: Any) -> None:
    tap.after(lambda: {name: value})(lambda: None)()


def test_a_metric_that_nobody_logs_is_kept_under_its_own_name(sink: Sink, tap: Interceptor) -> None:
    metric = Metric()
    for step in range(6):
        tap.tell_unnamed(metric, {"Metric_step": step / 10})
        log(tap, "other", 5.0 + step)
        assert sink.next_step() == {"Metric_step": step / 10, "other": 5.0 + step}


def test_a_metric_that_is_logged_in_its_step_is_one_scalar(sink: Sink, tap: Interceptor) -> None:
    metric = Metric()
    for step in range(6):
        if not tap.is_named(metric):
            tap.tell_unnamed(metric, {"Metric_step": step / 10})
        log(tap, "accuracy", step / 10)
        assert sink.next_step() == {"accuracy": step / 10}
    assert tap.is_named(metric)


def test_a_metric_that_is_logged_a_step_later_is_soon_one_scalar(sink: Sink, tap: Interceptor) -> None:
    metric, unnamed = Metric(), []
    for step in range(6):
        if not tap.is_named(metric):
            tap.tell_unnamed(metric, {"Metric_step": step / 10})
        unnamed.append("Metric_step" in sink.next_step())
        log(tap, "accuracy", step / 10)
    assert unnamed == [True, True, True, False, False, False]


def test_the_very_object_that_a_metric_gave_names_it_at_once(sink: Sink, tap: Interceptor) -> None:
    metric = Metric()
    metric._computed = torch.tensor(0.5)
    tap.tell_unnamed(metric, {"Metric": metric._computed.clone()})
    log(tap, "accuracy", metric._computed)
    assert sink.next_step() == {"accuracy": 0.5}
    assert tap.is_named(metric)


def test_equal_numbers_by_chance_name_no_metric(sink: Sink, tap: Interceptor) -> None:
    """Two metrics of small batches are often equal; only one of them is logged, and keeps being."""
    logged, other = Metric(), Metric()
    values = [(0.5, 0.25), (0.0, 0.0), (1.0, 1.0), (0.25, 0.25), (0.5, 0.0), (0.0, 0.0)]
    kept = []
    for one, another in values:
        if not tap.is_named(logged):
            tap.tell_unnamed(logged, {"Logged_step": one})
        tap.tell_unnamed(other, {"Other_step": another})
        log(tap, "f1", one)
        kept.append(sink.next_step())
    assert [each["Other_step"] for each in kept] == [another for _, another in values]
    assert [each["f1"] for each in kept] == [one for one, _ in values]
    assert not any("Logged_step" in each for each in kept)


def test_a_metric_object_that_is_logged_needs_no_name(sink: Sink, tap: Interceptor) -> None:
    metric = Metric()
    tap.tell_unnamed(metric, {"Metric_step": 0.5})
    tap.name_owner(metric)
    assert sink.next_step() == {}
    assert tap.is_named(metric)


def test_names_are_numbered_and_free_again() -> None:
    names, first, second = UniqueNames(), Metric(), Metric()
    assert [names.give(each, "Metric") for each in (first, second, first)] == ["Metric", "Metric_1", "Metric"]
    assert names.give(second, "val/Metric") == "val/Metric"
    assert names.find(second) == "val/Metric"
    del first
    third = Metric()
    assert names.give(third, "Metric") == "Metric"


def test_own_time_counts_once_the_training_has_begun(sink: Sink, tap: Interceptor) -> None:
    log(tap, "early", 1.0)
    assert sink.cost.own_ns == 0
    sink.cost.loop_ns = 1
    log(tap, "late", 1.0)
    assert sink.cost.own_ns > 0
