"""A training on a device with delayed copies: nothing waits, and all values are those of a synchronous device."""

from __future__ import annotations

import weakref
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import pytest
import torch
from fake_device import FakeDevice, install
from hooked_run import watch
from torch import nn
from torch.multiprocessing.reductions import StorageWeakRef

import leadline
import leadline.torch
from leadline.errors import NotCapturedError
from leadline.frameworks.torch.kernels import fused_statistics
from leadline.reader.run import Run

EVERYTHING = (
    "losses:every=1",
    "gradients:every=1",
    "weights:every=1",
    "biases:every=1",
    "gradient_norms:every=1",
    "optimizer_variables:every=1",
    "hyperparameters:every=1",
    "layers:every=2",
    "gradients:statistics=median,p95,checksum,change_l2,every=2",
)


@pytest.fixture
def device(monkeypatch: pytest.MonkeyPatch) -> FakeDevice:
    return install(monkeypatch)


@contextmanager
def forbid_waiting() -> Iterator[None]:
    """Fail on operations that make the host wait for a device: reading a tensor's value."""

    def refuse(tensor: torch.Tensor, *args: object) -> None:
        raise AssertionError("a value was read from the device")

    with pytest.MonkeyPatch.context() as patch:
        for name in ("item", "tolist", "__float__", "__int__", "__bool__", "__index__", "nonzero"):
            patch.setattr(torch.Tensor, name, refuse)
        yield


def small() -> nn.Module:
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(4, 5), nn.ReLU(inplace=True), nn.Linear(5, 2))


def loss_of(model: nn.Module, step: int) -> torch.Tensor:
    return model(torch.randn(8, 4, generator=torch.Generator().manual_seed(step))).pow(2).mean()


def train(after_step: Callable[[int], object] = lambda step: None, steps: int = 6) -> None:
    model = small()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
    for step in range(steps):
        optimizer.zero_grad()
        loss_of(model, step).backward()
        torch.nn.utils.clip_grad_norm_([model[2].weight, model[2].bias], 0.05)
        if step == 3:
            model[0].weight.grad[0, :2] = torch.tensor([float("nan"), float("inf")])
        optimizer.step()
        with torch.no_grad():
            model[0].weight.nan_to_num_(0.0, 0.0, 0.0)  # reading it a step later would miss the NaN
        after_step(step)


def all_values(run: Run) -> dict[tuple[str, str, int], float]:
    values = {}
    for name in run.tensor_names():
        tensor = run.tensor(name)
        for statistic in tensor.statistic_names():
            for step in run.steps():
                try:
                    values[name, statistic, step] = tensor.statistic(statistic, step)
                except NotCapturedError:
                    continue
    return values


