"""Which step a logged value, a loss or an array of the script belongs to; the loops themselves say what is right."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch.utils.data import DataLoader, TensorDataset

import leadline
from leadline.hook import StandaloneRun
from leadline.reader.run import Run
from leadline.training.recorder import last_step
from leadline.training.session import api

STEPS = 5
DATA = TensorDataset(torch.randn(STEPS * 4, 3), torch.randn(STEPS * 4, 2))


class Loop:
    """A model, its optimizer and its batches."""

    def __init__(self) -> None:
        self.model = torch.nn.Linear(3, 2)
        self.optimizer = torch.optim.SGD(self.model.parameters(), lr=0.1)
        self.loader = DataLoader(DATA, batch_size=4)

    def backward(self, batch: Any) -> float:
        loss = torch.nn.functional.mse_loss(self.model(batch[0]), batch[1])
        loss.backward()
        return loss.item()

    def evaluate(self) -> None:
        self.model.eval()
        with torch.no_grad():
            for inputs, targets in self.loader:
                torch.nn.functional.mse_loss(self.model(inputs), targets)
        self.model.train()


@pytest.fixture
def loop() -> Loop:
    return Loop()


def watch(folder: Path, train: Callable[[], None], *capture: str, preset: str | None = "light") -> Run:
    with StandaloneRun(out=str(folder), name="run", preset=preset, capture=capture) as standalone:
        train()
    return leadline.open_run(standalone.run)


def values(run: Run, name: str, mode: str = "train") -> dict[int, float]:
    rows = run.tensor(name).statistics("value").to_pylist()
    found = [(row["mode_step"], row["value"]) for row in rows if row["mode"] == mode]
    assert len(dict(found)) == len(found), f"two values at one step: {found}"
    return dict(found)


def train_steps(run: Run) -> int:
    (document,) = run.worker_documents().values()
    return document.steps["train"]


def test_a_value_belongs_to_the_step_that_ran_and_has_its_loss(tmp_path: Path, loop: Loop) -> None:
    def train() -> None:
        for batch in loop.loader:
            loss = loop.backward(batch)
            leadline.log(before=loss)
            loop.optimizer.step()
            leadline.log(after=loss)

    run = watch(tmp_path, train)
    captured = values(run, "mse_loss_output_0")
    assert values(run, "before") == values(run, "after") == pytest.approx(captured)
    assert list(captured) == list(range(STEPS))
    assert train_steps(run) == STEPS


def test_a_value_given_ahead_of_each_step_is_of_that_step(tmp_path: Path, loop: Loop) -> None:
    def train() -> None:
        for step in range(STEPS):
            leadline.log(rate=step)
            loop.backward(DATA[:4])
            loop.optimizer.step()

    assert values(watch(tmp_path, train), "rate") == {step: step for step in range(STEPS)}


def test_values_now_and_then_are_of_the_step_that_has_begun(tmp_path: Path, loop: Loop) -> None:
    def train() -> None:
        for step, batch in enumerate(loop.loader):
            if step == 2:
                leadline.log(batch=step)
            output = loop.model(batch[0])
            if step == 3:
                leadline.log(forward=step)
            output.mean().backward()
            if step == 4:
                leadline.log(backward=step)
            loop.optimizer.step()

    run = watch(tmp_path, train)
    found = {name: values(run, name) for name in ("batch", "forward", "backward")}
    assert found == {"batch": {2: 2}, "forward": {3: 3}, "backward": {4: 4}}


def test_of_several_values_after_a_step_the_last_is_kept(tmp_path: Path, loop: Loop) -> None:
    def train() -> None:
        for step, batch in enumerate(loop.loader):
            loop.backward(batch)
            loop.optimizer.step()
            leadline.log(share=-1)
            leadline.log(share=step)

    assert values(watch(tmp_path, train), "share") == {step: step for step in range(STEPS)}


def test_micro_batches_are_of_the_step_that_they_make(tmp_path: Path, loop: Loop) -> None:
    def train() -> None:
        for number, batch in enumerate(loop.loader):
            loop.backward(batch)
            leadline.log({f"micro/{number}": number})
            if number in (1, 3):
                loop.optimizer.step()
                leadline.log(done=number)

    run = watch(tmp_path, train)
    assert values(run, "done") == {0: 1, 1: 3}
    assert [values(run, f"micro/{number}") for number in range(5)] == [{0: 0}, {0: 1}, {1: 2}, {1: 3}, {1: 4}]


def test_the_end_of_an_epoch_is_of_its_last_step(tmp_path: Path, loop: Loop) -> None:
    def train() -> None:
        for epoch in range(2):
            for batch in loop.loader:
                loop.backward(batch)
                loop.optimizer.step()
            leadline.log(epoch=epoch)

    run = watch(tmp_path, train)
    assert values(run, "epoch") == {STEPS - 1: 0, 2 * STEPS - 1: 1}
    assert train_steps(run) == 2 * STEPS


def test_what_follows_an_evaluation_is_of_its_last_step(tmp_path: Path, loop: Loop) -> None:
    def train() -> None:
        for epoch in range(2):
            for batch in loop.loader:
                loop.backward(batch)
                loop.optimizer.step()
            leadline.log(trained=epoch)
            loop.evaluate()
            leadline.log(score=epoch)

    run = watch(tmp_path, train)
    assert values(run, "trained") == {STEPS - 1: 0, 2 * STEPS - 1: 1}
    assert values(run, "score", "eval") == {STEPS - 1: 0, 2 * STEPS - 1: 1}


def test_a_mode_that_the_script_sets_begins_a_step(tmp_path: Path, loop: Loop) -> None:
    def train() -> None:
        loop.backward(DATA[:4])
        loop.optimizer.step()
        with leadline.mode("eval"):
            leadline.log(size=4)
            loop.evaluate()
        leadline.log(score=1)
        leadline.mode("predict")
        leadline.mode("train")
        leadline.log(rate=2)
        loop.backward(DATA[:4])
        loop.optimizer.step()

    run = watch(tmp_path, train)
    assert values(run, "size", "eval") == {0: 4}
    assert values(run, "score", "eval") == {STEPS - 1: 1}
    assert values(run, "rate") == {1: 2}


@pytest.mark.parametrize("critics", [1, 2])
def test_where_optimizers_alternate_the_iteration_is_that_of_the_clock(tmp_path: Path, critics: int) -> None:
    generator, critic = Loop(), Loop()

    def train() -> None:
        for step in range(2 * STEPS):
            critic.backward(DATA[:4])
            critic.optimizer.step()
            if step % critics == critics - 1:
                generator.backward(DATA[:4])
                critic.backward(DATA[:4])  # the loss of a generator is that of the critic, whose gradients grow, too
                generator.optimizer.step()
                leadline.log(iteration=step)

    run = watch(tmp_path, train)
    expected = {step: step for step in range(2 * STEPS) if step % critics == critics - 1}
    assert values(run, "iteration") == expected
    assert train_steps(run) == 2 * STEPS


def test_a_skipped_step_is_a_step(tmp_path: Path, loop: Loop) -> None:
    def train() -> None:
        scaler = torch.amp.GradScaler("cpu", init_scale=4.0)
        for step in range(4):
            loss = loop.model(DATA[:4][0]).mean() * (float("inf") if step == 1 else 1.0)
            scaler.scale(loss).backward()
            scaler.step(loop.optimizer)
            scaler.update()
            loop.optimizer.zero_grad()
            leadline.log(scale=scaler.get_scale())

    assert values(watch(tmp_path, train), "scale") == {0: 4.0, 1: 2.0, 2: 2.0, 3: 2.0}


def test_trainings_in_one_process_follow_one_another(tmp_path: Path) -> None:
    def train() -> None:
        for fold in range(2):
            loop = Loop()
            for batch in loop.loader:
                loop.backward(batch)
                loop.optimizer.step()
                leadline.log(fold=fold)

    expected = {step: step // STEPS for step in range(2 * STEPS)}
    assert values(watch(tmp_path, train), "fold") == expected


def test_a_schedule_takes_the_value_of_its_step(tmp_path: Path, loop: Loop) -> None:
    def train() -> None:
        for step, batch in enumerate(loop.loader):
            loop.backward(batch)
            loop.optimizer.step()
            leadline.log(kept=step)

    run = watch(tmp_path, train, "scalars:regex=^kept,every=2", preset="sagemaker")
    assert values(run, "kept") == {0: 0, 2: 2, 4: 4}


def test_losses_and_arrays_of_a_hook_follow_the_step_of_the_framework(tmp_path: Path, loop: Loop) -> None:
    def train() -> None:
        hook = leadline.Hook()
        for step, batch in enumerate(loop.loader):
            hook.save_tensor("ahead", np.full(2, step))
            loop.backward(batch)
            loop.optimizer.step()
            hook.log(own_loss=step)
            hook.save_tensor("array", np.full(2, step))

    run = watch(tmp_path, train, "losses:every=1", "default:raw=true,every=1", preset=None)
    assert values(run, "own_loss") == {step: step for step in range(STEPS)}
    assert run.tensor_names(collection="losses") == ["mse_loss_output_0", "own_loss"]
    for name in ("ahead", "array"):
        assert [run.tensor(name).value(step)[0] for step in run.tensor(name).steps()] == list(range(STEPS))


def test_what_is_no_number_costs_only_itself(tmp_path: Path, loop: Loop) -> None:
    class Unreadable:
        def detach(self) -> Any:
            raise TypeError("not for others")

    def train() -> None:
        hook = leadline.Hook()
        for step, batch in enumerate(loop.loader):
            loop.backward(batch)
            leadline.log(text="text", number=step)
            hook.save_tensor("unreadable", Unreadable())
            loop.optimizer.step()

    run = watch(tmp_path, train, "default:raw=true,every=1")
    assert values(run, "number") == {step: step for step in range(STEPS)}
    assert len(values(run, "mse_loss_output_0")) == 5
    (document,) = run.worker_documents().values()
    assert document.off is None
    assert len([note for note in document.notes if "not captured" in note]) == 3


@pytest.fixture
def soon(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setattr(last_step, "_LONGEST_SECONDS", -1.0)
    return


@pytest.mark.usefixtures("soon")
def test_a_step_that_nothing_follows_is_complete_and_takes_a_late_value(tmp_path: Path, loop: Loop) -> None:
    def train() -> None:
        for step, batch in enumerate(loop.loader):
            loop.backward(batch)
            loop.optimizer.step()
            session = api.current()
            assert session is not None
            assert session.context.writer is not None
            session.context.writer.flush()  # its thread completes the step
            assert session.recorder._output.last.is_complete
            leadline.log(late=step)

    assert values(watch(tmp_path, train), "late") == {step: step for step in range(STEPS)}
