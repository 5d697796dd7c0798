"""The norm of all gradients, before and after clipping, against a second way of computing it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.distributed.fsdp import fully_sharded_data_parallel
from torch.nn import utils
from torch.nn.utils import clip_grad, clip_grad_norm_  # imported before anybody watches
from watched import watch

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
    return float(torch.cat([each.grad.double().flatten() for each in parameters]).norm())


def values(run: Run, name: str) -> list[float]:
    tensor = run.tensor(name)
    return [tensor.statistic("value", step) for step in tensor.steps()]


def train_clipped(
    clip: Callable[[Any], Any], steps: int = 4, seen: list[tuple[float, float]] | None = None
) -> Callable[[], None]:
    """A training that clips; ``seen`` gets the norms before and after."""

    def train() -> None:
        model = small()
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        for step in range(steps):
            optimizer.zero_grad()
            backward(model, step, factor=0.1 if step % 2 else 5.0)
            before = norm_of(model.parameters())
            clip(model)
            if seen is not None:
                seen.append((before, norm_of(model.parameters())))
            optimizer.step()

    return train


WAYS: dict[str, Callable[[nn.Module], Any]] = {
    "public": lambda model: utils.clip_grad_norm_(model.parameters(), 0.5),
    "imported before": lambda model: clip_grad_norm_(model.parameters(), 0.5),
    "by keywords": lambda model: utils.clip_grad_norm_(parameters=list(model.parameters()), max_norm=0.5),
    "one by one": lambda model: utils.clip_grad_norm_(model.parameters(), 0.5, foreach=False),
    "in two calls": lambda model: utils.clip_grads_with_norm_(
        model.parameters(), 0.5, utils.get_total_norm([each.grad for each in model.parameters()])
    ),
}


@pytest.mark.parametrize("way", WAYS)
def test_the_norms_before_and_after_clipping(tmp_path: Path, way: str) -> None:
    seen: list[tuple[float, float]] = []
    run = watch(tmp_path, train_clipped(WAYS[way], seen=seen), NORMS)
    assert values(run, "gradient_norm_before_clipping") == pytest.approx([before for before, _ in seen])
    assert values(run, "gradient_norm") == pytest.approx([after for _, after in seen])
    assert values(run, "gradient_clipped") == [1.0, 0.0, 1.0, 0.0]
    assert sorted(run.tensor_names(collection="gradient_norms")) == [
        "gradient_clipped",
        "gradient_norm",
        "gradient_norm_before_clipping",
    ]


@pytest.mark.filterwarnings("ignore::FutureWarning")
def test_the_old_function_is_seen_too(tmp_path: Path) -> None:
    seen: list[tuple[float, float]] = []
    run = watch(tmp_path, train_clipped(lambda model: utils.clip_grad_norm(model.parameters(), 0.5), seen=seen), NORMS)
    assert values(run, "gradient_norm_before_clipping") == pytest.approx([before for before, _ in seen])


def test_clipping_tells_its_result_every_step_and_the_rest_comes_with_the_gradients(tmp_path: Path) -> None:
    run = watch(tmp_path, train_clipped(WAYS["public"], steps=5), "gradients:every=2")
    assert run.tensor("gradient_norm_before_clipping").steps() == [0, 1, 2, 3, 4]
    assert run.tensor("gradient_norm").steps() == [0, 2, 4]


def test_nothing_is_told_where_nobody_asks(tmp_path: Path) -> None:
    run = watch(tmp_path, train_clipped(WAYS["public"]), "losses:every=1", "weights:every=1")
    assert run.tensor_names(collection="gradient_norms") == []


def test_gradients_that_nobody_asks_for_count_in_the_norm(tmp_path: Path) -> None:
    seen: list[tuple[float, float]] = []
    capture = (NORMS, "gradients:regex=0.weight,statistics=max,every=1")
    run = watch(tmp_path, train_clipped(lambda model: None, seen=seen), *capture)
    assert values(run, "gradient_norm") == pytest.approx([after for _, after in seen])
    assert run.tensor_names(collection="gradients") == ["gradient/0.weight"]
    assert run.tensor("gradient/0.weight").statistic_names() == ["max"]


def test_another_norm_tells_only_whether_it_clipped(tmp_path: Path) -> None:
    largest = lambda model: utils.clip_grad_norm_(model.parameters(), 0.5, norm_type=float("inf"))  # noqa: E731
    run = watch(tmp_path, train_clipped(largest), NORMS)
    assert "gradient_norm_before_clipping" not in run.tensor_names()
    assert values(run, "gradient_clipped") == [1.0, 0.0, 1.0, 0.0]


def test_clipping_by_value(tmp_path: Path) -> None:
    seen: list[tuple[float, float]] = []
    by_value = lambda model: utils.clip_grad_value_(model.parameters(), 0.2)  # noqa: E731
    run = watch(tmp_path, train_clipped(by_value, seen=seen), "gradient_norms:every=2")
    assert run.tensor("gradient_clipped").steps() == [0, 2]  # a pass of its own: only where norms are due
    assert values(run, "gradient_norm_before_clipping") == pytest.approx([seen[0][0], seen[2][0]])
    assert values(run, "gradient_norm") == pytest.approx([seen[0][1], seen[2][1]])


def test_parts_that_are_clipped_apart_have_one_norm(tmp_path: Path) -> None:
    seen: list[tuple[float, float]] = []

    def apart(model: nn.Module) -> None:
        utils.clip_grad_norm_(model[0].parameters(), 0.1)
        utils.clip_grad_norm_(model[2].parameters(), 0.1)

    run = watch(tmp_path, train_clipped(apart, seen=seen), NORMS)
    assert values(run, "gradient_norm_before_clipping") == pytest.approx([before for before, _ in seen])


def test_a_clip_that_no_step_follows_is_forgotten(tmp_path: Path) -> None:
    def train() -> None:
        model = small()
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        for step in range(3):
            optimizer.zero_grad()
            backward(model, step, factor=100.0 if step == 1 else 1.0)
            norm = utils.clip_grad_norm_(model.parameters(), 1.0)
            if norm < 100:  # a script that skips steps by itself
                optimizer.step()

    run = watch(tmp_path, train, NORMS)
    assert len(values(run, "gradient_norm_before_clipping")) == 2
    assert max(values(run, "gradient_norm_before_clipping")) < 100


def test_norms_that_are_not_finite(tmp_path: Path) -> None:
    def train() -> None:
        model = small()
        optimizer = torch.optim.SGD(model.parameters(), lr=0.0)
        for bad in (float("nan"), float("inf")):
            optimizer.zero_grad()
            backward(model, 0)
            model[0].weight.grad[0, 0] = bad
            utils.clip_grad_norm_(model.parameters(), 1.0)
            optimizer.step()
            model.load_state_dict(small().state_dict())

    found = values(watch(tmp_path, train, NORMS), "gradient_norm_before_clipping")
    assert str(found) == "[nan, inf]"
    run = leadline.open_run(str(tmp_path / "run"))
    assert values(run, "gradient_clipped") == [1.0, 1.0]


def test_two_optimizers_have_a_norm_each(tmp_path: Path) -> None:
    class Generator(nn.Sequential): ...

    class Critic(nn.Sequential): ...

    generator, critic = Generator(nn.Linear(4, 4)), Critic(nn.Linear(4, 1))
    both = [torch.optim.Adam(each.parameters(), lr=0.1) for each in (critic, generator)]
    seen: list[list[float]] = [[], []]

    def train() -> None:
        for _ in range(3):
            for index, model in enumerate((critic, generator)):
                both[index].zero_grad()
                critic(generator(torch.ones(2, 4))).sum().backward()
                seen[index].append(norm_of(model.parameters()))
                utils.clip_grad_norm_(model.parameters(), 1.0)
                both[index].step()

    run = watch(tmp_path, train, NORMS, "hyperparameters:every=1")
    assert values(run, "gradient_norm_before_clipping")[:3] == pytest.approx(seen[0])
    assert values(run, "Adam_1/gradient_norm_before_clipping") == pytest.approx(seen[1])
    assert "Adam_1/gradient_norm" in run.tensor_names()
    assert {"Adam/lr", "Adam_1/lr"} <= set(run.tensor_names(collection="hyperparameters"))


def test_one_clip_for_two_optimizers_is_told_of_both(tmp_path: Path) -> None:
    model, seen = small(), []
    first = torch.optim.SGD(model[0].parameters(), lr=0.1)
    second = torch.optim.Adam(model[2].parameters(), lr=0.1)

    def train() -> None:
        for step in range(2):
            model.zero_grad()
            backward(model, step)
            seen.append(norm_of(model.parameters()))
            utils.clip_grad_norm_(model.parameters(), 1e-3)
            first.step()
            second.step()

    run = watch(tmp_path, train, NORMS)
    assert values(run, "gradient_norm_before_clipping") == pytest.approx(seen)
    assert values(run, "Adam/gradient_norm_before_clipping") == pytest.approx(seen)


def test_gradients_under_a_scaler_are_clipped_in_their_own_size(tmp_path: Path) -> None:
    model = small()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    scaler = torch.amp.GradScaler("cpu", init_scale=256.0)
    seen = []

    def train() -> None:
        for step in range(2):
            optimizer.zero_grad()
            scaler.scale(model(torch.full((1, 4), step + 1.0)).pow(2).mean()).backward()
            scaler.unscale_(optimizer)
            seen.append(norm_of(model.parameters()))
            utils.clip_grad_norm_(model.parameters(), 1e-2)
            scaler.step(optimizer)
            scaler.update()

    run = watch(tmp_path, train, NORMS, "hyperparameters:every=1")
    assert values(run, "gradient_norm_before_clipping") == pytest.approx(seen)
    assert values(run, "GradScaler/scale") == [256.0, 256.0]


def test_training_is_the_same_to_the_bit_and_nothing_is_left(tmp_path: Path) -> None:
    names = ("_get_total_norm", "_clip_grads_with_norm_", "clip_grad_norm_", "clip_grad_value_")
    originals = [getattr(clip_grad, name) for name in names]
    results: list[list[torch.Tensor]] = []

    def train() -> None:
        model = small()
        optimizer = torch.optim.AdamW(model.parameters())
        for step in range(3):
            optimizer.zero_grad()
            backward(model, step)
            results.append([utils.clip_grad_norm_((each for each in model.parameters()), 0.1)])
            optimizer.step()
        results.append([each.detach().clone() for each in model.parameters()])

    train()
    bare = results[:]
    results.clear()
    watch(tmp_path, train, NORMS, "optimizer_variables:every=1")
    assert all(torch.equal(one, other) for a, b in zip(bare, results, strict=True) for one, other in zip(a, b))  # noqa: B905
    assert [getattr(clip_grad, name) for name in names] == originals
    assert utils.clip_grads_with_norm_ is clip_grad._clip_grads_with_norm_


def test_a_method_of_a_sharded_model_is_seen_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of the older FSDP, which needs an accelerator; a model stands in that clips as it does without shards."""

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


