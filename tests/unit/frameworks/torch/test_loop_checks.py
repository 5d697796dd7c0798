"""Checks of the training loop: stale gradients, modules in the wrong mode, parameters without an optimizer."""

from __future__ import annotations

import gc
import threading
from collections.abc import Callable
from pathlib import Path

import pytest
import torch
import torch.nn.functional as F
from hooked_run import scalars, watch
from torch import nn

from leadline.frameworks.torch.diagnose.stale_gradients import StaleGradients

STEPS = 6


def small() -> nn.Module:
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(4, 5), nn.Dropout(0.5), nn.Linear(5, 2))


def check_values(folder: Path, train: Callable[[], None]) -> dict[str, list[float]]:
    run = watch(folder, train, "checks:every=1")
    return {
        name: [values[step] for step in sorted(values)]
        for name, values in scalars(run, "checks").items()
        if not name.startswith("process/")
    }


def loop(
    model: nn.Module, optimizer: torch.optim.Optimizer, reset: Callable[[], None], micro_batches: int = 1
) -> Callable[[], None]:
    def train() -> None:
        for _ in range(STEPS):
            reset()
            for _ in range(micro_batches):
                model(torch.randn(3, 4)).square().mean().backward()
            optimizer.step()

    return train


@pytest.mark.parametrize("micro_batches", [1, 3])
@pytest.mark.parametrize(
    "reset",
    [
        lambda optimizer, model: optimizer.zero_grad(),
        lambda optimizer, model: optimizer.zero_grad(set_to_none=False),
        lambda optimizer, model: model.zero_grad(),
        lambda optimizer, model: [p.grad.zero_() for p in model.parameters() if p.grad is not None],
        lambda optimizer, model: [setattr(p, "grad", None) for p in model.parameters()],
    ],
)
def test_gradients_reset_in_any_way_are_not_stale(tmp_path: Path, reset, micro_batches: int) -> None:
    model = small()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    values = check_values(tmp_path, loop(model, optimizer, lambda: reset(optimizer, model), micro_batches))
    assert values["SGD/steps_without_zero_grad"] == [0.0] * (STEPS - 1)


def test_adapters_of_a_model_that_has_nothing_to_train(tmp_path: Path) -> None:
    """An adapter that was loaded for inference leaves a trainer's optimizer without parameters."""
    model = small()
    model[0].lora_A = nn.Linear(4, 2, bias=False)  # type: ignore[index]
    model.requires_grad_(False)
    optimizer = torch.optim.AdamW([{"params": []}, {"params": []}])

    def train() -> None:
        for _ in range(STEPS):
            model(torch.randn(3, 4, requires_grad=True)).square().mean().backward()
            optimizer.step()

    values = check_values(tmp_path, train)
    assert values["Sequential/adapters"] == values["Sequential/frozen_adapters"] == [1.0]


@pytest.mark.parametrize("micro_batches", [1, 3])
def test_gradients_that_are_never_reset_are_counted(tmp_path: Path, micro_batches: int) -> None:
    model = small()
    optimizer = torch.optim.AdamW(model.parameters())
    values = check_values(tmp_path, loop(model, optimizer, lambda: None, micro_batches))
    assert values["AdamW/steps_without_zero_grad"] == [1.0, 2.0, 3.0, 4.0, 5.0]


def test_a_count_goes_on_between_captured_steps_while_gradients_are_stale(tmp_path: Path) -> None:
    model = small()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)

    def train() -> None:
        for step in range(40):
            if step < 8 or step >= 25:
                optimizer.zero_grad()
            model(torch.randn(3, 4)).square().mean().backward()
            optimizer.step()

    run = watch(tmp_path, train, "checks:every=10")
    counts = scalars(run, "checks")["SGD/steps_without_zero_grad"]
    assert counts == {10: 0.0, 20: 10.0, 30: 0.0}  # step 10 is captured, step 11 the first that is found stale


