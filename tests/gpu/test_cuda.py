"""Capture on a GPU: nothing synchronizes, and delayed values are those at the time of the request."""

from __future__ import annotations

import gc
import warnings
import weakref
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn

import leadline
import leadline.torch
from leadline.frameworks.torch.kernels import cuda_statistics, fused_statistics, order_statistics
from leadline.reader.run import Run
from leadline.statistics import arrays
from leadline.statistics.definitions import BASIC

pytestmark = [pytest.mark.gpu, pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")]

EVERYTHING = (
    "losses:every=1",
    "gradients:every=1",
    "weights:every=1",
    "biases:every=1",
    "optimizer_variables:every=1",
    "hyperparameters:every=1",
    "layers:every=1",
    "gradients:statistics=median,p95,change_l2,histogram,every=1",
    "weights:raw=true,every=1",
    "gradients:raw=true,every=1",
)


def watch(folder: Path, train: Callable[[], Any], *capture: str) -> Run:
    hook = leadline.torch.Hook(out=str(folder), name="run", preset=None, capture=capture)
    assert hook.session is not None
    guard = hook.session.guard
    try:
        train()
    finally:
        is_whole = hook.close()
    assert guard.failure is None
    assert is_whole
    return leadline.open_run(hook.run)


@contextmanager
def forbid_synchronization() -> Iterator[None]:
    """Make PyTorch raise on operations that wait for the device."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # PyTorch warns that this mode does not find all of them
        torch.cuda.set_sync_debug_mode("error")
    try:
        yield
    finally:
        torch.cuda.set_sync_debug_mode("default")


def model_of(width: int = 64) -> nn.Module:
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(width, width), nn.ReLU(inplace=True), nn.Linear(width, 4)).cuda()


def test_no_step_synchronizes(tmp_path: Path) -> None:
    model = model_of()
    optimizer = torch.optim.AdamW(model.parameters(), fused=True)
    inputs, labels = torch.randn(32, 64, device="cuda"), torch.randint(4, (32,), device="cuda")

    def step() -> None:
        optimizer.zero_grad()
        nn.functional.cross_entropy(model(inputs), labels).backward()
        nn.utils.clip_grad_norm_(model.parameters(), 0.1)
        optimizer.step()

    def train() -> None:
        for _ in range(3):
            step()  # one-time setup (checksum weights, pinned memory) may synchronize
        with forbid_synchronization():
            for _ in range(20):
                step()

    run = watch(tmp_path, train, *EVERYTHING)
    assert run.steps() == list(range(23))
    assert run.tensor("0.weight").steps() == list(range(23))


@pytest.mark.parametrize("width", [64, 3000])  # within and beyond the memory for second copies
def test_delayed_values_are_those_of_the_step(tmp_path: Path, width: int) -> None:
    model = model_of(width)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    expected_tensors = []

    def train() -> None:
        for step in range(6):
            optimizer.zero_grad()
            loss = model(torch.full((8, width), step + 1.0, device="cuda")).pow(2).mean()
            loss.backward()
            expected_tensors.append(
                (loss.detach().clone(), model[0].weight.detach().clone(), model[0].weight.grad.clone())
            )
            optimizer.step()

    run = watch(tmp_path, train, "losses:every=1", "weights:raw=true,every=1", "gradients:every=1")
    for step, (loss, weight, gradient) in enumerate(expected_tensors):
        assert run.tensor("loss").statistic("value", step) == pytest.approx(float(loss))
        np.testing.assert_array_equal(run.tensor("0.weight").value(step), weight.cpu().numpy())
        assert run.tensor("gradient/0.weight").statistic("l2", step) == pytest.approx(float(gradient.norm()), rel=1e-5)


def test_gpu_training_is_bit_identical(tmp_path: Path) -> None:
    def train() -> list[torch.Tensor]:
        model = model_of()
        optimizer = torch.optim.AdamW(model.parameters())
        for step in range(10):
            optimizer.zero_grad()
            model(torch.full((8, 64), step + 1.0, device="cuda")).pow(2).mean().backward()
            nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            optimizer.step()
        return [parameter.detach().clone() for parameter in model.parameters()]

    without_hook, with_hook = train(), []
    watch(tmp_path, lambda: with_hook.extend(train()), *EVERYTHING)
    assert all(torch.equal(one, other) for one, other in zip(without_hook, with_hook, strict=True))


def test_a_scaler_with_a_fused_optimizer(tmp_path: Path) -> None:
    model = model_of()
    optimizer = torch.optim.Adam(model.parameters(), fused=True)
    scaler = torch.amp.GradScaler("cuda", init_scale=1024.0)

    def train() -> None:
        for step in range(4):
            optimizer.zero_grad()
            with torch.autocast("cuda", dtype=torch.float16):
                loss = model(torch.ones(8, 64, device="cuda")).pow(2).mean()
            scaler.scale(loss).backward()
            if step == 1:
                model[0].weight.grad[0, 0] = float("inf")
            scaler.step(optimizer)
            scaler.update()

    run = watch(tmp_path, train, "losses:every=1", "gradients:every=1", "weights:every=1", "hyperparameters:every=1")
    assert [event["step"] for event in run.timeline().to_pylist() if event["name"] == "step_skipped"] == [1]
    assert run.tensor("GradScaler/scale").statistic("value", 3) == 512.0


def test_graph_capture_is_not_disturbed(tmp_path: Path) -> None:
    model = model_of()
    optimizer = torch.optim.Adam(model.parameters(), capturable=True)
    inputs = torch.randn(32, 64, device="cuda")

    def step() -> None:
        optimizer.zero_grad(set_to_none=True)
        model(inputs).pow(2).mean().backward()
        optimizer.step()

    def train() -> None:
        side_stream = torch.cuda.Stream()
        side_stream.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(side_stream):
            for _ in range(3):
                step()
        torch.cuda.current_stream().wait_stream(side_stream)
        graph = torch.cuda.CUDAGraph()
        optimizer.zero_grad(set_to_none=True)
        with torch.cuda.graph(graph):
            step()
        for _ in range(5):
            graph.replay()
        torch.cuda.synchronize()

    watch(tmp_path, train, *EVERYTHING)


def test_the_fused_kernel_is_compiled() -> None:
    assert fused_statistics.unavailable_reason(torch.device("cuda", 0)) is None


DTYPES = (*fused_statistics.CODES, torch.bool, torch.float8_e4m3fn, torch.complex64)


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("is_fused", [True, False], ids=["fused", "by PyTorch"])
def test_statistics_equal_numpy(dtype: torch.dtype, is_fused: bool) -> None:
    generator = torch.Generator().manual_seed(1)
    host = (torch.randn(3000, 1000, generator=generator, dtype=torch.float64) * 10).to(dtype)
    if dtype.is_floating_point and dtype.itemsize > 1:
        host[5, 5], host[7, 7], host[8, 8] = float("nan"), float("-inf"), 1e-7  # subnormal in float16
    names: tuple[str, ...] = (*BASIC, "abs_min", "rms", "variance")
    tensors = [host.cuda(), host[:7, :9].cuda(), host.cuda().t(), host[:, 3].cuda(), host[:0].cuda()]
    if is_fused:
        launch = fused_statistics.launch_for(tensors)
        assert launch is not None
        numbers, finish = fused_statistics.begin(tensors, names, launch)
    else:
        names += ("within_-1_1", "equals_0")
        numbers, finish = cuda_statistics.begin(tensors, names)
    computed = finish(numbers.cpu().numpy()).reshape(len(names), len(tensors))
    for column, tensor in enumerate(tensors):
        part = tensor.cpu()
        values = part.numpy() if part.dtype in _NUMPY_TYPES else part.float().numpy()
        for row, name in enumerate(names):
            expected = arrays.compute(name, values)
            rtol = 1e-4 if dtype.is_complex else 1e-7
            finite = np.abs(values[np.isfinite(values)]).astype(np.float64)
            atol = 1e-9 * finite.sum() if name in ("sum", "mean") else 0.0
            np.testing.assert_allclose(computed[row, column], expected, rtol=rtol, atol=atol, err_msg=name)


_NUMPY_TYPES = frozenset(DTYPES) - {torch.bfloat16, torch.float8_e4m3fn}


def test_a_captured_step_launches_few_kernels(tmp_path: Path) -> None:
    model = nn.Sequential(*(layer for _ in range(10) for layer in (nn.Linear(64, 64), nn.ReLU()))).cuda()
    optimizer = torch.optim.AdamW(model.parameters())
    launches = []

    def step() -> None:
        optimizer.zero_grad()
        model(torch.ones(8, 64, device="cuda")).pow(2).mean().backward()
        optimizer.step()

    def count() -> int:
        for _ in range(3):
            step()
        kinds = [torch.profiler.ProfilerActivity.CPU, torch.profiler.ProfilerActivity.CUDA]
        with torch.profiler.profile(activities=kinds, acc_events=True) as trace:
            step()
        return sum(event.count for event in trace.key_averages() if "LaunchKernel" in event.key)

    bare = count()
    watch(tmp_path, lambda: launches.append(count()), "gradients:every=1", "weights:every=1", "layers:every=1")
    print(f"{bare} kernels bare, {launches[0]} with capture")
    assert launches[0] - bare < 200


def test_tensors_of_a_scaled_step_are_released_at_once(tmp_path: Path) -> None:
    model = model_of()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    scaler = torch.amp.GradScaler("cuda")
    losses = []

    def step() -> None:
        loss = model(torch.ones(8, 64, device="cuda")).pow(2).mean()
        losses.append(weakref.ref(loss))
        scaler.scale(loss).backward()
        scaler.step(optimizer)
        scaler.update()

    def train() -> None:
        gc.disable()
        try:
            for _ in range(5):
                step()
            assert [loss() for loss in losses] == [None] * 5
        finally:
            gc.enable()

    watch(tmp_path, train, *EVERYTHING)


def test_order_statistics_equal_numpy() -> None:
    host = torch.randn(300, 10, generator=torch.Generator().manual_seed(1))
    names = ("median", "p5", "p95", "median_exact", "checksum")
    numbers, finish = order_statistics.begin([host.cuda()], names)
    for value, name in zip(finish(numbers.cpu().numpy()), names, strict=True):
        assert value == pytest.approx(arrays.compute(name, host.numpy()), rel=1e-6)
