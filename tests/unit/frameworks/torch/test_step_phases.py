"""Phases of typical trainings: rows and durations are correct."""

from __future__ import annotations

import json
import statistics
import time
from collections import defaultdict
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
from hooked_run import watch
from torch import distributed, nn
from torch.profiler import ProfilerActivity, profile, record_function
from torch.utils.data import DataLoader, Dataset

import leadline.torch
from leadline.frameworks.torch.adapter import CLOCKS
from leadline.frameworks.torch.timing.call_timing import input_bytes
from leadline.reader.run import Run

Rows = list[dict[str, Any]]


class Numbers(Dataset[torch.Tensor]):
    """A dataset with slow samples."""

    def __init__(self, seconds: float = 0.0, count: int = 12) -> None:
        self.seconds, self.count = seconds, count

    def __len__(self) -> int:
        return self.count

    def __getitem__(self, index: int) -> torch.Tensor:
        time.sleep(self.seconds)
        return torch.full((4,), float(index))


class Slow(nn.Module):
    """A model with slow passes; sleeping takes as long on a CPU under load."""

    def __init__(self, forward: float = 0.0, backward: float = 0.0) -> None:
        super().__init__()
        self.layer = nn.Linear(4, 2)
        self.forward_seconds, self.backward_seconds = forward, backward

    def forward(self, inputs: torch.Tensor) -> torch.Tensor:
        time.sleep(self.forward_seconds)
        out = self.layer(inputs)
        if self.backward_seconds and torch.is_grad_enabled():
            out.register_hook(lambda gradient: time.sleep(self.backward_seconds))
        return out


class SlowUpdate(torch.optim.SGD):
    seconds = 0.0

    def step(self, closure: Callable[[], Any] | None = None) -> Any:
        time.sleep(self.seconds)
        return super().step(closure)


def rows(run: Run, name: str, phase: str = "train") -> Rows:
    matching = [row for row in run.timeline().to_pylist() if (row["name"], row["phase"]) == (name, phase)]
    for row in matching:
        row["args"] = json.loads(row["args"])
        row["seconds"] = row["duration_ns"] / 1e9
    return matching


def seconds(run: Run, name: str, phase: str = "train", since: int = 1) -> float:
    """Return the total over all steps but the first."""
    return sum(row["seconds"] for row in rows(run, name, phase) if row["step"] >= since)


def median_step(run: Run, name: str) -> float:
    return statistics.median(row["seconds"] for row in rows(run, name))


def test_phases_have_their_durations(tmp_path: Path) -> None:
    model = Slow(forward=0.02, backward=0.03)
    optimizer = SlowUpdate(model.parameters(), lr=0.1)
    optimizer.seconds = 0.01

    def train() -> None:
        for batch in DataLoader(Numbers(0.02), batch_size=2):
            optimizer.zero_grad()
            model(batch).sum().backward()
            optimizer.step()
            time.sleep(0.015)  # outside all phases

    run = watch(tmp_path, train)
    names = ("data", "forward", "backward", "optimizer")
    assert {name: [row["step"] for row in rows(run, name)] for name in names} == {
        name: list(range(6)) for name in names
    }
    minima = {"data": 0.04, "forward": 0.02, "backward": 0.03, "optimizer": 0.01, "step": 0.115}
    for name, minimum in minima.items():
        assert seconds(run, name) >= 5 * minimum * 0.999, name
    assert seconds(run, "step") >= sum(seconds(run, name) for name in names) + 5 * 0.015
    starts = [row["start_ns"] for row in rows(run, "step")]
    ends = [row["start_ns"] + row["duration_ns"] for row in rows(run, "step")]
    assert all(abs(start - end) < 1e6 for start, end in zip(starts[1:], ends[:-1], strict=True))  # one after the other


