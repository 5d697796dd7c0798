"""Trainings that step no PyTorch optimizer: their backward passes are the clock."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from pathlib import Path

import pytest
import torch
from hooked_run import scalars, watch
from torch import nn
from torch.nn import functional

X, Y = torch.randn(12, 4, generator=torch.Generator().manual_seed(0)), torch.arange(12) % 3
RATE = 0.1


def net() -> nn.Sequential:
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(4, 8), nn.Dropout(0.1), nn.Tanh(), nn.Linear(8, 3))


def in_place(parameters: Iterable[torch.Tensor]) -> None:
    with torch.no_grad():
        for parameter in parameters:
            parameter -= RATE * parameter.grad


def through_data(parameters: Iterable[torch.Tensor]) -> None:
    for parameter in parameters:
        parameter.data.add_(parameter.grad.data, alpha=-RATE)


class Loop:
    """A loop that records its losses, outputs and parameters."""

    def __init__(self, update: Callable[[Iterable[torch.Tensor]], None]) -> None:
        self.model, self.update = net(), update
        self.losses: list[float] = []
        self.outputs: list[torch.Tensor] = []
        self.weights: list[torch.Tensor] = [self.model[0].weight.detach().clone()]
        self.gradients: list[torch.Tensor] = []

    def backward(self, part: int = 0) -> None:
        output = self.model(X[part::2])
        loss = functional.cross_entropy(output, Y[part::2])
        self.outputs.append(output.detach().clone())
        self.losses.append(loss.item())
        loss.backward()

    def train(self, steps: int) -> None:
        for _ in range(steps):
            self.model.zero_grad()
            self.backward()
            self.gradients.append(self.model[0].weight.grad.clone())
            self.update(self.model.parameters())
            self.weights.append(self.model[0].weight.detach().clone())

    def evaluate(self) -> None:
        self.model.eval()
        with torch.no_grad():
            for part in range(2):
                functional.cross_entropy(self.model(X[part::2]), Y[part::2])
        self.model.train()


@pytest.mark.parametrize("update", [in_place, through_data])
def test_every_update_is_a_step(tmp_path: Path, update: Callable[[Iterable[torch.Tensor]], None]) -> None:
    bare, loop = Loop(update), Loop(update)
    torch.manual_seed(1)
    bare.train(10)
    torch.manual_seed(1)
    run = watch(tmp_path, lambda: loop.train(10), "all:every=1,raw=true,statistics=l2,update_ratio", preset="light")
    assert torch.equal(loop.weights[-1], bare.weights[-1])
    losses = scalars(run, "losses")
    assert list(losses) == ["cross_entropy_output_0"]
    first = 10 - len(losses["cross_entropy_output_0"])  # an optimizer of another test makes the first passes uncertain
    assert first == 0 or (update is through_data and first <= 3)
    captured = run.tensor("gradient/0.weight").steps()
    assert captured[-1] == 9 - first
    for step in captured:
        assert torch.equal(torch.tensor(run.tensor("gradient/0.weight").value(step)), loop.gradients[step + first])
        assert torch.equal(torch.tensor(run.tensor("0.weight").value(step)), loop.weights[step + first])
        before, after = loop.weights[step + first], loop.weights[step + first + 1]
        ratio = run.tensor("0.weight").statistic("update_ratio", step)
        assert ratio == pytest.approx(float((after - before).norm() / before.norm()), rel=1e-4)
    activations = run.tensor("Sequential_output_0")
    for step in activations.steps()[2:]:
        assert torch.equal(torch.tensor(activations.value(step)), loop.outputs[step + first])


def test_an_evaluation_is_no_train_step(tmp_path: Path) -> None:
    loop = Loop(in_place)

    def train() -> None:
        for _ in range(3):
            loop.train(3)
            loop.evaluate()

    run = watch(tmp_path, train, preset="light")
    losses = scalars(run, "losses")["cross_entropy_output_0"]
    assert losses == pytest.approx(dict(enumerate(loop.losses)))
    assert list(scalars(run, "losses", "eval")["cross_entropy_output_0"]) == list(range(6))


def test_backward_passes_without_an_update_are_micro_batches(tmp_path: Path) -> None:
    loop = Loop(in_place)
    torch.optim.SGD(loop.model.parameters(), lr=RATE)  # never steps, but makes the first passes uncertain

    def train() -> None:
        for _ in range(6):
            loop.model.zero_grad()
            for part in (0, 1, 0):
                loop.backward(part)
            in_place(loop.model.parameters())

    run = watch(tmp_path, train, "losses:every=1")
    steps = run.steps()
    counts = [run.tensor("cross_entropy_output_0").statistic("count", step) for step in steps]
    assert counts[-5:] == [3.0] * 5
    assert sum(counts) == 18


def test_tensors_without_a_module(tmp_path: Path) -> None:
    weight, bias = torch.zeros(4, 3, requires_grad=True), torch.zeros(3, requires_grad=True)
    losses: list[float] = []

    def train() -> None:
        for _ in range(6):
            loss = functional.cross_entropy(X @ weight + bias, Y)
            losses.append(loss.item())
            loss.backward()
            in_place((weight, bias))
            weight.grad = bias.grad = None

    run = watch(tmp_path, train, "losses:every=1", "gradients:every=1,statistics=l2")
    assert scalars(run, "losses") == {"loss": pytest.approx(dict(enumerate(losses)))}
    assert len(run.tensor_names(collection="gradients")) == 2


def test_two_losses_of_one_forward_pass_are_one_step(tmp_path: Path) -> None:
    model = net()

    def train() -> None:
        for _ in range(6):
            model.zero_grad()
            output = model(X)
            first, second = functional.cross_entropy(output, Y), output.square().mean()
            first.backward(retain_graph=True)
            second.backward()
            in_place(model.parameters())

    run = watch(tmp_path, train, "losses:every=1")
    assert {name: list(values) for name, values in scalars(run, "losses").items()} == {
        "cross_entropy_output_0": list(range(6)),
        "loss": list(range(6)),
    }


def test_attributions_are_no_steps(tmp_path: Path) -> None:
    model = net().eval()

    def attribute() -> None:
        for _ in range(8):
            inputs = X.clone().requires_grad_()
            model.zero_grad()
            model(inputs).sum().backward()

    assert watch(tmp_path, attribute, preset="light").steps() == []


def test_an_optimizer_that_steps_owns_the_clock(tmp_path: Path) -> None:
    model = net()
    optimizer = torch.optim.SGD(model.parameters(), lr=RATE)

    def train() -> None:
        for _ in range(2):  # a warm-up
            functional.cross_entropy(model(X), Y).backward()
            optimizer.zero_grad()
        for _ in range(5):
            for _ in range(4):
                (functional.cross_entropy(model(X), Y) / 4).backward()
            optimizer.step()
            optimizer.zero_grad()

    run = watch(tmp_path, train, preset="light")
    assert run.steps() == list(range(5))
    assert next(iter(run.worker_documents().values())).optimizers == ("SGD",)


def test_weights_that_are_moved_for_a_second_backward_pass_are_no_step(tmp_path: Path) -> None:
    model = net()
    optimizer = torch.optim.SGD(model.parameters(), lr=RATE)

    def train() -> None:
        for _ in range(4):  # as sharpness-aware minimization does
            functional.cross_entropy(model(X), Y).backward()
            moved = [0.01 * parameter.grad for parameter in model.parameters()]
            with torch.no_grad():
                for parameter, by in zip(model.parameters(), moved, strict=True):
                    parameter += by
            optimizer.zero_grad()
            functional.cross_entropy(model(X), Y).backward()
            with torch.no_grad():
                for parameter, by in zip(model.parameters(), moved, strict=True):
                    parameter -= by
            optimizer.step()
            optimizer.zero_grad()

    run = watch(tmp_path, train, preset="light")
    assert run.steps() == list(range(4))
    assert next(iter(run.worker_documents().values())).optimizers == ("SGD",)
    assert run.trainings() == (0,)


def test_updates_of_weights_that_an_optimizer_holds_but_never_steps_are_steps(tmp_path: Path) -> None:
    loop = Loop(in_place)
    torch.optim.SGD(loop.model.parameters(), lr=RATE)
    optimizer = torch.optim.Adam(loop.model.parameters(), lr=RATE)
    run = watch(tmp_path, lambda: loop.train(6), "losses:every=1")
    assert scalars(run, "losses")["cross_entropy_output_0"] == pytest.approx(dict(enumerate(loop.losses)))
    assert not optimizer.state


def test_a_forgotten_step_does_not_hide_the_training(tmp_path: Path) -> None:
    model = net()
    optimizer = torch.optim.SGD(model.parameters(), lr=RATE)

    def train() -> None:
        for _ in range(12):
            optimizer.zero_grad()
            functional.cross_entropy(model(X), Y).backward()

    run = watch(tmp_path, train, "weights:every=1,statistics=update_ratio", "losses:every=1")
    assert len(run.steps()) >= 8
    ratios = run.tensor("0.weight").statistics("update_ratio").to_pylist()
    assert {row["value"] for row in ratios} == {0.0}


def test_a_second_model_that_appears_later_is_found(tmp_path: Path) -> None:
    run_models = [net(), nn.Linear(4, 3)]

    def train() -> None:
        for index in range(2):
            model = run_models[0]
            for _ in range(4):
                functional.cross_entropy(model(X), Y).backward()
                in_place(model.parameters())
                model.zero_grad()
            if index == 0:
                del model
                del run_models[0]

    run = watch(tmp_path, train, "losses:every=1", "gradients:every=1,statistics=l2")
    assert run.steps() == list(range(8))
    assert "gradient/weight" in run.tensor_names(collection="gradients")
