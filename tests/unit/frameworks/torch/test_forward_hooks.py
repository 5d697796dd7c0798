"""Inputs and outputs of modules: names, collections and values are correct, and no hook remains."""

from __future__ import annotations

import copy
import pickle
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from hooked_run import watch
from torch import nn
from torch.nn.modules import module as torch_module
from torch.utils.checkpoint import checkpoint


class Net(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.block = nn.Sequential(nn.Linear(4, 5), nn.ReLU(inplace=True))
        self.act = nn.Tanh()
        self.head = nn.Linear(5, 3)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.head(self.act(self.act(self.block(x))))


def train(model: nn.Module, steps: int = 3, loss: Callable[..., torch.Tensor] | None = None) -> None:
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    measure = loss or nn.CrossEntropyLoss()
    for step in range(steps):
        generator = torch.Generator().manual_seed(step)
        optimizer.zero_grad()
        measure(model(torch.randn(6, 4, generator=generator)), torch.arange(6) % 3).backward()
        optimizer.step()


def test_names_and_collections(tmp_path: Path) -> None:
    run = watch(tmp_path, lambda: train(Net()), "layers:every=1")
    assert run.tensor_names(collection="relu_input") == ["block.1_input_0"]
    assert run.tensor_names(collection="relu_output") == ["block.1_output_0"]
    assert run.tensor_names(collection="tanh_output") == ["act_output_0", "act_output_1"]
    assert run.tensor_names(collection="inputs") == ["Net_input_0"]
    assert run.tensor_names(collection="outputs") == ["Net_output_0"]
    assert run.tensor_names(collection="predictions") == ["CrossEntropyLoss_input_0"]
    assert run.tensor_names(collection="labels") == ["CrossEntropyLoss_input_1"]
    assert "CrossEntropyLoss_output_0" in run.tensor_names(collection="layers")
    assert run.steps() == [0, 1, 2]


def test_values_are_captured_before_in_place_changes(tmp_path: Path) -> None:
    outputs: list[np.ndarray] = []
    model = Net()

    class Recording(nn.Linear):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            out = super().forward(x)
            outputs.append(out.detach().numpy().copy())
            return out

    model.block[0] = Recording(4, 5)
    run = watch(tmp_path, lambda: train(model), "layers:regex=block,every=1,raw=true,statistics=min,mean,zero_ratio")
    linear, relu = run.tensor("block.0_output_0"), run.tensor("block.1_output_0")
    for step in range(3):
        np.testing.assert_array_equal(linear.value(step), outputs[step])
        np.testing.assert_array_equal(relu.value(step), np.maximum(outputs[step], 0))
        assert linear.statistic("min", step) == pytest.approx(outputs[step].min())
        assert relu.statistic("zero_ratio", step) == pytest.approx((outputs[step] <= 0).mean())


def test_hooks_exist_only_at_scheduled_steps(tmp_path: Path) -> None:
    has_hooks: list[bool] = []

    class Recording(Net):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            has_hooks.append(bool(torch_module._global_forward_hooks))
            pickle.dumps(self.block)
            copy.deepcopy(self.block)
            return super().forward(x)

    run = watch(tmp_path, lambda: train(Recording(), 7), "layers:every=3")
    assert has_hooks == [True, True, False, True, False, False, True]  # step 1 is hooked to learn the losses' names
    assert run.steps() == [0, 3, 6]


class Observed(Net):
    """Notes what is observed within its calls, and what it would be saved with."""

    def __init__(self, *, computes_loss: bool = False) -> None:
        super().__init__()
        self.computes_loss = computes_loss

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        seen_inside.append((bool(torch_module._global_forward_hooks), torch._C._len_torch_function_stack() > 0))
        assert not pickle.loads(pickle.dumps(self))._forward_hooks or len(seen_inside) > 2
        copy.deepcopy(self)
        out = super().forward(x)
        return nn.functional.mse_loss(out, torch.zeros_like(out)) if self.computes_loss else out


seen_inside: list[tuple[bool, bool]] = []


@pytest.mark.parametrize(
    ("what", "computes_loss", "inside"),
    [
        ("outputs:every=1", False, (False, False)),
        ("outputs:every=1", True, (False, True)),  # the loss that it computes has a name, and its labels are captured
        ("conv2d_output:every=1", False, (False, False)),  # it has none
        ("linear_output:every=1", False, (True, True)),
        ("relu_input:every=1", False, (True, True)),
        ("layers:every=1", False, (True, True)),
    ],
)
def test_what_is_not_captured_inside_a_model_is_not_observed(
    tmp_path: Path, what: str, computes_loss: bool, inside: tuple[bool, bool]
) -> None:
    seen_inside.clear()
    model = Observed(computes_loss=computes_loss)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)

    def steps() -> None:
        for _ in range(5):
            optimizer.zero_grad()
            model(torch.ones(2, 4)).sum().backward()
            optimizer.step()

    run = watch(tmp_path, steps, what, "labels:every=1", "losses:every=1")
    expected = [(True, True)] * 2 + [inside] * 3
    assert expected == seen_inside  # two calls show what is inside
    assert not model._forward_hooks
    assert run.steps() == list(range(5))
    names = run.tensor_names()
    if "outputs" in what:
        assert "Observed_output_0" in names
    assert ("Observed_mse_loss_input_1" in names or "mse_loss_input_1" in names) == computes_loss