def test_phases_agree_with_torch_profiler_on_the_same_steps(tmp_path: Path) -> None:
    # Other load on the machine can affect one clock and not the other; a difference caused by Leadline would occur in
    # every repetition.
    differences = [differences_from_profiler(tmp_path / "0")]
    while differences[-1] and len(differences) < 5:
        differences.append(differences_from_profiler(tmp_path / str(len(differences))))
    assert differences[-1] == {}, differences


def differences_from_profiler(folder: Path) -> dict[str, tuple[float, float]]:
    """Return the phases whose median differs from the profiler's in the same steps: both values, in seconds."""
    folder.mkdir()
    model = nn.Sequential(*(nn.Linear(256, 256) for _ in range(6)))
    optimizer = torch.optim.AdamW(model.parameters())
    traced: dict[str, list[float]] = defaultdict(list)

    def train() -> None:
        loader = iter(DataLoader(Numbers(0.001, 100), batch_size=2, collate_fn=lambda _: torch.randn(128, 256)))
        with profile(activities=[ProfilerActivity.CPU]) as profiler:
            for _ in range(20):
                with record_function("of data"):
                    batch = next(loader)
                with record_function("of forward"):
                    loss = model(batch).pow(2).mean()
                with record_function("of backward"):
                    loss.backward()
                with record_function("of optimizer"):
                    optimizer.step()
        for event in profiler.events():
            traced[event.name].append(event.time_range.elapsed_us() / 1e6)

    run = watch(folder, train, "losses:every=1")
    # The profiler includes Leadline's overhead in the phases, which the timeline reports separately.
    step, overhead = (
        median_step(run, "step"),
        statistics.median(row["args"]["own_ns"] / 1e9 for row in rows(run, "step")),
    )
    differences = {}
    for name in ("data", "forward", "backward", "optimizer"):
        measured, of_profiler = median_step(run, name), statistics.median(traced[f"of {name}"])
        assert len(traced[f"of {name}"]) == len(rows(run, name)) == 20
        tolerance = 0.25 * of_profiler + 0.03 * step
        if not of_profiler - overhead - tolerance <= measured <= of_profiler + tolerance:
            differences[name] = (measured, of_profiler)
    return differences


def test_micro_batches_share_one_row_per_phase(tmp_path: Path) -> None:
    model = Slow(forward=0.005)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)

    def train() -> None:
        for index, batch in enumerate(DataLoader(Numbers(0.002), batch_size=1)):
            model(batch).sum().backward()
            if index % 4 == 3:
                optimizer.step()
                optimizer.zero_grad()

    run = watch(tmp_path, train)
    for name in ("forward", "backward"):
        assert [(row["step"], row["args"]) for row in rows(run, name)] == [(step, {"count": 4}) for step in range(3)]
    assert [row["args"] for row in rows(run, "optimizer")] == [{}] * 3
    assert all(row["seconds"] >= 0.02 for row in rows(run, "forward"))


def test_two_optimizers_share_one_phase_of_the_clock_owners_step(tmp_path: Path) -> None:
    models = [Slow(), Slow()]
    optimizers = [SlowUpdate(model.parameters(), lr=0.1) for model in models]
    for optimizer in optimizers:
        optimizer.seconds = 0.005

    def train() -> None:
        for _ in range(4):
            for model, optimizer in zip(models, optimizers, strict=True):
                model(torch.ones(2, 4)).sum().backward()
                optimizer.step()

    run = watch(tmp_path, train)
    updates = rows(run, "optimizer")
    assert [row["args"] for row in updates] == [{}, {"count": 2}, {"count": 2}, {"count": 2}]
    assert all(row["seconds"] >= 0.01 for row in updates[1:])
    for step, update in zip(rows(run, "step"), updates, strict=True):
        assert step["duration_ns"] >= update["duration_ns"]


