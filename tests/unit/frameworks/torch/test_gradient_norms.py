"""Norm of all gradients, before and after clipping, against an independent computation."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
from hooked_run import watch
from torch import nn
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.distributed.fsdp import fully_sharded_data_parallel
from torch.nn import utils
from torch.nn.utils import clip_grad, clip_grad_norm_  # imported before hooks are installed

import leadline.torch
from leadline.reader.run import Run

NORMS = "gradient_norms:every=1"


def small() -> nn.Module:
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(4, 5), nn.Tanh(), nn.Linear(5, 2))


def backward(model: nn.Module, step: int, factor: float = 1.0) -> None:
    inputs = torch.randn(8, 4, generator=torch.Generator().manual_seed(step))
    (factor * model(inputs)).pow(2).mean().backward()


def norm_of(parameters: Any) -> float:
    return float(torch.cat([parameter.grad.double().flatten() for parameter in parameters]).norm())


def values(run: Run, name: str) -> list[float]:
    tensor = run.tensor(name)
    return [tensor.statistic("value", step) for step in tensor.steps()]


def train_clipped(
    clip: Callable[[Any], Any], steps: int = 4, norms: list[tuple[float, float]] | None = None
) -> Callable[[], None]:
    """Return a training that clips; ``norms`` receives the norms before and after."""

    def train() -> None:
        model = small()
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        for step in range(steps):
            optimizer.zero_grad()
            backward(model, step, factor=0.1 if step % 2 else 5.0)
            before = norm_of(model.parameters())
            clip(model)
            if norms is not None:
                norms.append((before, norm_of(model.parameters())))
            optimizer.step()

    return train


WAYS: dict[str, Callable[[nn.Module], Any]] = {
    "public": lambda model: utils.clip_grad_norm_(model.parameters(), 0.5),
    "imported before": lambda model: clip_grad_norm_(model.parameters(), 0.5),
    "by keywords": lambda model: utils.clip_grad_norm_(parameters=list(model.parameters()), max_norm=0.5),
    "one by one": lambda model: utils.clip_grad_norm_(model.parameters(), 0.5, foreach=False),
    "in two calls": lambda model: utils.clip_grads_with_norm_(
        model.parameters(), 0.5, utils.get_total_norm([parameter.grad for parameter in model.parameters()])
    ),
}


@pytest.mark.parametrize("way", WAYS)
def test_norms_before_and_after_clipping(tmp_path: Path, way: str) -> None:
    norms: list[tuple[float, float]] = []
    run = watch(tmp_path, train_clipped(WAYS[way], norms=norms), NORMS)
    assert values(run, "gradient_norm_before_clipping") == pytest.approx([before for before, _ in norms])
    assert values(run, "gradient_norm") == pytest.approx([after for _, after in norms])
    assert values(run, "gradient_clipped") == [1.0, 0.0, 1.0, 0.0]
    assert sorted(run.tensor_names(collection="gradient_norms")) == [
        "gradient_clipped",
        "gradient_norm",
        "gradient_norm_before_clipping",
    ]


@pytest.mark.filterwarnings("ignore::FutureWarning")
def test_the_deprecated_function_is_observed(tmp_path: Path) -> None:
    norms: list[tuple[float, float]] = []
    run = watch(
        tmp_path, train_clipped(lambda model: utils.clip_grad_norm(model.parameters(), 0.5), norms=norms), NORMS
    )
    assert values(run, "gradient_norm_before_clipping") == pytest.approx([before for before, _ in norms])


def test_clipping_is_captured_every_step_and_the_norm_with_the_gradients(tmp_path: Path) -> None:
    run = watch(tmp_path, train_clipped(WAYS["public"], steps=5), "gradients:every=2")
    assert run.tensor("gradient_norm_before_clipping").steps() == [0, 1, 2, 3, 4]
    assert run.tensor("gradient_norm").steps() == [0, 2, 4]


def test_no_norms_are_captured_unless_requested(tmp_path: Path) -> None:
    run = watch(tmp_path, train_clipped(WAYS["public"]), "losses:every=1", "weights:every=1")
    assert run.tensor_names(collection="gradient_norms") == []


def test_gradients_that_are_not_captured_count_in_the_norm(tmp_path: Path) -> None:
    norms: list[tuple[float, float]] = []
    capture = (NORMS, "gradients:regex=0.weight,statistics=max,every=1")
    run = watch(tmp_path, train_clipped(lambda model: None, norms=norms), *capture)
    assert values(run, "gradient_norm") == pytest.approx([after for _, after in norms])
    assert run.tensor_names(collection="gradients") == ["gradient/0.weight"]
    assert run.tensor("gradient/0.weight").statistic_names() == ["max"]


def test_another_norm_order_gives_only_the_clipped_flag(tmp_path: Path) -> None:
    clip_by_maximum = lambda model: utils.clip_grad_norm_(model.parameters(), 0.5, norm_type=float("inf"))  # noqa: E731
    run = watch(tmp_path, train_clipped(clip_by_maximum), NORMS)
    assert "gradient_norm_before_clipping" not in run.tensor_names()
    assert values(run, "gradient_clipped") == [1.0, 0.0, 1.0, 0.0]


def test_clipping_by_value(tmp_path: Path) -> None:
    norms: list[tuple[float, float]] = []
    by_value = lambda model: utils.clip_grad_value_(model.parameters(), 0.2)  # noqa: E731
    run = watch(tmp_path, train_clipped(by_value, norms=norms), "gradient_norms:every=2")
    assert run.tensor("gradient_clipped").steps() == [0, 2]  # needs a pass over the gradients: only at scheduled steps
    assert values(run, "gradient_norm_before_clipping") == pytest.approx([norms[0][0], norms[2][0]])
    assert values(run, "gradient_norm") == pytest.approx([norms[0][1], norms[2][1]])


def test_separately_clipped_parts_have_one_norm(tmp_path: Path) -> None:
    norms: list[tuple[float, float]] = []

    def clip_separately(model: nn.Module) -> None:
        utils.clip_grad_norm_(model[0].parameters(), 0.1)
        utils.clip_grad_norm_(model[2].parameters(), 0.1)

    run = watch(tmp_path, train_clipped(clip_separately, norms=norms), NORMS)
    assert values(run, "gradient_norm_before_clipping") == pytest.approx([before for before, _ in norms])


def test_a_clip_without_a_step_is_discarded(tmp_path: Path) -> None:
    def train() -> None:
        model = small()
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        for step in range(3):
            optimizer.zero_grad()
            backward(model, step, factor=100.0 if step == 1 else 1.0)
            norm = utils.clip_grad_norm_(model.parameters(), 1.0)
            if norm < 100:  # the script skips steps itself
                optimizer.step()

    run = watch(tmp_path, train, NORMS)
    assert len(values(run, "gradient_norm_before_clipping")) == 2
    assert max(values(run, "gradient_norm_before_clipping")) < 100


def test_nonfinite_norms(tmp_path: Path) -> None:
    def train() -> None:
        model = small()
        optimizer = torch.optim.SGD(model.parameters(), lr=0.0)
        for nonfinite in (float("nan"), float("inf")):
            optimizer.zero_grad()
            backward(model, 0)
            model[0].weight.grad[0, 0] = nonfinite
            utils.clip_grad_norm_(model.parameters(), 1.0)
            optimizer.step()
            model.load_state_dict(small().state_dict())

    clip_norms = values(watch(tmp_path, train, NORMS), "gradient_norm_before_clipping")
    assert str(clip_norms) == "[nan, inf]"
    run = leadline.open_run(str(tmp_path / "run"))
    assert values(run, "gradient_clipped") == [1.0, 1.0]


def test_two_optimizers_have_separate_norms(tmp_path: Path) -> None:
    class Generator(nn.Sequential): ...

    class Critic(nn.Sequential): ...

    generator, critic = Generator(nn.Linear(4, 4)), Critic(nn.Linear(4, 1))
    both = [torch.optim.Adam(network.parameters(), lr=0.1) for network in (critic, generator)]
    norms: list[list[float]] = [[], []]

    def train() -> None:
        for _ in range(3):
            for index, model in enumerate((critic, generator)):
                both[index].zero_grad()
                critic(generator(torch.ones(2, 4))).sum().backward()
                norms[index].append(norm_of(model.parameters()))
                utils.clip_grad_norm_(model.parameters(), 1.0)
                both[index].step()

    run = watch(tmp_path, train, NORMS, "hyperparameters:every=1")
    assert values(run, "gradient_norm_before_clipping")[:3] == pytest.approx(norms[0])
    assert values(run, "Adam_1/gradient_norm_before_clipping") == pytest.approx(norms[1])
    assert "Adam_1/gradient_norm" in run.tensor_names()
    assert {"Adam/lr", "Adam_1/lr"} <= set(run.tensor_names(collection="hyperparameters"))


def test_one_clip_for_two_optimizers_is_captured_for_both(tmp_path: Path) -> None:
    model, norms = small(), []
    first = torch.optim.SGD(model[0].parameters(), lr=0.1)
    second = torch.optim.Adam(model[2].parameters(), lr=0.1)

    def train() -> None:
        for step in range(2):
            model.zero_grad()
            backward(model, step)
            norms.append(norm_of(model.parameters()))
            utils.clip_grad_norm_(model.parameters(), 1e-3)
            first.step()
            second.step()

    run = watch(tmp_path, train, NORMS)
    assert values(run, "gradient_norm_before_clipping") == pytest.approx(norms)
    assert values(run, "Adam/gradient_norm_before_clipping") == pytest.approx(norms)


def test_norms_under_a_scaler_are_unscaled(tmp_path: Path) -> None:
    model = small()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    scaler = torch.amp.GradScaler("cpu", init_scale=256.0)
    norms = []

    def train() -> None:
        for step in range(2):
            optimizer.zero_grad()
            scaler.scale(model(torch.full((1, 4), step + 1.0)).pow(2).mean()).backward()
            scaler.unscale_(optimizer)
            norms.append(norm_of(model.parameters()))
            utils.clip_grad_norm_(model.parameters(), 1e-2)
            scaler.step(optimizer)
            scaler.update()

    run = watch(tmp_path, train, NORMS, "hyperparameters:every=1")
    assert values(run, "gradient_norm_before_clipping") == pytest.approx(norms)
    assert values(run, "GradScaler/scale") == [256.0, 256.0]


def test_clipped_training_is_bit_identical_and_nothing_is_left(tmp_path: Path) -> None:
    names = ("_get_total_norm", "_clip_grads_with_norm_", "clip_grad_norm_", "clip_grad_value_")
    originals = [getattr(clip_grad, name) for name in names]
    results: list[list[torch.Tensor]] = []

    def train() -> None:
        model = small()
        optimizer = torch.optim.AdamW(model.parameters())
        for step in range(3):
            optimizer.zero_grad()
            backward(model, step)
            results.append([utils.clip_grad_norm_((parameter for parameter in model.parameters()), 0.1)])
            optimizer.step()
        results.append([parameter.detach().clone() for parameter in model.parameters()])

    train()
    without_hook = results[:]
    results.clear()
    watch(tmp_path, train, NORMS, "optimizer_variables:every=1")
    assert all(torch.equal(one, other) for a, b in zip(without_hook, results, strict=True) for one, other in zip(a, b))  # noqa: B905
    assert [getattr(clip_grad, name) for name in names] == originals
    assert utils.clip_grads_with_norm_ is clip_grad._clip_grads_with_norm_


def test_the_method_of_a_sharded_model_is_counted_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """FSDP1 needs an accelerator; a model with a clipping method of the same name replaces it."""

    class FullyShardedDataParallel(nn.Sequential):
        def clip_grad_norm_(self, max_norm: float, norm_type: float = 2.0) -> torch.Tensor:
            return 2 * utils.clip_grad_norm_(self.parameters(), max_norm, norm_type)

    monkeypatch.setattr(fully_sharded_data_parallel, "FullyShardedDataParallel", FullyShardedDataParallel)
    original, results = FullyShardedDataParallel.clip_grad_norm_, []

    def train() -> None:
        model = FullyShardedDataParallel(nn.Linear(4, 2))
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        for step in range(2):
            optimizer.zero_grad()
            backward(model, step)
            results.append(float(model.clip_grad_norm_(0.1)))
            optimizer.step()

    run = watch(tmp_path, train, NORMS)
    assert values(run, "gradient_norm_before_clipping") == pytest.approx(results)
    assert FullyShardedDataParallel.clip_grad_norm_ is original


def test_clipping_of_fake_tensors_is_ignored(tmp_path: Path) -> None:
    def train() -> None:
        model = small()
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        with FakeTensorMode(allow_non_fake_inputs=True):
            fake_parameters = [nn.Parameter(torch.ones(3))]
            fake_parameters[0].grad = torch.ones(3)
            utils.clip_grad_norm_(fake_parameters, 0.1)
            utils.clip_grad_value_(fake_parameters, 0.1)
        backward(model, 0)
        optimizer.step()

    run = watch(tmp_path, train, NORMS)
    assert run.tensor_names(collection="gradient_norms") == ["gradient_norm"]


def test_errors_of_torch_reach_the_script(tmp_path: Path) -> None:
    def train() -> None:
        model = small()
        backward(model, 0)
        model[0].weight.grad[0, 0] = float("nan")
        with pytest.raises(RuntimeError, match="non-finite"):
            utils.clip_grad_norm_(model.parameters(), 1.0, error_if_nonfinite=True)
        with pytest.warns(UserWarning, match="empty generator"):
            utils.clip_grad_norm_((parameter for parameter in ()), 1.0)
        assert list(clip_generator(utils.clip_grad_norm_, model)) == [model[0].weight]
        torch.optim.SGD(model.parameters(), lr=0.1).step()

    watch(tmp_path, train, NORMS)


def clip_generator(clip: Callable[..., Any], model: nn.Module) -> Iterator[torch.Tensor]:
    """Clipping works on the output of a generator, although it can be iterated only once."""
    weight = model[0].weight
    weight.grad = torch.ones_like(weight)
    clip((parameter for parameter in [weight]), 1e-6)
    assert float(weight.grad.norm()) < 1e-5
    yield weight


@pytest.mark.parametrize("is_only_gradient", [False, True])
def test_an_empty_gradient_has_no_norm(tmp_path: Path, is_only_gradient: bool) -> None:
    empty = nn.Parameter(torch.empty(0))
    one = nn.Parameter(torch.full((4,), 1.0), requires_grad=not is_only_gradient)
    optimizer = torch.optim.SGD([empty, *([] if is_only_gradient else [one])], lr=0.1)

    def train() -> None:
        (empty.sum() + 3 * one.sum()).backward()
        optimizer.step()

    run = watch(tmp_path, train, NORMS, "gradients:every=1")
    assert run.tensor("gradient_norm").statistic("value", 0) == (0.0 if is_only_gradient else 6.0)