def test_a_call_that_fails_leaves_no_hook_on_its_model(tmp_path: Path) -> None:
    model = Net()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    left: list[int] = []

    def steps() -> None:
        for step in range(6):
            if step == 3:
                with pytest.raises(RuntimeError):
                    model(torch.ones(2, 5))
                left.append(len(model._forward_hooks))
            optimizer.zero_grad()
            model(torch.ones(2, 4)).sum().backward()
            optimizer.step()

    run = watch(tmp_path, steps, "outputs:every=1")
    assert left == [0]
    assert run.steps() == [0, 1, 2, 4, 5]  # the first call of a step is captured


def test_micro_batches_beyond_the_first_are_not_captured(tmp_path: Path) -> None:
    def accumulate() -> None:
        model = Net()
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        for _ in range(2):
            for _ in range(3):
                model(torch.ones(2, 4)).sum().backward()
            optimizer.step()

    assert watch(tmp_path, accumulate, "outputs:every=1").tensor_names() == ["Net_output_0"]


@pytest.mark.parametrize("is_reentrant", [True, False])
def test_recomputation_is_not_a_forward_pass(tmp_path: Path, is_reentrant: bool) -> None:
    class Saving(Net):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            x.requires_grad_()
            return self.head(checkpoint(self.block, x, use_reentrant=is_reentrant))

    run = watch(tmp_path, lambda: train(Saving()), "layers:every=1")
    assert run.tensor_names(collection="relu_output") == ["block.1_output_0"]


def test_nested_containers_are_searched(tmp_path: Path) -> None:
    @dataclass
    class Output:
        logits: torch.Tensor
        hidden: tuple[torch.Tensor, ...]
        name: str = "x"

    class Rich(Net):
        def forward(self, x: torch.Tensor) -> Any:
            hidden = self.block(x)
            return {"a": Output(self.head(hidden), (hidden, hidden + 1)), "none": None, "list": [hidden * 2]}

    run = watch(
        tmp_path,
        lambda: train(Rich(), loss=lambda out, labels: out["a"].logits.sum()),
        "outputs:every=1,statistics=mean",
    )
    assert run.tensor_names() == [f"Rich_output_{index}" for index in range(4)]


def test_evaluation_is_not_captured_as_training(tmp_path: Path) -> None:
    def train_and_evaluate() -> None:
        model = Net()
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        model.eval()
        with torch.no_grad():
            model(torch.ones(1, 4))
        model.train()
        model(torch.ones(2, 4)).sum().backward()
        optimizer.step()

    run = watch(tmp_path, train_and_evaluate, "outputs:every=1")
    assert run.tensor("Net_output_0").steps() == [0]