def test_passes_of_a_closure_are_within_the_optimizer_phase(tmp_path: Path) -> None:
    model = Slow(forward=0.004)
    optimizer = torch.optim.LBFGS(model.parameters(), max_iter=3)

    def closure() -> torch.Tensor:
        optimizer.zero_grad()
        loss = model(torch.ones(2, 4)).pow(2).sum()
        loss.backward()
        return loss

    run = watch(tmp_path, lambda: [optimizer.step(closure) for _ in range(3)])
    for name in ("forward", "backward"):
        assert {row["args"]["within"] for row in rows(run, name)} == {"optimizer"}
    for step in range(3):
        inner = sum(rows(run, name)[step]["duration_ns"] for name in ("forward", "backward"))
        assert rows(run, "optimizer")[step]["duration_ns"] >= inner


def test_a_skipped_scaler_step_is_a_step(tmp_path: Path) -> None:
    model = Slow()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    scaler = torch.amp.GradScaler("cpu", init_scale=1024.0)

    def train() -> None:
        for step in range(3):
            optimizer.zero_grad()
            scaler.scale(model(torch.ones(2, 4)).sum()).backward()
            if step == 1:
                model.layer.weight.grad[0, 0] = float("inf")
            scaler.step(optimizer)
            scaler.update()

    run = watch(tmp_path, train)
    assert [(row["step"], row["args"]) for row in rows(run, "optimizer")] == [(step, {}) for step in range(3)]


def test_an_optimizer_step_within_the_backward_pass(tmp_path: Path) -> None:
    model = Slow()
    optimizers = {parameter: torch.optim.SGD([parameter], lr=0.1) for parameter in model.parameters()}
    for parameter, optimizer in optimizers.items():
        parameter.register_post_accumulate_grad_hook(lambda _, optimizer=optimizer: optimizer.step())

    run = watch(tmp_path, lambda: [model(torch.ones(2, 4)).sum().backward() for _ in range(3)])
    updates = rows(run, "optimizer")
    assert [row["args"] for row in updates] == [{"count": 2, "within": "backward"}] * 3
    for inner, outer in zip(updates, rows(run, "backward"), strict=True):
        assert outer["duration_ns"] >= inner["duration_ns"]


def test_evaluation_has_its_own_steps_and_no_share_of_train_steps(tmp_path: Path) -> None:
    model = Slow(forward=0.003)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)

    def train() -> None:
        for _ in range(2):
            model.train()
            for batch in DataLoader(Numbers(), batch_size=4):
                model(batch).sum().backward()
                optimizer.step()
            torch.save(model.state_dict(), tmp_path / "model.pt")
            model.eval()
            with torch.no_grad():
                for batch in DataLoader(Numbers(0.01), batch_size=6):
                    model(batch)

    run = watch(tmp_path / "runs", train)
    steps = rows(run, "step", "eval")
    assert [row["step"] for row in steps] == [3, 4, 8, 9]
    assert all(row["seconds"] >= 0.063 for row in steps)
    assert seconds(run, "data", "eval") >= 4 * 0.06
    assert all(0.003 <= row["seconds"] < 0.06 for row in rows(run, "forward", "eval"))
    assert [row["step"] for row in rows(run, "step")] == [0, 1, 2, 5, 6, 7]
    assert all(row["seconds"] < 0.06 for row in rows(run, "step")[1:])
    (first, second) = [row for row in run.timeline().to_pylist() if row["name"] == "checkpoint"]
    assert (first["step"], second["step"]) == (3, 8)


def test_a_save_is_recorded_once_per_call(tmp_path: Path) -> None:
    from safetensors.torch import save_model

    model = Slow()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)

    class SavesItself:
        def __reduce__(self) -> Any:
            torch.save(1, tmp_path / "inner.pt")
            return int, (3,)

    def train() -> None:
        for _ in range(2):
            model(torch.ones(2, 4)).sum().backward()
            optimizer.step()
            torch.save(SavesItself(), tmp_path / "outer.pt")
            torch.serialization.save(model.state_dict(), tmp_path / "model.pt")
        save_model(model, str(tmp_path / "model.safetensors"))

    run = watch(tmp_path / "runs", train)
    assert [(row["step"], row["args"]) for row in rows(run, "checkpoint")] == [(1, {"count": 2})]
    assert [(row["step"], row["args"]) for row in rows(run, "checkpoint", "finalization")] == [(1, {"count": 3})]
    assert (tmp_path / "inner.pt").exists()


