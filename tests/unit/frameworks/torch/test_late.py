"""A training on a device whose copies come late: nothing waits, and all is as if it had been read at once."""

from __future__ import annotations

import weakref
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import pytest
import torch
from late_device import FakeDevice, install
from torch import nn
from torch.multiprocessing.reductions import StorageWeakRef
from watched import watch

import leadline
import leadline.torch
from leadline.errors import NotCapturedError
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
def nobody_waits() -> Iterator[None]:
    """Refuses what would have a host wait for a device: reading a tensor's value."""

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
            model[0].weight.nan_to_num_(0.0, 0.0, 0.0)  # who looks a step late finds nothing of it
        after_step(step)


def everything(run: Run) -> dict[tuple[str, str, int], float]:
    found = {}
    for name in run.tensor_names():
        tensor = run.tensor(name)
        for statistic in tensor.statistic_names():
            for step in run.steps():
                try:
                    found[name, statistic, step] = tensor.statistic(statistic, step)
                except NotCapturedError:
                    continue
    return found


def test_a_late_device_tells_what_a_quick_one_does(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    expected = everything(watch(tmp_path / "at-once", train, *EVERYTHING))
    device = install(monkeypatch)
    found = everything(watch(tmp_path / "late", lambda: train(lambda step: device.arrive(but=3)), *EVERYTHING))
    assert device.fetched > 6
    assert found.keys() == expected.keys()
    assert any(statistic == "nonfinite_count" and value for (_, statistic, _), value in found.items())
    for key, value in expected.items():
        assert found[key] == pytest.approx(value, rel=1e-5, abs=1e-7, nan_ok=True), key


def test_a_value_that_is_read_is_noticed() -> None:
    with nobody_waits(), pytest.raises(AssertionError, match="was read"):
        float(nn.Parameter(torch.ones(())))


def test_no_step_waits(tmp_path: Path, device: FakeDevice) -> None:
    waited = []

    def careful() -> None:
        with nobody_waits():
            train(lambda step: (device.arrive(but=2), waited.append(device.waits)))

    watch(tmp_path, careful, *EVERYTHING)
    assert waited == [0] * 6


def test_what_waits_for_the_device_holds_no_memory_of_the_training(tmp_path: Path, device: FakeDevice) -> None:
    kept: list[int] = []

    def run_it() -> None:
        model = small()
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        gradients = []
        for step in range(3):
            loss = loss_of(model, step)
            loss.backward()
            gradients += [StorageWeakRef(each.grad.untyped_storage()) for each in model.parameters()]
            gradients.append(StorageWeakRef(loss.untyped_storage()))
            optimizer.step()
            optimizer.zero_grad(set_to_none=True)
            del loss
            kept.append(sum(not each.expired() for each in gradients))

    watch(tmp_path, run_it, *EVERYTHING)
    assert kept == [0, 0, 0]


def test_what_finds_no_room_is_let_go(tmp_path: Path, device: FakeDevice, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("leadline.store.writer.Writer.acquire", lambda *args: None)
    model = small()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)

    def run_it() -> None:
        loss_of(model, 0).backward()
        gradient = weakref.ref(model[0].weight.grad)
        optimizer.step()
        optimizer.zero_grad()
        assert gradient() is None

    watch(tmp_path, run_it, "gradients:raw=true,every=1", "layers:raw=true,every=1")


def test_each_row_is_one_copy(tmp_path: Path, device: FakeDevice) -> None:
    fetched = []
    watch(tmp_path, lambda: train(lambda step: fetched.append(device.fetched)), "gradients:every=1", "weights:every=1")
    assert set(np.diff(fetched)) == {3}  # gradients and weights before the update, ratios after it, clipping


def test_a_step_is_complete_when_its_late_rows_are_in(tmp_path: Path, device: FakeDevice) -> None:
    hook = leadline.torch.Hook(out=str(tmp_path), name="run", preset=None, capture=["gradients:every=1"])
    assert hook._session is not None
    recorder = hook._session.recorder
    finished = []

    def look(step: int) -> None:
        assert recorder.writer is not None
        stamp = recorder.writer._stamp
        finished.append(-1 if stamp is None else stamp.step)
        if step == 3:
            device.arrive()

    train(look)
    assert finished == [-1, -1, -1, -1, 3, 3]
    assert hook.close()
    assert leadline.open_run(hook.run).steps() == [0, 1, 2, 3, 4, 5]


def test_a_bounded_number_of_steps_is_under_way(
    tmp_path: Path, device: FakeDevice, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("leadline.training.recorder.write_queue.MOST_STEPS_LATE", 2)
    waits = []
    run = watch(tmp_path, lambda: train(lambda step: waits.append(device.waits)), "losses:every=1")
    assert waits == [0, 0, 0, 1, 2, 3]
    assert run.steps() == [0, 1, 2, 3, 4, 5]


def test_raw_tensors_are_those_of_the_step_though_they_come_later(tmp_path: Path, device: FakeDevice) -> None:
    model = small()
    optimizer = torch.optim.Adam(model.parameters(), lr=0.1)
    seen = []

    def run_it() -> None:
        for step in range(8):
            optimizer.zero_grad()
            loss_of(model, step).backward()
            seen.append((model[0].weight.detach().clone(), model[0].weight.grad.clone()))
            optimizer.step()
            device.arrive(but=1)

    capture = ("weights:raw=true,every=1", "gradients:raw=true,every=1", "optimizer_variables:raw=true,every=1")
    run = watch(tmp_path, run_it, *capture)
    assert set(device.rooms) == {64 << 20}
    assert 0 < len(device.pinned) <= 8
    for step, (weight, gradient) in enumerate(seen):
        np.testing.assert_array_equal(run.tensor("0.weight").value(step), weight.numpy())
        np.testing.assert_array_equal(run.tensor("gradient/0.weight").value(step), gradient.numpy())
    assert run.tensor("Adam/exp_avg/0.weight").steps() == list(range(1, 8))


def test_losses_of_micro_batches_are_added_up_on_the_device(tmp_path: Path, device: FakeDevice) -> None:
    model = small()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    values: list[torch.Tensor] = []

    def run_it() -> None:
        with nobody_waits():
            for step in range(2):
                for part in range(3):
                    loss = loss_of(model, 3 * step + part)
                    values.append(loss.detach())
                    loss.backward()
                optimizer.step()
                optimizer.zero_grad()

    run = watch(tmp_path, run_it, "losses:every=1")
    for step in (0, 1):
        expected = float(torch.stack(values[3 * step : 3 * step + 3]).mean())
        assert run.tensor("loss").statistic("value", step) == pytest.approx(expected)
        assert run.tensor("loss").statistic("count", step) == 3
    (document,) = run.worker_documents().values()
    assert document["losses"]["loss"] == pytest.approx(expected)


def test_a_scaler_and_its_fused_optimizer_are_read_late(tmp_path: Path, device: FakeDevice) -> None:
    model = small()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, fused=True)
    scaler = torch.amp.GradScaler("cpu", init_scale=1024.0)
    losses = []

    def run_it() -> None:
        for step in range(4):
            optimizer.zero_grad()
            loss = loss_of(model, step)
            losses.append(loss.item())
            scaler.scale(loss).backward()
            if step == 1:
                model[0].weight.grad[0, 0] = float("inf")
            scaler.step(optimizer)
            scaler.update()
            device.arrive(but=2)

    run = watch(tmp_path, run_it, "losses:every=1", "gradients:every=1", "weights:every=1", "hyperparameters:every=1")
    assert [run.tensor("loss").statistic("value", step) for step in range(4)] == pytest.approx(losses)
    scales = [run.tensor("GradScaler/scale").statistic("value", step) for step in range(4)]
    assert scales == [1024.0, 1024.0, 512.0, 512.0]
    events = run.timeline().to_pylist()
    assert [each["step"] for each in events if each["name"] == "step_skipped"] == [1]
    assert run.tensor("gradient/0.weight").statistic("nonfinite_count", 1) == 1
    assert run.tensor("gradient/0.weight").statistic("l2", 0) < 10
    with pytest.raises(NotCapturedError):
        run.tensor("0.weight").statistic("update_ratio", 1)
    assert run.tensor("0.weight").statistic("update_ratio", 2) > 0


def test_nothing_is_computed_while_a_graph_is_recorded(tmp_path: Path, device: FakeDevice) -> None:
    def record(step: int) -> None:
        device.is_captured = step == 1

    run = watch(tmp_path, lambda: train(record, steps=4), *EVERYTHING)
    assert run.tensor("loss").steps() == [0, 1, 3]
    assert run.tensor("gradient/0.weight").steps() == [0, 1, 3]
    (document,) = run.worker_documents().values()
    assert any("CUDA graph" in note for note in document["notes"])


def test_what_the_script_logs_from_a_device_is_not_waited_for(tmp_path: Path, device: FakeDevice) -> None:
    def run_it() -> None:
        with nobody_waits():
            train(lambda step: leadline.log(depth=torch.tensor(float(step))), steps=3)

    run = watch(tmp_path, run_it, "scalars:every=1")
    assert [run.tensor("depth").statistic("value", step) for step in run.tensor("depth").steps()] == [0.0, 1.0, 2.0]


def test_accuracy_is_counted_on_the_device(tmp_path: Path, device: FakeDevice) -> None:
    model = small()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    inputs, labels = torch.randn(8, 4), torch.tensor([0, 1] * 4)
    right = []

    def run_it() -> None:
        with nobody_waits():
            for _ in range(2):
                optimizer.zero_grad()
                logits = model(inputs)
                right.append((logits.argmax(1) == labels).double().mean())
                nn.functional.cross_entropy(logits, labels).backward()
                optimizer.step()

    run = watch(tmp_path, run_it, preset="standard")
    assert run.tensor("accuracy").statistic("value", 0) == pytest.approx(float(right[0]))