def test_an_error_in_the_forward_pass_does_not_affect_the_next(tmp_path: Path) -> None:
    class Faulty(Net):
        fails = True

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            hidden = self.block(x)
            if self.fails:
                raise RuntimeError("planted")
            return self.head(hidden)

    def train_on() -> None:
        model = Faulty()
        with pytest.raises(RuntimeError, match="planted"):
            model(torch.ones(2, 4))
        model.fails = False
        train(model)

    run = watch(tmp_path, train_on, "layers:every=1")
    assert run.tensor("head_output_0").steps() == [0, 1, 2]  # the pass that failed is none of step 0
    assert run.steps() == [0, 1, 2]


def test_training_stays_bit_identical(tmp_path: Path) -> None:
    def weights() -> list[list[float]]:
        torch.manual_seed(0)
        layer = nn.TransformerEncoderLayer(8, 2, 16, dropout=0.3, batch_first=True)
        model = nn.Sequential(nn.Linear(4, 8), nn.Unflatten(1, (1, 8)), layer, nn.Flatten(), nn.Linear(8, 3))
        train(model, 8)
        return [parameter.flatten().tolist() for parameter in model.parameters()]

    without_hook = weights()
    with_hook: list[Any] = []
    watch(tmp_path, lambda: with_hook.append(weights()), "layers:every=3,raw=true", "all:every=2")
    assert with_hook == [without_hook]


def test_optimizer_hyperparameters_are_captured(tmp_path: Path) -> None:
    def decaying() -> None:
        model = Net()
        groups = [{"params": model.block.parameters()}, {"params": model.head.parameters(), "lr": 0.5}]
        optimizer = torch.optim.AdamW(groups, lr=0.1)
        schedule = torch.optim.lr_scheduler.ExponentialLR(optimizer, 0.5)
        for _ in range(3):
            model(torch.ones(2, 4)).sum().backward()
            optimizer.step()
            schedule.step()

    run = watch(tmp_path, decaying, "hyperparameters:every=1")
    assert [run.tensor("AdamW/lr").statistic("value", step) for step in range(3)] == pytest.approx([0.1, 0.05, 0.025])
    assert run.tensor("AdamW/group1/lr").statistic("value", 0) == 0.5
    assert run.tensor("AdamW/betas_1").statistic("value", 0) == pytest.approx(0.999)
    assert set(run.tensor_names(collection="hyperparameters")) >= {"AdamW/lr", "AdamW/weight_decay"}


def test_no_hooks_after_torch_compile_of_a_function(tmp_path: Path) -> None:
    def compiled() -> None:
        model = Net()
        torch.compile(lambda inputs: model(inputs), backend="eager")
        assert not torch_module._global_forward_hooks
        train(model)

    run = watch(tmp_path, compiled, "layers:every=1", "losses:every=1")
    assert run.tensor_names(collection="layers") == []
    (document,) = run.worker_documents().values()
    assert any("torch.compile" in note for note in document.notes)


def test_custom_collections(tmp_path: Path) -> None:
    chosen = ("heads:regex=head,every=2", "first-block:modules=^block,every=1,statistics=l2")
    run = watch(tmp_path, lambda: train(Net(), 3), *chosen)
    heads = run.tensor_names(collection="heads")
    assert sorted(heads) == [
        "gradient/head.bias",
        "gradient/head.weight",
        "head.bias",
        "head.weight",
        "head_input_0",
        "head_output_0",
    ]
    blocks = run.tensor_names(collection="first-block")
    parameters = ["block.0.bias", "block.0.weight"]
    activations = [f"{name}_{side}_0" for name in ("block.0", "block.1", "block") for side in ("input", "output")]
    assert sorted(blocks) == sorted([*parameters, *(f"gradient/{name}" for name in parameters), *activations])
    assert run.tensor("head.weight").steps() == [0, 2]
    assert run.tensor("block.0.weight").statistic_names() == ["l2"]