def test_an_asynchronous_device_gives_the_same_values_as_the_host(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    expected = all_values(watch(tmp_path / "at-once", train, *EVERYTHING))
    device = install(monkeypatch)
    values = all_values(watch(tmp_path / "late", lambda: train(lambda step: device.arrive(except_last=3)), *EVERYTHING))
    assert device.fetched > 6
    assert values.keys() == expected.keys()
    assert any(statistic == "nonfinite_count" and value for (_, statistic, _), value in values.items())
    for key, value in expected.items():
        assert values[key] == pytest.approx(value, rel=1e-5, abs=1e-7, nan_ok=True), key


def test_reading_a_value_is_detected() -> None:
    with forbid_waiting(), pytest.raises(AssertionError, match="was read"):
        float(nn.Parameter(torch.ones(())))


def test_no_step_waits(tmp_path: Path, device: FakeDevice) -> None:
    waits = []

    def train_without_waiting() -> None:
        with forbid_waiting():
            train(lambda step: (device.arrive(except_last=2), waits.append(device.waits)))

    watch(tmp_path, train_without_waiting, *EVERYTHING)
    assert waits == [0] * 6


def test_pending_rows_hold_no_memory_of_the_training(tmp_path: Path, device: FakeDevice) -> None:
    alive_counts: list[int] = []

    def train_once() -> None:
        model = small()
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        gradients = []
        for step in range(3):
            loss = loss_of(model, step)
            loss.backward()
            gradients += [StorageWeakRef(parameter.grad.untyped_storage()) for parameter in model.parameters()]
            gradients.append(StorageWeakRef(loss.untyped_storage()))
            optimizer.step()
            optimizer.zero_grad(set_to_none=True)
            del loss
            alive_counts.append(sum(not gradient.expired() for gradient in gradients))

    watch(tmp_path, train_once, *EVERYTHING)
    assert alive_counts == [0, 0, 0]


def test_raw_tensors_without_a_free_buffer_are_released(
    tmp_path: Path, device: FakeDevice, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("leadline.store.writer.Writer.acquire", lambda *args: None)
    model = small()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)

    def train_once() -> None:
        loss_of(model, 0).backward()
        gradient = weakref.ref(model[0].weight.grad)
        optimizer.step()
        optimizer.zero_grad()
        assert gradient() is None

    watch(tmp_path, train_once, "gradients:raw=true,every=1", "layers:raw=true,every=1")


def test_each_row_needs_one_copy(tmp_path: Path, device: FakeDevice) -> None:
    fetched = []
    watch(tmp_path, lambda: train(lambda step: fetched.append(device.fetched)), "gradients:every=1", "weights:every=1")
    assert set(np.diff(fetched)) == {3}  # gradients and weights before the update, ratios after it, clipping


def test_a_step_is_complete_when_its_pending_rows_have_arrived(tmp_path: Path, device: FakeDevice) -> None:
    hook = leadline.torch.Hook(out=str(tmp_path), name="run", preset=None, capture=["gradients:every=1"])
    assert hook.session is not None
    context = hook.session.context
    last_steps = []

    def record_progress(step: int) -> None:
        assert context.writer is not None
        stamp = context.writer._stamp
        last_steps.append(-1 if stamp is None else stamp.step)
        if step == 3:
            device.arrive()

    train(record_progress)
    assert last_steps == [-1, -1, -1, -1, 3, 3]
    assert hook.close()
    assert leadline.open_run(hook.run).steps() == [0, 1, 2, 3, 4, 5]


def test_the_number_of_pending_steps_is_limited(
    tmp_path: Path, device: FakeDevice, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("leadline.training.recorder.step_output.MAX_STEPS_LATE", 2)
    waits = []
    run = watch(tmp_path, lambda: train(lambda step: waits.append(device.waits)), "losses:every=1")
    assert waits == [0, 0, 0, 1, 2, 3]
    assert run.steps() == [0, 1, 2, 3, 4, 5]


def test_delayed_raw_tensors_are_those_of_the_step(tmp_path: Path, device: FakeDevice) -> None:
    model = small()
    optimizer = torch.optim.Adam(model.parameters(), lr=0.1)
    expected_tensors = []

    def train_once() -> None:
        for step in range(8):
            optimizer.zero_grad()
            loss_of(model, step).backward()
            expected_tensors.append((model[0].weight.detach().clone(), model[0].weight.grad.clone()))
            optimizer.step()
            device.arrive(except_last=1)

    capture = ("weights:raw=true,every=1", "gradients:raw=true,every=1", "optimizer_variables:raw=true,every=1")
    run = watch(tmp_path, train_once, *capture)
    assert set(device.copy_limits) == {64 << 20}
    assert 0 < len(device.pinned) <= 8
    for step, (weight, gradient) in enumerate(expected_tensors):
        np.testing.assert_array_equal(run.tensor("0.weight").value(step), weight.numpy())
        np.testing.assert_array_equal(run.tensor("gradient/0.weight").value(step), gradient.numpy())
    assert run.tensor("Adam/exp_avg/0.weight").steps() == list(range(1, 8))


def test_micro_batch_losses_are_summed_on_the_device(tmp_path: Path, device: FakeDevice) -> None:
    model = small()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    values: list[torch.Tensor] = []

    def train_once() -> None:
        with forbid_waiting():
            for step in range(2):
                for part in range(3):
                    loss = loss_of(model, 3 * step + part)
                    values.append(loss.detach())
                    loss.backward()
                optimizer.step()
                optimizer.zero_grad()

    run = watch(tmp_path, train_once, "losses:every=1")
    for step in (0, 1):
        expected = float(torch.stack(values[3 * step : 3 * step + 3]).mean())
        assert run.tensor("loss").statistic("value", step) == pytest.approx(expected)
        assert run.tensor("loss").statistic("count", step) == 3
    (document,) = run.worker_documents().values()
    assert document.losses["loss"] == pytest.approx(expected)


def test_a_scaler_and_its_fused_optimizer_are_read_asynchronously(tmp_path: Path, device: FakeDevice) -> None:
    model = small()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, fused=True)
    scaler = torch.amp.GradScaler("cpu", init_scale=1024.0)
    losses = []

    def train_once() -> None:
        for step in range(4):
            optimizer.zero_grad()
            loss = loss_of(model, step)
            losses.append(loss.item())
            scaler.scale(loss).backward()
            if step == 1:
                model[0].weight.grad[0, 0] = float("inf")
            scaler.step(optimizer)
            scaler.update()
            device.arrive(except_last=2)

    run = watch(
        tmp_path, train_once, "losses:every=1", "gradients:every=1", "weights:every=1", "hyperparameters:every=1"
    )
    assert [run.tensor("loss").statistic("value", step) for step in range(4)] == pytest.approx(losses)
    scales = [run.tensor("GradScaler/scale").statistic("value", step) for step in range(4)]
    assert scales == [1024.0, 1024.0, 512.0, 512.0]
    events = run.timeline().to_pylist()
    assert [event["step"] for event in events if event["name"] == "step_skipped"] == [1]
    assert run.tensor("gradient/0.weight").statistic("nonfinite_count", 1) == 1
    assert run.tensor("gradient/0.weight").statistic("l2", 0) < 10
    with pytest.raises(NotCapturedError):
        run.tensor("0.weight").statistic("update_ratio", 1)
    assert run.tensor("0.weight").statistic("update_ratio", 2) > 0


def test_nothing_is_computed_while_a_cuda_graph_is_captured(tmp_path: Path, device: FakeDevice) -> None:
    def toggle_graph_capture(step: int) -> None:
        device.is_capturing = step == 1

    run = watch(tmp_path, lambda: train(toggle_graph_capture, steps=4), *EVERYTHING)
    assert run.tensor("loss").steps() == [0, 1, 3]
    assert run.tensor("gradient/0.weight").steps() == [0, 1, 3]
    (document,) = run.worker_documents().values()
    assert any("CUDA graph" in note for note in document.notes)


def test_logged_device_values_are_not_waited_for(tmp_path: Path, device: FakeDevice) -> None:
    def train_once() -> None:
        with forbid_waiting():
            train(lambda step: leadline.log(depth=torch.tensor(float(step))), steps=3)

    run = watch(tmp_path, train_once, "scalars:every=1")
    assert [run.tensor("depth").statistic("value", step) for step in run.tensor("depth").steps()] == [0.0, 1.0, 2.0]


def test_accuracy_is_counted_on_the_device(tmp_path: Path, device: FakeDevice) -> None:
    model = small()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    inputs, labels = torch.randn(8, 4), torch.tensor([0, 1] * 4)
    correct = []

    def train_once() -> None:
        with forbid_waiting():
            for _ in range(2):
                optimizer.zero_grad()
                logits = model(inputs)
                correct.append((logits.argmax(1) == labels).double().mean())
                nn.functional.cross_entropy(logits, labels).backward()
                optimizer.step()

    run = watch(tmp_path, train_once, preset="standard")
    assert run.tensor("accuracy").statistic("value", 0) == pytest.approx(float(correct[0]))


def test_a_kernel_that_cannot_be_compiled_is_noted(
    tmp_path: Path, device: FakeDevice, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(device: torch.device) -> fused_statistics.Launch:
        raise RuntimeError("Kernel compilation failed:\nno compiler")

    expected = all_values(watch(tmp_path / "without", train, *EVERYTHING))
    monkeypatch.setitem(fused_statistics.COMPILERS, "cpu", fail)
    run = watch(tmp_path / "failing", train, *EVERYTHING)
    (document,) = run.worker_documents().values()
    assert document.notes == (
        "statistics on cpu are computed by PyTorch's own kernels, which takes about five times as long: the kernel of "
        "Leadline could not be compiled (RuntimeError: Kernel compilation failed: no compiler)",
    )
    assert all_values(run) == pytest.approx(expected, nan_ok=True)