def test_initialization_and_finalization(tmp_path: Path) -> None:
    model = Slow()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)

    def train() -> None:
        time.sleep(0.05)
        for batch in DataLoader(Numbers(), batch_size=6):
            model(batch).sum().backward()
            optimizer.step()
        time.sleep(0.02)

    run = watch(tmp_path, train)
    assert [row["seconds"] >= 0.05 for row in rows(run, "setup", "initialization")] == [True]
    (first,) = rows(run, "first_step", "initialization")
    assert first["duration_ns"] == rows(run, "step")[0]["duration_ns"]
    (end,) = rows(run, "finalization", "finalization")
    assert (end["step"], end["seconds"] >= 0.02) == (1, True)


def test_facts_of_the_training(tmp_path: Path) -> None:
    model = Slow()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)

    def train() -> None:
        for _ in DataLoader(Numbers(), batch_size=3):
            pass  # for example to compute the mean of the data
        for batch in DataLoader(Numbers(), batch_size=4, num_workers=0):
            for _ in range(2):
                model(batch).sum().backward()
            optimizer.step()

    run = watch(tmp_path, train)
    (document,) = run.worker_documents().values()
    assert document.facts == {
        "device": "cpu",
        "dataloader_workers": 0,
        "batch_size": 4,
        "flops_per_step": 2 * 2 * (2 * 4 * 4 * 2),
    }
    assert len(rows(run, "step")) == 3
    assert rows(run, "data")[0]["args"] == {"count": 2}  # creating the iterator, and the first batch


def test_loader_processes_record_nothing(tmp_path: Path) -> None:
    model = Slow()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)

    def train() -> None:
        for _ in range(2):
            for batch in DataLoader(Numbers(), batch_size=4, num_workers=2, multiprocessing_context="fork"):
                model(batch).sum().backward()
                optimizer.step()

    run = watch(tmp_path, train)
    assert len(run.workers()) == 1
    assert [row["step"] for row in rows(run, "data")] == list(range(6))


def test_iteration_in_other_threads_or_datasets_is_no_wait(tmp_path: Path) -> None:
    import queue
    import threading

    class Within(Dataset[torch.Tensor]):
        def __init__(self) -> None:
            self.inner = iter(DataLoader(Numbers(0.01), batch_size=1))

        def __len__(self) -> int:
            return 4

        def __getitem__(self, index: int) -> torch.Tensor:
            return next(self.inner)[0]

    model = Slow()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    batches: queue.Queue[torch.Tensor | None] = queue.Queue(maxsize=1)

    def load() -> None:
        for batch in DataLoader(Numbers(0.01, 4), batch_size=1):
            batches.put(batch)
        batches.put(None)

    def train() -> None:
        for batch in DataLoader(Within(), batch_size=1):
            model(batch).sum().backward()
            optimizer.step()
        thread = threading.Thread(target=load)
        thread.start()
        while (batch := batches.get()) is not None:
            model(batch).sum().backward()
            optimizer.step()
        thread.join()

    run = watch(tmp_path, train)
    waits = rows(run, "data")
    # the last wait of the first loop, which found no batch, belongs to the next step
    assert [(row["step"], row["args"]) for row in waits] == [(0, {"count": 2}), (1, {}), (2, {}), (3, {}), (4, {})]
    assert all(row["seconds"] >= 0.01 for row in waits[:4])


@pytest.fixture
def single_rank(tmp_path: Path) -> Iterator[None]:
    """Process group with a single rank."""
    distributed.init_process_group("gloo", init_method=f"file://{tmp_path}/store", rank=0, world_size=1)
    yield
    distributed.destroy_process_group()