def test_pretended_clipping_is_none(tmp_path: Path) -> None:
    def train() -> None:
        model = small()
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        with FakeTensorMode(allow_non_fake_inputs=True):
            pretended = [nn.Parameter(torch.ones(3))]
            pretended[0].grad = torch.ones(3)
            utils.clip_grad_norm_(pretended, 0.1)
            utils.clip_grad_value_(pretended, 0.1)
        backward(model, 0)
        optimizer.step()

    run = watch(tmp_path, train, NORMS)
    assert run.tensor_names(collection="gradient_norms") == ["gradient_norm"]


def test_a_failure_of_torch_s_own_is_the_script_s(tmp_path: Path) -> None:
    def train() -> None:
        model = small()
        backward(model, 0)
        model[0].weight.grad[0, 0] = float("nan")
        with pytest.raises(RuntimeError, match="non-finite"):
            utils.clip_grad_norm_(model.parameters(), 1.0, error_if_nonfinite=True)
        with pytest.warns(UserWarning, match="empty generator"):
            utils.clip_grad_norm_((each for each in ()), 1.0)
        assert list(_through(utils.clip_grad_norm_, model)) == [model[0].weight]
        torch.optim.SGD(model.parameters(), lr=0.1).step()

    watch(tmp_path, train, NORMS)


def _through(clip: Callable[..., Any], model: nn.Module) -> Iterator[torch.Tensor]:
    """What a generator yields is clipped all the same, though it can be gone through only once."""
    weight = model[0].weight
    weight.grad = torch.ones_like(weight)
    clip((each for each in [weight]), 1e-6)
    assert float(weight.grad.norm()) < 1e-5
    yield weight


@pytest.mark.parametrize("is_alone", [False, True])
def test_a_gradient_without_an_element_has_no_norm(tmp_path: Path, is_alone: bool) -> None:
    nothing = nn.Parameter(torch.empty(0))
    one = nn.Parameter(torch.full((4,), 1.0), requires_grad=not is_alone)
    optimizer = torch.optim.SGD([nothing, *([] if is_alone else [one])], lr=0.1)

    def train() -> None:
        (nothing.sum() + 3 * one.sum()).backward()
        optimizer.step()

    run = watch(tmp_path, train, NORMS, "gradients:every=1")
    assert run.tensor("gradient_norm").statistic("value", 0) == (0.0 if is_alone else 6.0)
