"""The phases of trainings as people write them: which rows there are, and whether their times are the training's."""

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
from torch import distributed, nn
from torch.profiler import ProfilerActivity, profile, record_function
from torch.utils.data import DataLoader, Dataset
from watched import watch

import leadline.torch
from leadline.frameworks.torch.timing import cuda_clock
from leadline.frameworks.torch.timing.collectives import given_bytes
from leadline.reader.run import Run

Rows = list[dict[str, Any]]


class Numbers(Dataset[torch.Tensor]):
    """Samples that take their time."""

    def __init__(self, seconds: float = 0.0, count: int = 12) -> None:
        self.seconds, self.count = seconds, count

    def __len__(self) -> int:
        return self.count

    def __getitem__(self, index: int) -> torch.Tensor:
        time.sleep(self.seconds)
        return torch.full((4,), float(index))


class Slow(nn.Module):
    """A model whose passes take their time, which a CPU under load does not shorten."""

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
    found = [each for each in run.timeline().to_pylist() if (each["name"], each["phase"]) == (name, phase)]
    for each in found:
        each["args"] = json.loads(each["args"])
        each["seconds"] = each["duration_ns"] / 1e9
    return found


def seconds(run: Run, name: str, phase: str = "train", since: int = 1) -> float:
    """Of all steps but the first together."""
    return sum(each["seconds"] for each in rows(run, name, phase) if each["step"] >= since)


def median_step(run: Run, name: str) -> float:
    return statistics.median(each["seconds"] for each in rows(run, name))


def test_each_phase_has_the_time_that_it_took(tmp_path: Path) -> None:
    model = Slow(forward=0.02, backward=0.03)
    optimizer = SlowUpdate(model.parameters(), lr=0.1)
    optimizer.seconds = 0.01

    def train() -> None:
        for batch in DataLoader(Numbers(0.02), batch_size=2):
            optimizer.zero_grad()
            model(batch).sum().backward()
            optimizer.step()
            time.sleep(0.015)  # what is neither

    run = watch(tmp_path, train)
    names = ("data", "forward", "backward", "optimizer")
    assert {name: [each["step"] for each in rows(run, name)] for name in names} == {
        name: list(range(6)) for name in names
    }
    least = {"data": 0.04, "forward": 0.02, "backward": 0.03, "optimizer": 0.01, "step": 0.115}
    for name, each in least.items():
        assert seconds(run, name) >= 5 * each * 0.999, name
    assert seconds(run, "step") >= sum(seconds(run, name) for name in names) + 5 * 0.015
    starts = [each["start_ns"] for each in rows(run, "step")]
    ends = [each["start_ns"] + each["duration_ns"] for each in rows(run, "step")]
    assert all(abs(start - end) < 1e6 for start, end in zip(starts[1:], ends[:-1], strict=True))  # one after the other


def test_phases_agree_with_torch_profiler_on_the_same_steps(tmp_path: Path) -> None:
    # A machine that does something else at this moment takes time from one clock and not from the other: what differs
    # by our doing differs each time.
    apart = [differences_from_profiler(tmp_path / "0")]
    while apart[-1] and len(apart) < 5:
        apart.append(differences_from_profiler(tmp_path / str(len(apart))))
    assert apart[-1] == {}, apart


def differences_from_profiler(folder: Path) -> dict[str, tuple[float, float]]:
    """The phases whose median is another than the profiler's in the same steps: both, in seconds."""
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
        for each in profiler.events():
            traced[each.name].append(each.time_range.elapsed_us() / 1e6)

    run = watch(folder, train, "losses:every=1")
    # The profiler also counts what watching takes within a phase, which the timeline tells apart.
    step, own = median_step(run, "step"), statistics.median(each["args"]["own_ns"] / 1e9 for each in rows(run, "step"))
    apart = {}
    for name in ("data", "forward", "backward", "optimizer"):
        found, of_profiler = median_step(run, name), statistics.median(traced[f"of {name}"])
        assert len(traced[f"of {name}"]) == len(rows(run, name)) == 20
        tolerance = 0.25 * of_profiler + 0.03 * step
        if not of_profiler - own - tolerance <= found <= of_profiler + tolerance:
            apart[name] = (found, of_profiler)
    return apart


def test_micro_batches_are_one_row_of_each_phase(tmp_path: Path) -> None:
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
        assert [(each["step"], each["args"]) for each in rows(run, name)] == [(step, {"count": 4}) for step in range(3)]
    assert [each["args"] for each in rows(run, "optimizer")] == [{}] * 3
    assert all(each["seconds"] >= 0.02 for each in rows(run, "forward"))


def test_two_optimizers_are_one_phase_of_the_owners_step(tmp_path: Path) -> None:
    models = [Slow(), Slow()]
    optimizers = [SlowUpdate(each.parameters(), lr=0.1) for each in models]
    for each in optimizers:
        each.seconds = 0.005

    def train() -> None:
        for _ in range(4):
            for model, optimizer in zip(models, optimizers, strict=True):
                model(torch.ones(2, 4)).sum().backward()
                optimizer.step()

    run = watch(tmp_path, train)
    found = rows(run, "optimizer")
    assert [each["args"] for each in found] == [{}, {"count": 2}, {"count": 2}, {"count": 2}]
    assert all(each["seconds"] >= 0.01 for each in found[1:])
    for step, update in zip(rows(run, "step"), found, strict=True):
        assert step["duration_ns"] >= update["duration_ns"]