def test_steps_between_captured_ones_are_not_inspected(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    model = small()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    calls: list[str] = []
    for name in ("before_backward", "before_update", "after_update"):
        original = getattr(StaleGradients, name)

        def observed(self: StaleGradients, *args: object, name: str = name, original=original, **kwargs: object):
            calls.append(name)
            return original(self, *args, **kwargs)

        monkeypatch.setattr(StaleGradients, name, observed)

    def train() -> None:
        for _ in range(9):
            optimizer.zero_grad()
            model(torch.randn(3, 4)).square().mean().backward()
            optimizer.step()

    watch(tmp_path, train, "checks:every=100")
    assert calls == ["after_update", "before_backward", "before_update"]


@pytest.mark.parametrize("to_none", [True, False])
@pytest.mark.parametrize("is_frozen", [True, False])
def test_two_alternating_networks_are_distinguished(tmp_path: Path, to_none: bool, is_frozen: bool) -> None:
    """The backward pass of one network reaches the other, unless the other is frozen for it."""
    one, other = nn.Linear(4, 4), nn.Linear(4, 1)
    optimizers = [torch.optim.Adam(network.parameters()) for network in (one, other)]

    def train() -> None:
        for _ in range(STEPS):
            optimizers[1].zero_grad(set_to_none=to_none)
            other(one(torch.randn(3, 4)).detach()).mean().backward()
            optimizers[1].step()
            other.requires_grad_(not is_frozen)
            optimizers[0].zero_grad(set_to_none=to_none)
            other(one(torch.randn(3, 4))).mean().backward()
            optimizers[0].step()
            other.requires_grad_(True)

    values = check_values(tmp_path, train)
    counts = {name: steps for name, steps in values.items() if name.endswith("zero_grad")}
    assert set(counts) == {"Adam/steps_without_zero_grad", "Adam_1/steps_without_zero_grad"}
    assert all(set(steps) == {0.0} for steps in counts.values())


def test_one_of_two_networks_without_zero_grad_is_counted(tmp_path: Path) -> None:
    one, other = nn.Linear(4, 4), nn.Linear(4, 1)
    optimizers = [torch.optim.Adam(one.parameters()), torch.optim.SGD(other.parameters(), lr=0.1)]

    def train() -> None:
        for _ in range(STEPS):
            for optimizer, model in zip(optimizers, (one, other), strict=True):
                if model is one:
                    optimizer.zero_grad()
                other(one(torch.randn(3, 4))).mean().backward()
                optimizer.step()

    values = check_values(tmp_path, train)
    assert set(values["Adam/steps_without_zero_grad"]) == {0.0}
    assert values["SGD/steps_without_zero_grad"] == [1.0, 2.0, 3.0, 4.0]  # the last belongs to an unfinished step


def test_a_recorded_gradient_is_not_kept_alive(tmp_path: Path) -> None:
    model = nn.Linear(4, 1)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    stale_gradients = StaleGradients()
    model(torch.randn(3, 4)).mean().backward()
    stale_gradients.after_update(optimizer, is_inspected_next=True)
    import gc
    import weakref

    gradient = weakref.ref(model.weight.grad)
    model.zero_grad()
    gc.collect()
    assert gradient() is None


def test_training_in_evaluation_mode_is_counted(tmp_path: Path) -> None:
    model = small()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)

    def train() -> None:
        loop(model, optimizer, optimizer.zero_grad)()
        model.eval()
        loop(model, optimizer, optimizer.zero_grad)()

    assert check_values(tmp_path, train)["Sequential/train_steps_in_eval_mode"] == [0.0] * STEPS + [
        1.0,
        2.0,
        3.0,
        4.0,
        5.0,
        6.0,
    ]


