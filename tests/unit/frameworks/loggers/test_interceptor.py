"""Logged values become one scalar each, and patched libraries behave as before."""

from __future__ import annotations

import inspect
import pickle
from collections.abc import Mapping
from types import ModuleType, SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch

from leadline.frameworks.loggers.interceptor import Interceptor, LoggingLibrary, scalar
from leadline.frameworks.loggers.registry import Loggers
from leadline.frameworks.loggers.training_libraries import STABLE_BASELINES3
from leadline.instrumentation.guard import Guard


class Sink:
    """Keeps the values that a recorder would record for the current step."""

    def __init__(self) -> None:
        self.cost: Any = SimpleNamespace(own_ns=0, loop_ns=0)
        self.kept: dict[str, Any] = {}

    def log(self, values: Mapping[str, Any], collection: str) -> None:
        assert collection == "metrics"
        self.kept |= values


class Writer:
    """A library's writer."""

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


def patches(library: ModuleType, interceptor: Interceptor) -> None:
    interceptor.replace(library.Writer, "write", interceptor.after(written))


@pytest.fixture
def sink() -> Sink:
    return Sink()


@pytest.fixture
def interceptor(sink: Sink) -> Interceptor:
    return Interceptor(sink, Guard(pytest.fail), float)


def installed(sink: Sink, warnings: list[str], wrap: Any = patches) -> Loggers:
    return Loggers(sink, float, warnings.append, (LoggingLibrary("library", {"library_waited_for": wrap}),))


def test_a_patched_library_behaves_as_before_and_is_restored(sink: Sink, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(__import__("sys").modules, "library_waited_for", LIBRARY)
    before = vars(Writer)["write"]
    loggers = installed(sink, [])
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


def test_an_error_in_leadline_ends_the_interception_and_nothing_else(
    sink: Sink, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(__import__("sys").modules, "library_waited_for", LIBRARY)
    before, warnings = vars(Writer)["write"], list[str]()
    installed(sink, warnings).install()
    assert Writer().write("a", "unexpected") == "a=unexpected"
    assert vars(Writer)["write"] is before
    assert len(warnings) == 1
    assert warnings[0].startswith("values logged by the script are no longer captured: KeyError")


def test_an_unsupported_version_is_reported_and_left_alone(sink: Sink, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(__import__("sys").modules, "library_waited_for", ModuleType("library_waited_for"))
    warnings = list[str]()
    loggers = installed(sink, warnings)
    loggers.install()
    assert len(warnings) == 1
    assert warnings[0].startswith("values logged through library are not captured: unsupported version")
    loggers.uninstall()


def test_a_later_patch_of_other_code_is_kept(sink: Sink, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(__import__("sys").modules, "library_waited_for", LIBRARY)
    before = vars(Writer)["write"]
    loggers = installed(sink, [])
    loggers.install()
    wrapper = vars(Writer)["write"]

    def other(writer: Any, *args: Any) -> Any:
        return wrapper(writer, *args)

    monkeypatch.setattr(Writer, "write", other)
    loggers.uninstall()
    assert vars(Writer)["write"] is other
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


def test_a_value_forwarded_to_another_library_is_recorded_once(sink: Sink, interceptor: Interceptor) -> None:
    def inner(name: str, value: float) -> None:
        return None

    inner = interceptor.after(lambda name, value: {name: value})(inner)

    def outer(logs: dict[str, float]) -> None:
        logs["added"] = 7.0
        for name, value in logs.items():
            inner("train/" + name, value)
        inner("a callback's own", 9.0)

    outer = interceptor.around(lambda logs: logs, lambda logs: logs)(outer)
    outer({"loss": 0.5, "bad": float("nan")})
    assert sink.kept.keys() == {"loss", "bad", "added", "a callback's own"}
    inner("train/loss", 0.5)
    assert "train/loss" in sink.kept


def test_an_error_of_the_library_ends_the_forwarding(sink: Sink, interceptor: Interceptor) -> None:
    def outer(fails: bool) -> None:
        if fails:
            raise ValueError("its own")

    outer = interceptor.around(lambda fails: None, lambda fails: {})(outer)
    with pytest.raises(ValueError, match="its own"):
        outer(True)
    interceptor.after(lambda: {"after": 1.0})(lambda: None)()
    assert sink.kept == {"after": 1.0}


def log(interceptor: Interceptor, name: str, value: Any) -> None:
    interceptor.after(lambda: {name: value})(lambda: None)()


def test_overhead_counts_once_the_training_has_begun(sink: Sink, interceptor: Interceptor) -> None:
    log(interceptor, "early", 1.0)
    assert sink.cost.own_ns == 0
    sink.cost.loop_ns = 1
    log(interceptor, "late", 1.0)
    assert sink.cost.own_ns > 0


class Recorder:
    """The logger of Stable-Baselines3: values of an iteration, which are cleared when they have been written."""

    def __init__(self, interceptor: Interceptor) -> None:
        self.name_to_value: dict[str, object] = {}
        self._interceptor = interceptor

    def dump(self, step: int = 0) -> None:
        """Write them, as to TensorBoard, and clear them."""
        self._interceptor.record(lambda: {"forwarded": 1.0}, (), {})
        self.name_to_value.clear()


def test_values_that_are_cleared_are_recorded_before(sink: Sink, interceptor: Interceptor) -> None:
    library = ModuleType("stable_baselines3.common.logger")
    library.Logger = Recorder  # type: ignore[attr-defined]
    STABLE_BASELINES3.patches["stable_baselines3.common.logger"](library, interceptor)
    recorder = Recorder(interceptor)
    recorder.name_to_value |= {"rollout/ep_rew_mean": 20.5, "train/n_updates": 8, "video": object()}
    recorder.dump(3)
    interceptor.patches.restore()
    assert sink.kept == {"rollout/ep_rew_mean": 20.5, "train/n_updates": 8.0}
    assert recorder.name_to_value == {}
