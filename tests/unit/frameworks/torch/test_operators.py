"""Detailed profile window of a real model: its table agrees with torch.profiler, and rows name their modules."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from collections import Counter, defaultdict
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn
from torch.autograd.profiler import record_function

from leadline.frameworks.torch.capture.untracked import untracked
from leadline.frameworks.torch.naming.model_names import ModuleNames, ModuleRegistry, ParameterNames
from leadline.frameworks.torch.timing.operators import OperatorRecording
from leadline.instrumentation.guard import Guard
from leadline.instrumentation.recording import ProfileUnavailableError
from leadline.profiles.queries import read_calls
from leadline.profiles.traces import read_slices
from leadline.records.profile_window import ProfileWindow
from leadline.store import layout


class Block(nn.Module):
    """A residual block as in ResNet."""

    def __init__(self, channels: int) -> None:
        super().__init__()
        self.conv1 = nn.Conv2d(channels, channels, 3, padding=1)
        self.bn1 = nn.BatchNorm2d(channels)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.relu(self.bn1(self.conv1(x)) + x)


class Net(nn.Module):
    """Two layers of blocks and a head."""

    def __init__(self) -> None:
        super().__init__()
        self.layer1 = nn.Sequential(Block(3), Block(3))
        self.head = nn.Linear(3 * 64, 5)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.head(self.layer1(x).flatten(1))  # type: ignore[no-any-return]


class Loop:
    """A training of the net."""

    def __init__(self) -> None:
        torch.manual_seed(0)
        self.model = Net()
        self.optimizer = torch.optim.SGD(self.model.parameters(), lr=0.1, momentum=0.9)
        self.module_names = ModuleNames(ParameterNames(ModuleRegistry()))
        self.module_names.add_trained([self.model])
        self._x, self._y = torch.randn(4, 3, 8, 8), torch.randint(0, 5, (4,))

    def step(self, recording: OperatorRecording | None = None) -> None:
        self.optimizer.zero_grad()
        loss = nn.functional.cross_entropy(self.model(self._x), self._y)
        if recording is not None:
            recording.mark("backward")
        loss.backward()
        self.optimizer.step()


@pytest.fixture
def loop() -> Loop:
    return Loop()


def make_recording(loop: Loop, **fields: Any) -> OperatorRecording:
    def fail(failure: str) -> None:
        raise AssertionError(failure)

    return OperatorRecording(ProfileWindow("detailed", **fields), loop.module_names, Guard(fail))


def record_two_steps(loop: Loop, folder: Path, **fields: Any) -> list[dict[str, Any]]:
    """Return the operator calls of two recorded steps."""
    for _ in range(2):
        loop.step()
    recording = make_recording(loop, **fields)
    recording.begin(2)
    loop.step(recording)
    recording.enter(3, "train")
    loop.step(recording)
    assert list(recording.end(4, "train")(str(folder))) == [layout.TRACE, layout.TRACE_STEPS]
    return list(read_calls(str(folder), "rank0-1", "detailed-2").to_pylist())


def test_the_batch_norm_backward_of_a_layer_is_a_row(loop: Loop, tmp_path: Path) -> None:
    rows = record_two_steps(loop, tmp_path)
    calls = {
        (row["module"], row["step"])
        for row in rows
        if row["operator"] == "aten::native_batch_norm_backward" and row["phase"] == "backward"
    }
    assert calls == {(f"layer1.{block}.bn1", step) for block in (0, 1) for step in (2, 3)}


def test_forward_calls_are_attributed_to_the_innermost_module(loop: Loop, tmp_path: Path) -> None:
    rows = record_two_steps(loop, tmp_path)
    modules = {(row["operator"], row["module"]) for row in rows if row["phase"] == "forward"}
    assert {("aten::conv2d", "layer1.1.conv1"), ("aten::relu", "layer1.0"), ("aten::linear", "head")} <= modules
    assert ("aten::cross_entropy_loss", "") in modules, "a loss called outside of all modules belongs to none"


def test_optimizer_calls_have_the_optimizer_phase(loop: Loop, tmp_path: Path) -> None:
    rows = record_two_steps(loop, tmp_path)
    phases = {
        row["phase"] for row in rows if row["operator"] in ("aten::_foreach_add_", "aten::add_") and not row["module"]
    }
    assert "optimizer" in phases
    assert {row["phase"] for row in rows} <= {"forward", "backward", "optimizer", "other"}


def test_computations_of_leadline_are_no_operators_of_the_training(loop: Loop, tmp_path: Path) -> None:
    def capture(module: nn.Module, args: Any, output: torch.Tensor) -> None:
        with untracked():
            torch.cumsum(output, 0)

    alone = record_two_steps(loop, tmp_path)
    loop.model.layer1.register_forward_hook(capture)
    folder = tmp_path / "watched"
    folder.mkdir()
    watched = record_two_steps(loop, folder)
    assert Counter(row["operator"] for row in watched) == Counter(row["operator"] for row in alone)
    (own, *_) = [piece for piece in read_slices(str(folder)) if piece.name == "aten::cumsum"]
    assert (own.phase, own.module) == ("overhead", "")


def test_times_and_calls_agree_with_the_profilers_table(loop: Loop, tmp_path: Path) -> None:
    for _ in range(2):
        loop.step()
    recording = make_recording(loop)
    recording.begin(0)
    profile = recording._profile
    loop.step(recording)
    recording.end(1, "train")(str(tmp_path))
    totals: dict[str, list[float]] = defaultdict(lambda: [0, 0.0, 0.0])
    for row in read_calls(str(tmp_path), "w", "d").to_pylist():
        sums = totals[row["operator"]]
        sums[0], sums[1], sums[2] = sums[0] + 1, sums[1] + row["total_ns"] / 1e3, sums[2] + row["own_ns"] / 1e3
    expected = {event.key: event for event in profile.key_averages() if event.key in totals}
    assert set(totals) == set(expected)
    assert len(totals) > 20
    for name, (calls, total_us, own_us) in totals.items():
        assert calls == expected[name].count
        assert total_us == pytest.approx(expected[name].cpu_time_total, rel=0.02, abs=2)
        assert own_us == pytest.approx(expected[name].self_cpu_time_total, rel=0.02, abs=5)


def test_training_is_bit_identical_and_nothing_is_left(loop: Loop, tmp_path: Path) -> None:
    reference = Loop()
    for _ in range(4):
        reference.step()
    torch_random = torch.get_rng_state()
    record_two_steps(loop, tmp_path)
    for ours, other in zip(loop.model.parameters(), reference.model.parameters(), strict=True):
        assert torch.equal(ours, other)
    assert torch.equal(torch.get_rng_state(), torch_random)
    assert not torch.autograd._profiler_enabled()
    assert not torch.nn.modules.module._global_forward_hooks
    assert not torch.nn.modules.module._global_forward_pre_hooks
    assert "KINETO_LOG_LEVEL" not in os.environ


def test_an_error_in_a_forward_pass_leaves_no_module_open(loop: Loop, tmp_path: Path) -> None:
    recording = make_recording(loop)
    recording.begin(0)
    with pytest.raises(RuntimeError):
        loop.model(torch.randn(4, 3, 5, 5))
    torch.ones(3).neg()
    loop.step(recording)
    recording.end(1, "train")(str(tmp_path))
    rows = read_calls(str(tmp_path), "w", "d").to_pylist()
    assert {row["module"] for row in rows if row["operator"] == "aten::neg" and row["phase"] == "forward"} == {""}
    assert ("aten::linear", "head") in {(row["operator"], row["module"]) for row in rows}


def test_a_script_that_uses_the_profiler_is_not_disturbed(loop: Loop, tmp_path: Path) -> None:
    with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU], acc_events=True):
        with pytest.raises(ProfileUnavailableError, match="profiling itself"):
            make_recording(loop).begin(0)
        loop.step()


def alternate_sessions(annotations: int = 50, rounds: int = 5) -> None:
    """Let annotations begin in one session of the profiler and end in the next: ours and the script's in turn."""
    loop = Loop()
    for _ in range(rounds):
        opened = [record_function("epoch") for _ in range(annotations)]
        recording = make_recording(loop)
        recording.begin(0)
        for annotation in opened:
            annotation.__enter__()
        loop.step(recording)
        finish = recording.end(1, "train")
        with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU], acc_events=True) as profile:
            loop.step()
            for annotation in opened:
                annotation.__exit__(None, None, None)
                annotation.__enter__()
            loop.step()
        recording = make_recording(loop)
        recording.begin(0)
        loop.step(recording)
        for annotation in opened:
            annotation.__exit__(None, None, None)
        for write in (finish, recording.end(1, "train")):
            with tempfile.TemporaryDirectory() as folder:
                write(folder)
                assert any(row["operator"] == "aten::linear" for row in read_calls(folder, "w", "d").to_pylist())
        assert sum(event.name == "epoch" for event in profile.events()) == annotations