@pytest.mark.parametrize("has_dropout", [False, True])
def test_a_model_without_mode_dependent_modules_is_marked(tmp_path: Path, has_dropout: bool) -> None:
    layer = nn.Linear(4, 2)
    model = nn.Sequential(layer, nn.Dropout(0.0)) if has_dropout else layer
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    values = check_values(tmp_path, loop(model, optimizer, optimizer.zero_grad))
    assert set(values[f"{type(model).__name__}/train_steps_in_eval_mode"]) == {-1.0}
    assert not any(name.endswith("/eval_calls_in_train_mode") for name in values)


def _evaluate(model: nn.Module) -> None:
    for _ in range(4):
        F.mse_loss(model(torch.randn(3, 4)), torch.zeros(3, 1))


def _evaluate_pairs(model: nn.Module) -> None:
    for _ in range(2):
        F.mse_loss(model(torch.randn(3, 4)), model(torch.randn(3, 4)))


def _evaluate_by_module(model: nn.Module) -> None:
    for _ in range(4):
        nn.MSELoss()(model(torch.randn(3, 4)), torch.zeros(3, 1))


def _evaluate_long(model: nn.Module) -> None:
    for _ in range(20):
        F.mse_loss(model(torch.randn(3, 4)), torch.zeros(3, 1))


def _sample(model: nn.Module) -> None:
    for _ in range(4):
        model(torch.randn(3, 4))


def _average_over_dropout(model: nn.Module) -> None:
    mean = torch.stack([model(torch.ones(3, 4)) for _ in range(4)]).mean(0)
    F.mse_loss(mean, torch.zeros(3, 1))


def _score_each_sample(model: nn.Module) -> None:
    for _ in range(4):
        F.mse_loss(model(torch.randn(3, 4)), torch.zeros(3, 1), reduction="none")


@pytest.mark.parametrize(
    ("use", "evaluated", "others"),
    [
        (_evaluate, 4.0, 1.0),
        (_evaluate_pairs, 2.0, 2.0),
        (_evaluate_by_module, 4.0, 1.0),
        (_evaluate_long, 20.0, 1.0),
        (_sample, 0.0, 4.0),
        (_average_over_dropout, 0.0, 4.0),
        (_score_each_sample, 0.0, 4.0),
    ],
)
def test_a_loss_without_gradients_makes_a_call_an_evaluation(
    tmp_path: Path, use: Callable[[nn.Module], None], evaluated: float, others: float
) -> None:
    model = nn.Sequential(nn.Linear(4, 4), nn.Dropout(0.5), nn.Linear(4, 1))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)

    def train() -> None:
        for _ in range(3):
            loop(model, optimizer, optimizer.zero_grad)()
            with torch.no_grad():
                use(model)

    counts = scalars(watch(tmp_path, train, "checks:every=1", "outputs:every=1"), "checks")
    assert max(counts["Sequential/eval_calls_in_train_mode"].values()) == evaluated
    assert max(counts["Sequential/other_calls_with_dropout"].values()) == others


def test_frozen_batch_normalization_is_no_training_in_evaluation_mode(tmp_path: Path) -> None:
    model = nn.Sequential(nn.Linear(4, 4), nn.BatchNorm1d(4), nn.Linear(4, 1))
    model[1].eval()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    counts = check_values(tmp_path, loop(model, optimizer, optimizer.zero_grad))["Sequential/train_steps_in_eval_mode"]
    assert set(counts) == {0.0}


def test_a_head_on_a_frozen_model_in_evaluation_mode_is_trained_as_meant(tmp_path: Path) -> None:
    model = nn.Sequential(nn.Linear(4, 4), nn.Dropout(0.5), nn.Linear(4, 1)).eval()
    model[0].requires_grad_(False)
    optimizer = torch.optim.SGD(model[2].parameters(), lr=0.01)
    counts = check_values(tmp_path, loop(model, optimizer, optimizer.zero_grad))["Sequential/train_steps_in_eval_mode"]
    assert set(counts) == {0.0}