def test_a_closures_passes_lie_within_the_optimizer(tmp_path: Path) -> None:
    model = Slow(forward=0.004)
    optimizer = torch.optim.LBFGS(model.parameters(), max_iter=3)

    def closure() -> torch.Tensor:
        optimizer.zero_grad()
        loss = model(torch.ones(2, 4)).pow(2).sum()
        loss.backward()
        return loss

    run = watch(tmp_path, lambda: [optimizer.step(closure) for _ in range(3)])
    for name in ("forward", "backward"):
        assert {each["args"]["within"] for each in rows(run, name)} == {"optimizer"}
    for step in range(3):
        inner = sum(rows(run, name)[step]["duration_ns"] for name in ("forward", "backward"))
        assert rows(run, "optimizer")[step]["duration_ns"] >= inner


def test_a_scaler_that_skips_has_stepped(tmp_path: Path) -> None:
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
    assert [(each["step"], each["args"]) for each in rows(run, "optimizer")] == [(step, {}) for step in range(3)]


def test_an_optimizer_within_the_backward_pass(tmp_path: Path) -> None:
    model = Slow()
    optimizers = {each: torch.optim.SGD([each], lr=0.1) for each in model.parameters()}
    for parameter, optimizer in optimizers.items():
        parameter.register_post_accumulate_grad_hook(lambda _, optimizer=optimizer: optimizer.step())

    run = watch(tmp_path, lambda: [model(torch.ones(2, 4)).sum().backward() for _ in range(3)])
    found = rows(run, "optimizer")
    assert [each["args"] for each in found] == [{"count": 2, "within": "backward"}] * 3
    for inner, outer in zip(found, rows(run, "backward"), strict=True):
        assert outer["duration_ns"] >= inner["duration_ns"]


def test_evaluation_has_steps_of_its_own_and_takes_nothing_of_the_trainings(tmp_path: Path) -> None:
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
    assert [each["step"] for each in steps] == [3, 4, 8, 9]
    assert all(each["seconds"] >= 0.063 for each in steps)
    assert seconds(run, "data", "eval") >= 4 * 0.06
    assert all(0.003 <= each["seconds"] < 0.06 for each in rows(run, "forward", "eval"))
    assert [each["step"] for each in rows(run, "step")] == [0, 1, 2, 5, 6, 7]
    assert all(each["seconds"] < 0.06 for each in rows(run, "step")[1:])
    (first, second) = [each for each in run.timeline().to_pylist() if each["name"] == "checkpoint"]
    assert (first["step"], second["step"]) == (3, 8)


def test_saving_is_seen_once_a_call(tmp_path: Path) -> None:
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
    assert [(each["step"], each["args"]) for each in rows(run, "checkpoint")] == [(1, {"count": 2})]
    assert [(each["step"], each["args"]) for each in rows(run, "checkpoint", "finalization")] == [(1, {"count": 3})]
    assert (tmp_path / "inner.pt").exists()


def test_the_beginning_and_the_end(tmp_path: Path) -> None:
    model = Slow()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)

    def train() -> None:
        time.sleep(0.05)
        for batch in DataLoader(Numbers(), batch_size=6):
            model(batch).sum().backward()
            optimizer.step()
        time.sleep(0.02)

    run = watch(tmp_path, train)
    assert [each["seconds"] >= 0.05 for each in rows(run, "setup", "initialization")] == [True]
    (first,) = rows(run, "first_step", "initialization")
    assert first["duration_ns"] == rows(run, "step")[0]["duration_ns"]
    (end,) = rows(run, "finalization", "finalization")
    assert (end["step"], end["seconds"] >= 0.02) == (1, True)


def test_facts(tmp_path: Path) -> None:
    model = Slow()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)

    def train() -> None:
        for _ in DataLoader(Numbers(), batch_size=3):
            pass  # the mean of the data, say
        for batch in DataLoader(Numbers(), batch_size=4, num_workers=0):
            for _ in range(2):
                model(batch).sum().backward()
            optimizer.step()

    run = watch(tmp_path, train)
    (document,) = run.worker_documents().values()
    assert document["facts"] == {
        "device": "cpu",
        "dataloader_workers": 0,
        "batch_size": 4,
        "flops_per_step": 2 * 2 * (2 * 4 * 4 * 2),
    }
    assert len(rows(run, "step")) == 3
    assert rows(run, "data")[0]["args"] == {"count": 2}  # its workers, and its first batch