@pytest.mark.slow
def test_annotations_may_span_the_ends_of_windows() -> None:
    # in a separate process: PyTorch would write into freed memory
    script = "import test_operators as t; t.alternate_sessions()"
    done = subprocess.run([sys.executable, "-c", script], cwd=Path(__file__).parent, check=False, capture_output=True)
    assert done.returncode == 0, done.stderr


def test_memory_is_recorded_on_request(loop: Loop, tmp_path: Path) -> None:
    (tmp_path / "with").mkdir()
    (tmp_path / "without").mkdir()
    rows = record_two_steps(loop, tmp_path / "with", with_memory=True)
    empty = [row["memory_bytes"] for row in rows if row["operator"] == "aten::empty"]
    assert max(empty) >= 4 * 3 * 8 * 8 * 4, "the output of a convolution"
    assert {row["memory_bytes"] for row in record_two_steps(loop, tmp_path / "without")} == {None}


def test_recording_prints_nothing(tmp_path: Path) -> None:
    # in a separate process: Kineto reads its log level when the first profiler of a process starts
    script = "import sys, pathlib, test_operators as t; t.record_two_steps(t.Loop(), pathlib.Path(sys.argv[1]))"
    done = subprocess.run(
        [sys.executable, "-c", script, str(tmp_path)],
        cwd=Path(__file__).parent,
        capture_output=True,
        text=True,
        check=True,
    )
    assert (done.stdout, done.stderr) == ("", "")