def test_a_tensor_that_is_no_parameter_has_no_optimizer(tmp_path: Path) -> None:
    class Scaled(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.linear, self.scales = nn.Linear(4, 1), [torch.ones(1, requires_grad=True)]

        def forward(self, inputs: torch.Tensor) -> torch.Tensor:
            return self.scales[0] * self.linear(inputs)

    model = Scaled()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    values = check_values(tmp_path, loop(model, optimizer, optimizer.zero_grad))
    assert set(values["scales[0]/outside_optimizers"]) == {1.0}


def test_a_parameter_in_no_optimizer_is_reported(tmp_path: Path) -> None:
    model = small()
    optimizer = torch.optim.SGD(model[2].parameters(), lr=0.01)
    values = check_values(tmp_path, loop(model, optimizer, model.zero_grad))
    assert values["0.weight/outside_optimizers"] == values["0.bias/outside_optimizers"] == [1.0] * STEPS
    assert {name for name in values if name.endswith("optimizers")} == {
        "0.weight/outside_optimizers",
        "0.bias/outside_optimizers",
    }


def test_parameters_in_another_optimizer_or_frozen_are_not_reported(tmp_path: Path) -> None:
    model = nn.Sequential(nn.Linear(4, 4), nn.Linear(4, 4), nn.Linear(4, 2))
    model[1].requires_grad_(False)
    optimizer = torch.optim.SGD(model[2].parameters(), lr=0.01)
    other_optimizer = torch.optim.Adam(model[0].parameters())
    values = check_values(tmp_path, loop(model, optimizer, model.zero_grad))
    assert not [name for name in values if name.endswith("optimizers")]
    assert other_optimizer.param_groups


def test_a_parameter_that_an_earlier_optimizer_held_is_not_reported(tmp_path: Path) -> None:
    model = small()

    def train() -> None:
        optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
        loop(model, optimizer, model.zero_grad)()
        model.append(nn.Linear(2, 2))
        del optimizer
        gc.collect()
        loop(model, torch.optim.SGD(model[2].parameters(), lr=0.01), model.zero_grad)()

    outside = {name: found for name, found in check_values(tmp_path, train).items() if name.endswith("optimizers")}
    assert outside == {"3.weight/outside_optimizers": [1.0] * STEPS, "3.bias/outside_optimizers": [1.0] * STEPS}


@pytest.mark.parametrize("zero", [0.0, 0, torch.tensor(0.0)])
def test_groups_with_a_rate_of_zero_are_frozen_until_they_have_one(tmp_path: Path, zero: object) -> None:
    model = small()
    groups = [{"params": model[0].parameters(), "lr": 0.01}, {"params": model[2].parameters()}]
    optimizer = torch.optim.SGD(groups, lr=0.01)

    def train() -> None:
        optimizer.param_groups[0]["lr"] = zero
        loop(model, optimizer, model.zero_grad)()
        optimizer.param_groups[0]["lr"] = 0.01
        loop(model, optimizer, model.zero_grad)()

    frozen = {name: found for name, found in check_values(tmp_path, train).items() if "frozen" in name}
    assert frozen == {f"0.{name}/frozen_by_optimizer": [1.0] * STEPS + [0.0] * STEPS for name in ("weight", "bias")}


def test_an_optimizer_without_any_rate_freezes_nothing_on_purpose(tmp_path: Path) -> None:
    model = small()
    groups = [{"params": model[0].parameters()}, {"params": model[2].parameters()}]
    optimizer = torch.optim.SGD(groups, lr=0.0)
    assert not [name for name in check_values(tmp_path, loop(model, optimizer, model.zero_grad)) if "frozen" in name]


def test_a_parameter_added_to_an_optimizer_is_no_longer_reported(tmp_path: Path) -> None:
    model = small()
    optimizer = torch.optim.SGD(model[2].parameters(), lr=0.01)

    def train() -> None:
        loop(model, optimizer, model.zero_grad)()
        optimizer.add_param_group({"params": list(model[0].parameters())})
        loop(model, optimizer, model.zero_grad)()

    assert check_values(tmp_path, train)["0.weight/outside_optimizers"] == [1.0] * STEPS + [0.0] * STEPS


def test_gradients_of_another_thread_are_not_touched(monkeypatch: pytest.MonkeyPatch) -> None:
    """They may be in use: PyTorch writes them without holding the GIL, and reading them then would crash."""
    stale_gradients, model = StaleGradients(), small()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    inspected: list[bool] = []
    monkeypatch.setattr(
        "leadline.frameworks.torch.diagnose.stale_gradients._LastGradient.inspect",
        lambda gradient, is_only_optimizer: inspected.append(is_only_optimizer),
    )
    model(torch.ones(1, 4)).sum().backward()
    stale_gradients.after_update(optimizer, is_inspected_next=True)
    other = threading.Thread(target=stale_gradients.before_backward)
    other.start()
    other.join()
    assert inspected == []
    stale_gradients.before_backward()
    assert inspected == [True]


class WithPlainList(nn.Module):
    """A model whose hidden layers are in a plain list, so that ``parameters()`` lacks them."""

    def __init__(self) -> None:
        super().__init__()
        self.hidden = [nn.Linear(4, 4), nn.Sequential(nn.Linear(4, 4), nn.ReLU())]
        self.by_name = {"last": nn.Linear(4, 4)}
        self.head = nn.Linear(4, 2)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        for layer in self.hidden:
            x = layer(x)
        return self.head(self.by_name["last"](x))


def unmanaged(values: dict[str, list[float]]) -> dict[str, float]:
    return {name.removesuffix("/outside_optimizers"): found[-1] for name, found in values.items() if "outside" in name}


def test_modules_in_a_plain_list_belong_to_no_optimizer(tmp_path: Path) -> None:
    torch.manual_seed(0)
    model = WithPlainList()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    found = unmanaged(check_values(tmp_path, loop(model, optimizer, optimizer.zero_grad)))
    names = ("hidden[0].weight", "hidden[0].bias", "hidden[1].0.weight", "hidden[1].0.bias")
    assert found == dict.fromkeys((*names, "by_name['last'].weight", "by_name['last'].bias"), 1.0)


@pytest.mark.parametrize("is_wrong", [True, False])
def test_a_discriminator_whose_optimizer_holds_the_generator(tmp_path: Path, *, is_wrong: bool) -> None:
    generator, discriminator = nn.Sequential(nn.Linear(2, 4)), nn.Sequential(nn.Linear(4, 1), nn.Sigmoid())
    trained = generator if is_wrong else discriminator
    optimizers = [torch.optim.Adam(generator.parameters()), torch.optim.Adam(trained.parameters())]

    def train() -> None:
        for _ in range(STEPS):
            fake = generator(torch.randn(3, 2))
            optimizers[1].zero_grad()
            (discriminator(fake.detach()).mean() - discriminator(torch.randn(3, 4)).mean()).backward()
            optimizers[1].step()
            optimizers[0].zero_grad()
            (-discriminator(fake).mean()).backward()
            optimizers[0].step()

    found = unmanaged(check_values(tmp_path, train))
    assert found == ({"Sequential_1.0.weight": 1.0, "Sequential_1.0.bias": 1.0} if is_wrong else {})


@pytest.mark.parametrize("kind", ["frozen", "eval", "no_grad", "detached"])
def test_a_model_that_is_meant_not_to_be_trained(tmp_path: Path, kind: str) -> None:
    model, other = small(), nn.Linear(2, 2)
    if kind == "frozen":
        other.requires_grad_(False)
    if kind == "eval":
        other.eval()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)

    def train() -> None:
        for _ in range(STEPS):
            optimizer.zero_grad()
            out = model(torch.randn(3, 4))
            with torch.set_grad_enabled(kind != "no_grad"):
                target = other(out)
            ((out - target.detach()) if kind in ("no_grad", "detached") else target).square().mean().backward()
            optimizer.step()

    assert unmanaged(check_values(tmp_path, train)) == {}