def test_processes_that_load_stay_silent(tmp_path: Path) -> None:
    model = Slow()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)

    def train() -> None:
        for _ in range(2):
            for batch in DataLoader(Numbers(), batch_size=4, num_workers=2, multiprocessing_context="fork"):
                model(batch).sum().backward()
                optimizer.step()

    run = watch(tmp_path, train)
    assert len(run.workers()) == 1
    assert [each["step"] for each in rows(run, "data")] == list(range(6))


def test_what_is_iterated_in_other_threads_or_within_is_nobodys_wait(tmp_path: Path) -> None:
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
        while (found := batches.get()) is not None:
            model(found).sum().backward()
            optimizer.step()
        thread.join()

    run = watch(tmp_path, train)
    found = rows(run, "data")
    # the last wait of the first loop, which found nothing more, is the next step's
    assert [(each["step"], each["args"]) for each in found] == [(0, {"count": 2}), (1, {}), (2, {}), (3, {}), (4, {})]
    assert all(each["seconds"] >= 0.01 for each in found[:4])


@pytest.fixture
def alone(tmp_path: Path) -> Iterator[None]:
    """A job of one rank."""
    distributed.init_process_group("gloo", init_method=f"file://{tmp_path}/store", rank=0, world_size=1)
    yield
    distributed.destroy_process_group()


@pytest.mark.usefixtures("alone")
def test_exchanges_between_ranks_with_group_bytes_and_phase(tmp_path: Path) -> None:
    model = Slow()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    group = distributed.new_group([0])

    def train() -> None:
        for _ in range(2):
            distributed.broadcast(model.layer.bias.data, 0)
            loss = model(torch.ones(2, 4)).sum()
            loss.backward()
            for each in model.parameters():
                distributed.all_reduce(each.grad, group=group)
            gathered: list[Any] = [None]
            distributed.all_gather_object(gathered, {"loss": 1.0})
            optimizer.step()
        distributed.barrier()

    run = watch(tmp_path / "runs", train)
    for step in range(2):
        found = {each["args"]["op"]: each["args"] for each in rows(run, "collective") if each["step"] == step}
        within = {"within": "forward"} if step else {}  # the first step begins with its forward pass
        assert found == {
            "broadcast": {"count": 1, "op": "broadcast", "group": "world", "bytes": 8} | within,
            "all_reduce": {"count": 2, "op": "all_reduce", "group": str(group.group_name), "bytes": 40},
            "all_gather_object": {"count": 1, "op": "all_gather_object", "group": "world"},
        }
    assert [each["args"]["op"] for each in rows(run, "collective", "finalization")] == ["barrier"]


def test_bytes_that_a_rank_gives() -> None:
    four = torch.zeros(4)
    assert given_bytes("all_reduce", (four,), {}) == 16
    assert given_bytes("all_reduce", (), {"tensor": four.double()}) == 32
    assert given_bytes("all_gather", ([four, four], four.half()), {}) == 8
    assert given_bytes("reduce_scatter", (four, [four, four]), {}) == 32
    assert given_bytes("all_to_all_single", (four,), {"input": four}) == 16
    assert given_bytes("barrier", (), {}) is None
    assert given_bytes("all_gather_object", ([None], {}), {}) is None


def test_everything_is_put_back(tmp_path: Path) -> None:
    places = [
        (torch.utils.data.dataloader._BaseDataLoaderIter, "__next__"),
        (DataLoader, "_get_iterator"),
        (torch, "save"),
        (torch.serialization, "save"),
        (distributed, "all_reduce"),
        (distributed.distributed_c10d, "all_reduce"),
        (distributed, "barrier"),
    ]
    before = [getattr(owner, name) for owner, name in places]
    hook = leadline.torch.Hook(out=str(tmp_path), name="run")
    during = [getattr(owner, name) for owner, name in places]
    assert all(now is not then for now, then in zip(during, before, strict=True))
    assert torch.save is torch.serialization.save
    hook.close()
    assert [getattr(owner, name) for owner, name in places] == before


def test_the_clock_of_a_device_is_read_where_it_has_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    class Late:
        """A driver that is always one mark behind, and says that each stretch took a second."""

        made = waited = 0

        def __init__(self, device: torch.device) -> None: ...

        def mark(self) -> int:
            Late.made += 1
            return Late.made

        def is_past(self, mark: int) -> bool:
            return mark < max(Late.made - 8, Late.waited)

        def wait(self, mark: int) -> None:
            Late.waited = mark

        def between_ns(self, first: int, second: int) -> int:
            return 1_000_000_000 * (second - first)

    monkeypatch.setitem(cuda_clock.CLOCKS, "cpu", Late)
    model = Slow()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)

    def train() -> None:
        for _ in range(5):
            model(torch.ones(2, 4)).sum().backward()
            optimizer.step()

    run = watch(tmp_path, train)
    steps = rows(run, "step")
    assert [each["step"] for each in steps] == list(range(5))
    assert [each["args"].get("clock") for each in steps] == [None, *["device"] * 4]
    assert {each["seconds"] for each in rows(run, "backward")[1:]} == {1.0}
    assert {each["seconds"] for each in rows(run, "forward")[1:]} == {1.0}
    assert {each["seconds"] for each in steps[1:]} == {5.0}