@pytest.mark.usefixtures("single_rank")
def test_collectives_have_group_bytes_and_phase(tmp_path: Path) -> None:
    model = Slow()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    group = distributed.new_group([0])

    def train() -> None:
        for _ in range(2):
            distributed.broadcast(model.layer.bias.data, 0)
            loss = model(torch.ones(2, 4)).sum()
            loss.backward()
            for parameter in model.parameters():
                distributed.all_reduce(parameter.grad, group=group)
            gathered: list[Any] = [None]
            distributed.all_gather_object(gathered, {"loss": 1.0})
            optimizer.step()
        distributed.barrier()

    run = watch(tmp_path / "runs", train)
    for step in range(2):
        collectives = {row["args"]["op"]: row["args"] for row in rows(run, "collective") if row["step"] == step}
        within = {"within": "host"} if step else {}  # the first step begins with its forward pass
        assert collectives == {
            "broadcast": {"count": 1, "op": "broadcast", "group": "world", "bytes": 8} | within,
            "all_reduce": {"count": 2, "op": "all_reduce", "group": str(group.group_name), "bytes": 40},
            "all_gather_object": {"count": 1, "op": "all_gather_object", "group": "world"},
        }
    assert [row["args"]["op"] for row in rows(run, "collective", "finalization")] == ["barrier"]


def test_input_bytes_of_collectives() -> None:
    four = torch.zeros(4)
    assert input_bytes("all_reduce", (four,), {}) == 16
    assert input_bytes("all_reduce", (), {"tensor": four.double()}) == 32
    assert input_bytes("all_gather", ([four, four], four.half()), {}) == 8
    assert input_bytes("reduce_scatter", (four, [four, four]), {}) == 32
    assert input_bytes("all_to_all_single", (four,), {"input": four}) == 16
    assert input_bytes("barrier", (), {}) is None
    assert input_bytes("all_gather_object", ([None], {}), {}) is None


def test_all_patches_are_restored(tmp_path: Path) -> None:
    functions = [
        (torch.utils.data.dataloader._BaseDataLoaderIter, "__next__"),
        (DataLoader, "_get_iterator"),
        (torch, "save"),
        (torch.serialization, "save"),
        (distributed, "all_reduce"),
        (distributed.distributed_c10d, "all_reduce"),
        (distributed, "barrier"),
    ]
    before = [getattr(owner, name) for owner, name in functions]
    hook = leadline.torch.Hook(out=str(tmp_path), name="run")
    during = [getattr(owner, name) for owner, name in functions]
    assert all(now is not then for now, then in zip(during, before, strict=True))
    assert torch.save is torch.serialization.save
    hook.close()
    assert [getattr(owner, name) for owner, name in functions] == before


def test_a_device_clock_is_used_if_there_is_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    class Late:
        """A device clock that is always behind, and reports one second between marks."""

        marks = last_waited = 0

        def __init__(self, device: torch.device) -> None: ...

        def mark(self) -> int:
            Late.marks += 1
            return Late.marks

        def is_past(self, mark: int) -> bool:
            return mark < max(Late.marks - 8, Late.last_waited)

        def wait(self, mark: int) -> None:
            Late.last_waited = mark

        def between_ns(self, first: int, second: int) -> int:
            return 1_000_000_000 * (second - first)

    monkeypatch.setitem(CLOCKS, "cpu", Late)
    model = Slow()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)

    def train() -> None:
        for _ in range(5):
            model(torch.ones(2, 4)).sum().backward()
            optimizer.step()

    run = watch(tmp_path, train)
    steps = rows(run, "step")
    assert [row["step"] for row in steps] == list(range(5))
    assert [row["args"].get("clock") for row in steps] == [None, *["device"] * 4]
    assert {row["seconds"] for row in rows(run, "backward")[1:]} == {1.0}
    assert {row["seconds"] for row in rows(run, "forward")[1:]} == {1.0}
    assert {row["seconds"] for row in steps[1:]} == {6.0}
