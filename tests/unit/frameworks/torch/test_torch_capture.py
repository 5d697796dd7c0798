"""Capture of typical PyTorch trainings: steps, names and values are correct."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
import torch
from hooked_run import watch
from torch import nn
from torch.optim import optimizer as torch_optimizer

import leadline
import leadline.torch

EVERY = ("losses:every=1", "gradients:every=1", "weights:every=1", "biases:every=1")


def loss_of(model: nn.Module, seed: int = 0) -> torch.Tensor:
    generator = torch.Generator().manual_seed(seed)
    inputs = torch.randn(8, 4, generator=generator)
    return model(inputs).pow(2).mean()


def small() -> nn.Module:
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(4, 5), nn.ReLU(), nn.Linear(5, 2))


def test_losses_gradients_and_weights_are_those_of_the_step(tmp_path: Path) -> None:
    model = small()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    expected_steps: list[dict[str, float]] = []

    def train() -> None:
        for step in range(4):
            optimizer.zero_grad()
            loss = loss_of(model, step)
            loss.backward()
            weight, gradient = model[0].weight, model[0].weight.grad
            before = weight.detach().clone()
            expected_steps.append({"loss": loss.item(), "l2": gradient.norm().item(), "max": weight.max().item()})
            optimizer.step()
            expected_steps[-1]["update"] = ((weight.detach() - before).norm() / before.norm()).item()

    run = watch(tmp_path, train, *EVERY)
    assert run.steps() == [0, 1, 2, 3]
    names = ["0.bias", "0.weight", "2.bias", "2.weight"]
    gradients = [f"gradient/{name}" for name in names]
    assert sorted(run.tensor_names()) == sorted(["loss", "gradient_norm", *names, *gradients])
    for step, expected in enumerate(expected_steps):
        assert run.tensor("loss").statistic("value", step) == pytest.approx(expected["loss"])
        assert run.tensor("gradient/0.weight").statistic("l2", step) == pytest.approx(expected["l2"], rel=1e-5)
        assert run.tensor("0.weight").statistic("max", step) == pytest.approx(expected["max"])
        assert run.tensor("0.weight").statistic("update_ratio", step) == pytest.approx(expected["update"], rel=1e-4)


def test_raw_tensors_are_those_of_the_step(tmp_path: Path) -> None:
    model = small().to(torch.bfloat16)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    expected_steps = []

    def train() -> None:
        for step in range(6):
            model(torch.ones(3, 4, dtype=torch.bfloat16)).float().pow(2).mean().backward()
            expected_steps.append((model[0].weight.detach().clone(), model[0].weight.grad.clone()))
            optimizer.step()
            optimizer.zero_grad(set_to_none=step % 2 == 0)

    run = watch(tmp_path, train, "weights:raw=true,every=2", "gradients:raw=true,every=2")
    assert run.tensor("0.weight").steps() == [0, 2, 4]
    for step in (0, 2, 4):
        weight, gradient = expected_steps[step]
        np.testing.assert_array_equal(run.tensor("0.weight").value(step), weight.float().numpy())
        np.testing.assert_array_equal(run.tensor("gradient/0.weight").value(step), gradient.float().numpy())


def test_micro_batches_are_one_loss_and_one_step(tmp_path: Path) -> None:
    model = small()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    values: list[float] = []

    def train() -> None:
        for step in range(2):
            optimizer.zero_grad()
            for part in range(4):
                loss = loss_of(model, 4 * step + part)
                values.append(loss.item())
                loss.backward()
            optimizer.step()

    run = watch(tmp_path, train, *EVERY)
    assert run.steps() == [0, 1]
    loss = run.tensor("loss")
    assert [loss.statistic("value", step) for step in (0, 1)] == pytest.approx(
        [np.mean(values[:4]), np.mean(values[4:])]
    )
    assert loss.statistic("count", 0) == 4


def test_losses_of_two_call_sites_have_two_names(tmp_path: Path) -> None:
    model = small()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)

    def train() -> None:
        loss_of(model, 0).backward()
        (10 * loss_of(model, 1)).backward()
        optimizer.step()

    run = watch(tmp_path, train, *EVERY)
    assert run.tensor_names(collection="losses") == ["loss", "loss_1"]


def test_other_backward_calls_are_not_losses(tmp_path: Path) -> None:
    model = small()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)

    def train() -> None:
        inputs = torch.ones(3, 4, requires_grad=True)
        torch.autograd.grad(model(inputs).sum(), inputs)  # as for a gradient penalty
        output = model(inputs)
        output.backward(torch.ones_like(output))  # a vector with a given gradient
        optimizer.step()

    assert watch(tmp_path, train, *EVERY).tensor_names(collection="losses") == []


def test_frozen_and_unused_parameters_have_no_gradients(tmp_path: Path) -> None:
    model = nn.ModuleDict({"used": nn.Linear(4, 2), "unused": nn.Linear(4, 2), "frozen": nn.Linear(4, 4)})
    model["frozen"].requires_grad_(False)
    trained = [parameter for parameter in model.parameters() if parameter.requires_grad]
    optimizer = torch.optim.SGD(trained, lr=0.1)

    def train() -> None:
        for _ in range(2):
            model["used"](model["frozen"](torch.ones(3, 4))).sum().backward()
            optimizer.step()

    run = watch(tmp_path, train, *EVERY)
    assert sorted(run.tensor_names(collection="gradients")) == ["gradient/used.bias", "gradient/used.weight"]
    assert "frozen.weight" in run.tensor_names(collection="weights")
    assert "update_ratio" not in run.tensor("frozen.weight").statistic_names()
    assert "unused.weight" in run.tensor_names(collection="weights")


@pytest.mark.parametrize("is_new_optimizer", [False, True])
def test_a_gradient_from_before_its_parameter_was_frozen_is_none(tmp_path: Path, is_new_optimizer: bool) -> None:
    model = nn.ModuleDict({"features": nn.Linear(4, 4), "head": nn.Linear(4, 2)})
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)

    def train() -> None:
        used = optimizer
        for step in range(6):
            if step == 3:
                model["features"].requires_grad_(False)
                used = torch.optim.SGD(model["head"].parameters(), lr=0.1) if is_new_optimizer else used
            model["head"].zero_grad()
            model["head"](model["features"](torch.ones(3, 4))).sum().backward()
            used.step()
        assert model["features"].weight.grad is not None

    run = watch(tmp_path, train, *EVERY)
    assert max(run.tensor("gradient/features.weight").steps()) == 2
    assert max(run.tensor("gradient/head.weight").steps()) > 2


def test_gradients_of_closures_are_captured_after_the_first_evaluation(tmp_path: Path) -> None:
    model = small()
    optimizer = torch.optim.LBFGS(model.parameters(), max_iter=4)
    first: list[float] = []

    def train() -> None:
        for step in range(3):
            calls = []

            def closure(step: int = step, calls: list[int] = calls) -> torch.Tensor:
                optimizer.zero_grad()
                loss = loss_of(model, step)
                loss.backward()
                if not calls:
                    first.append(model[0].weight.grad.norm().item())
                calls.append(1)
                return loss

            optimizer.step(closure)

    run = watch(tmp_path, train, *EVERY)
    assert run.steps() == [0, 1, 2]
    norms = [run.tensor("gradient/0.weight").statistic("l2", step) for step in range(3)]
    assert norms == pytest.approx(first, rel=1e-5)


def test_models_with_the_same_parameter_names_get_their_class_as_prefix(tmp_path: Path) -> None:
    class Generator(nn.Sequential): ...

    class Critic(nn.Sequential): ...

    generator, critic = Generator(nn.Linear(4, 4)), Critic(nn.Linear(4, 1))
    both = [torch.optim.SGD(network.parameters(), lr=0.1) for network in (critic, generator)]

    def train() -> None:
        for _ in range(3):
            critic(generator(torch.ones(2, 4)).detach()).sum().backward()
            both[0].step()
            critic(generator(torch.ones(2, 4))).sum().backward()
            both[1].step()

    run = watch(tmp_path, train, *EVERY)
    weights = run.tensor_names(collection="weights")
    assert sorted(weights) == ["Critic_0.weight", "Generator_0.weight"]
    assert run.steps(mode="train") == [0, 1, 2, 3]  # the generator's last step belongs to the unfinished step
    documents = list(run.worker_documents().values())
    assert documents[0].steps == {"train": 3}


def test_a_step_skipped_by_the_scaler_is_a_step(tmp_path: Path) -> None:
    model = small()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    scaler = torch.amp.GradScaler("cpu", init_scale=1024.0)
    losses: list[float] = []

    def train() -> None:
        for step in range(3):
            optimizer.zero_grad()
            loss = loss_of(model, step)
            losses.append(loss.item())
            scaler.scale(loss).backward()
            if step == 1:
                model[0].weight.grad[0, 0] = float("inf")
            scaler.step(optimizer)
            scaler.update()

    run = watch(tmp_path, train, *EVERY)
    assert run.steps() == [0, 1, 2]
    assert [run.tensor("loss").statistic("value", step) for step in range(3)] == pytest.approx(losses)
    gradient = run.tensor("gradient/0.weight")
    assert [gradient.statistic("nonfinite_count", step) for step in range(3)] == [0, 1, 0]
    events = run.timeline().to_pylist()
    assert [event["step"] for event in events if event["name"] == "step_skipped"] == [1]


def test_nested_steps_count_as_one(tmp_path: Path) -> None:
    class Careful(torch.optim.SGD):
        @torch.no_grad()
        def step(self, closure=None):
            return super().step(closure)

    model = small()
    optimizer = Careful(model.parameters(), lr=0.1)

    def train() -> None:
        for step in range(3):
            loss_of(model, step).backward()
            optimizer.step()

    assert watch(tmp_path, train, *EVERY).steps() == [0, 1, 2]


def test_a_step_that_raises_does_not_stop_the_clock(tmp_path: Path) -> None:
    class Faulty(torch.optim.SGD):
        fails = False

        def step(self, closure=None):
            if self.fails:
                raise RuntimeError("planted")
            return super().step(closure)

    model = small()
    optimizer = Faulty(model.parameters(), lr=0.1)

    def train() -> None:
        for step in range(4):
            loss_of(model, step).backward()
            optimizer.fails = step == 1
            try:
                optimizer.step()
            except RuntimeError:
                continue

    assert watch(tmp_path, train, *EVERY).steps() == [0, 1, 2]


def test_a_new_model_continues_the_clock_and_names_of_a_deleted_one(tmp_path: Path) -> None:
    def train() -> None:
        for fold in range(3):
            model = small()
            optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
            for step in range(2):
                loss_of(model, fold + step).backward()
                optimizer.step()
            model.itself = [model]  # a cycle: the model is not deleted at once

    run = watch(tmp_path, train, *EVERY)
    assert run.steps() == [0, 1, 2, 3, 4, 5]
    assert sorted(run.tensor_names(collection="weights")) == ["0.weight", "2.weight"]


def test_a_parameter_group_added_later_is_captured(tmp_path: Path) -> None:
    model = nn.Sequential(nn.Linear(4, 4), nn.Linear(4, 2))
    optimizer = torch.optim.SGD(model[1].parameters(), lr=0.1)

    def train() -> None:
        for step in range(4):
            if step == 2:
                optimizer.add_param_group({"params": list(model[0].parameters())})
            loss_of(model, step).backward()
            optimizer.step()

    run = watch(tmp_path, train, *EVERY)
    assert run.tensor("gradient/1.weight").steps() == [0, 1, 2, 3]
    assert run.tensor("gradient/0.weight").steps() == [2, 3]


def test_sparse_gradients_have_statistics_but_no_raw_tensors(tmp_path: Path) -> None:
    model = nn.Sequential(nn.Embedding(10, 3, sparse=True))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)

    def train() -> None:
        model(torch.tensor([1, 1, 4])).sum().backward()
        optimizer.step()

    run = watch(tmp_path, train, *EVERY, "gradients:raw=true,every=1")
    gradient = run.tensor("gradient/0.weight")
    assert gradient.statistic("sum", 0) == pytest.approx(9.0)
    assert gradient.statistic("zero_ratio", 0) == pytest.approx(0.8)
    (document,) = run.worker_documents().values()
    assert any("gradient/0.weight is not stored" in note for note in document.notes)


def test_logged_values_are_captured(tmp_path: Path) -> None:
    model = small()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)

    def train() -> None:
        for step in range(3):
            leadline.log(accuracy=step / 10, depth=torch.tensor(step))
            loss_of(model, step).backward()
            optimizer.step()
        leadline.log({"final/score": 1})

    run = watch(tmp_path, train, *EVERY)
    assert run.tensor("accuracy").statistic("value", 2) == pytest.approx(0.2)
    assert run.tensor("final/score").statistic("value", 2) == 1.0
    assert sorted(run.tensor_names(collection="scalars")) == ["accuracy", "depth", "final/score"]


def test_nothing_is_left_in_the_framework_or_in_the_users_objects(tmp_path: Path) -> None:
    import copy
    import pickle

    before = (torch.autograd._engine_run_backward, torch.amp.GradScaler.step, torch.amp.GradScaler.scale)
    model = small()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    attributes = {id(module): sorted(vars(module)) for module in model.modules()}

    def train() -> None:
        loss_of(model).backward()
        optimizer.step()
        pickle.dumps(model)
        copy.deepcopy(model)
        assert {id(module): sorted(vars(module)) for module in model.modules()} == attributes

    watch(tmp_path, train, *EVERY)
    assert before == (torch.autograd._engine_run_backward, torch.amp.GradScaler.step, torch.amp.GradScaler.scale)
    assert not torch_optimizer._global_optimizer_pre_hooks
    assert not torch_optimizer._global_optimizer_post_hooks


def test_statistics_that_fail_end_alone_and_the_training_continues(tmp_path: Path, monkeypatch) -> None:
    def fail(*args: object) -> None:
        raise ZeroDivisionError("planted")

    monkeypatch.setattr("leadline.frameworks.torch.capture.device_copy.device_statistics", fail)

    def train() -> str:
        model = small()
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        for step in range(5):
            loss_of(model, step).backward()
            optimizer.step()
        return json.dumps([parameter.tolist() for parameter in model.parameters()])

    without_hook = train()
    hook = leadline.torch.Hook(out=str(tmp_path), name="run", preset=None, capture=EVERY)
    with_hook = train()
    hook.close()
    assert with_hook == without_hook
    (document,) = leadline.open_run(hook.run).worker_documents().values()
    assert document.off is None
    assert all(
        note.partition(" not captured from step 0 on: ")[2].startswith("ZeroDivisionError: planted (")
        for note in document.notes
    )
    assert document.notes
    (loss,) = leadline.open_run(hook.run).tensor_names(collection="losses")
    assert leadline.open_run(hook.run).tensor(loss).steps() == list(range(5))


def test_a_disabled_hook_writes_nothing(tmp_path: Path, monkeypatch) -> None:
    monkeypatch.setenv("LEADLINE_DISABLED", "1")
    hook = leadline.torch.Hook(out=str(tmp_path))
    assert hook.close()
    assert list(tmp_path.iterdir()) == []