@pytest.mark.parametrize("is_kept", [False, True])
@pytest.mark.parametrize("has_gradients", [False, True])
@pytest.mark.parametrize("count", [1, 2])
def test_calls_before_the_training_are_no_pass_of_it(
    tmp_path: Path, count: int, *, has_gradients: bool, is_kept: bool
) -> None:
    model = Net()
    outputs: list[torch.Tensor] = []
    kept: list[torch.Tensor] = []

    def train_on() -> None:
        for _ in range(count):
            with torch.set_grad_enabled(has_gradients):
                out = model(torch.full((2, 4), 7.0))
                nn.functional.cross_entropy(out, torch.tensor([0, 1]))
                if is_kept:
                    kept.append(out)
        model.register_forward_hook(lambda module, args, output: outputs.append(output.detach().clone()))
        train(model, loss=nn.functional.cross_entropy)

    run = watch(tmp_path, train_on, "layers:every=1,raw=true,statistics=mean", "losses:every=1")
    for step in range(3):
        assert torch.equal(torch.tensor(run.tensor("Net_output_0").value(step)), outputs[step])
    assert run.tensor_names(collection="losses") == ["cross_entropy_output_0"]
    assert run.tensor_names(collection="predictions") == ["cross_entropy_input_0"]
    assert run.tensor("cross_entropy_input_0").steps() == [0, 1, 2]


def test_of_two_calls_in_one_step_the_first_is_captured_at_every_step(tmp_path: Path) -> None:
    critic, other = nn.Linear(4, 1), nn.Linear(1, 1)
    optimizer = torch.optim.SGD([*critic.parameters(), *other.parameters()], lr=0.1)
    measure = nn.MSELoss()
    real: list[torch.Tensor] = []

    def train_on() -> None:
        for step in range(3):
            optimizer.zero_grad()
            on_real, on_fake = critic(torch.full((3, 4), float(step))), critic(torch.full((3, 4), 9.0))
            real.append(on_real.detach().clone())
            (measure(on_real, torch.ones(3, 1)) + measure(other(on_fake), torch.zeros(3, 1))).backward()
            optimizer.step()

    run = watch(tmp_path, train_on, "layers:every=1,raw=true,statistics=mean")
    names = run.tensor_names(collection="layers")
    assert {name: run.tensor(name).steps() for name in names} == {name: [0, 1, 2] for name in names}
    assert len(run.tensor_names(collection="mseloss_input")) == 4
    (name,) = run.tensor_names(collection="outputs", regex="^Linear_output_0$")
    for step in range(3):
        assert torch.equal(torch.tensor(run.tensor(name).value(step)), real[step])


@pytest.mark.parametrize("is_evaluating", [False, True])
def test_tensors_without_values_are_not_captured(tmp_path: Path, *, is_evaluating: bool) -> None:
    """Keras calls a model with meta tensors to learn the shapes of its outputs and losses."""

    class Symbolic(Net):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            if x.is_meta:
                return torch.empty(x.shape[0], 3, device="meta")
            return super().forward(x)

    model = Symbolic()

    def call() -> None:
        model.train(not is_evaluating)
        with torch.set_grad_enabled(not is_evaluating):
            out = model(torch.empty(6, 4, device="meta"))
            nn.functional.cross_entropy(out, torch.zeros(6, dtype=torch.long, device="meta"))
            nn.CrossEntropyLoss()(out, torch.zeros(6, dtype=torch.long, device="meta"))
        model.train()

    def train_on() -> None:
        call()
        train(model, 2)
        call()
        train(model, 2)

    run = watch(tmp_path, train_on, "layers:every=1", "losses:every=1", "metrics:every=1", preset="light")
    assert run.tensor("Symbolic_output_0").steps() == [0, 1, 2, 3]
    assert run.tensor_names(collection="losses") == ["CrossEntropyLoss_output_0"]
    (document,) = run.worker_documents().values()
    assert document.steps["train"] == 4
    assert document.notes == ()
