"""Names and values of losses, and accuracy of their predictions."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from hooked_run import scalars, watch
from torch import nn
from torch.nn import functional

LOSSES = ("losses:every=1",)
X, Y = torch.randn(12, 4, generator=torch.Generator().manual_seed(0)), torch.arange(12) % 3


def steps(loss: Callable[[nn.Module, int], torch.Tensor], count: int = 5) -> tuple[Callable[[], None], list[float]]:
    """Return a training that calls backward on the result of ``loss``, and the list for recorded losses."""
    model = nn.Linear(4, 3)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    recorded: list[float] = []

    def train() -> None:
        for step in range(count):
            optimizer.zero_grad()
            loss(model, step).backward()
            optimizer.step()

    return train, recorded


@pytest.mark.parametrize(
    ("measure", "name"),
    [
        (nn.CrossEntropyLoss(), "CrossEntropyLoss_output_0"),
        (functional.cross_entropy, "cross_entropy_output_0"),
        (nn.CrossEntropyLoss(label_smoothing=0.1), "CrossEntropyLoss_output_0"),
        (lambda out, y: functional.nll_loss(functional.log_softmax(out, 1), y), "nll_loss_output_0"),
        (lambda out, y: functional.mse_loss(out, functional.one_hot(y, 3).float()), "mse_loss_output_0"),
        (lambda out, y: functional.cross_entropy(out, y, reduction="none").mean(), "cross_entropy_output_0"),
        (lambda out, y: (out.logsumexp(1) - out.gather(1, y[:, None])[:, 0]).mean(), "loss"),
    ],
)
@pytest.mark.parametrize(
    "scale",
    [
        lambda loss: loss,
        lambda loss: loss / 4,
        lambda loss: 0.25 * loss,
        lambda loss: (loss[None] / 4).squeeze(0),
        lambda loss: (loss * 2 / 3).sum(),
        lambda loss: loss / torch.tensor(8.0),
    ],
)
def test_a_loss_has_the_name_and_unscaled_value_of_its_call(
    tmp_path: Path, measure: Callable[..., torch.Tensor], name: str, scale: Callable[[torch.Tensor], torch.Tensor]
) -> None:
    def compute_loss(model: nn.Module, step: int) -> torch.Tensor:
        loss = measure(model(X), Y)
        scaled = scale(loss)
        recorded.append(float((scaled if name == "loss" else loss).detach()))
        return scaled

    train, recorded = steps(compute_loss)
    captured = scalars(watch(tmp_path, train, *LOSSES), "losses")
    assert list(captured) == [name]
    assert captured[name] == pytest.approx(dict(enumerate(recorded)), rel=1e-6)


@pytest.mark.parametrize("count", [0, float("inf"), float("nan"), 2j])
def test_a_sum_divided_by_a_count_that_is_no_number_is_a_loss_all_the_same(tmp_path: Path, count: complex) -> None:
    """The loss of a batch without a single label is its sum divided by 0."""

    def compute_loss(model: nn.Module, step: int) -> torch.Tensor:
        total = functional.cross_entropy(model(X), Y, reduction="sum")
        quotient = total / torch.tensor(count if step == 2 else 8)
        recorded.append(float((abs(quotient) if step == 2 else total).detach()))
        return quotient.real if quotient.is_complex() else quotient

    train, recorded = steps(compute_loss)
    captured = scalars(watch(tmp_path, train, *LOSSES), "losses")
    assert captured["cross_entropy_output_0"][2] == pytest.approx(0 if count == 2j else recorded[2], nan_ok=True)
    assert captured["cross_entropy_output_0"][1] == pytest.approx(recorded[1], rel=1e-6)
    assert sorted(captured["cross_entropy_output_0"]) == [0, 1, 2, 3, 4]


def test_a_sum_of_losses_is_a_separate_loss(tmp_path: Path) -> None:
    def compute_loss(model: nn.Module, step: int) -> torch.Tensor:
        out = model(X)
        loss = functional.cross_entropy(out, Y) + 0.1 * out.pow(2).mean()
        recorded.append(loss.item())
        return loss

    train, recorded = steps(compute_loss)
    assert scalars(watch(tmp_path, train, *LOSSES), "losses") == {"loss": pytest.approx(dict(enumerate(recorded)))}


def test_a_custom_loss_module_names_the_loss(tmp_path: Path) -> None:
    class Focal(nn.Module):
        def forward(self, out: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
            p = out.softmax(1).gather(1, y[:, None])
            return (-((1 - p) ** 2) * p.log()).mean()

    focal = Focal()
    train, _ = steps(lambda model, step: focal(model(X), Y))
    assert list(scalars(watch(tmp_path, train, *LOSSES), "losses")) == ["Focal_output_0"]


@pytest.mark.parametrize(("inner", "name"), [(True, "criterion_output_0"), (False, "Net_output_0")])
def test_a_model_that_returns_its_loss(tmp_path: Path, inner: bool, name: str) -> None:
    class Net(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.body, self.criterion = nn.Linear(4, 3), nn.CrossEntropyLoss()

        def forward(self, x: torch.Tensor, y: torch.Tensor, *, inner: bool) -> dict[str, torch.Tensor]:
            out = self.body(x)
            return {"loss": self.criterion(out, y) if inner else (out**2).mean(), "logits": out}

    net = Net()
    optimizer = torch.optim.SGD(net.parameters(), lr=0.1)

    def train() -> None:
        for _ in range(4):
            optimizer.zero_grad()
            net(X, Y, inner=inner)["loss"].backward()
            optimizer.step()

    captured = scalars(watch(tmp_path, train, *LOSSES), "losses")
    assert {loss: list(values) for loss, values in captured.items()} == {name: [0, 1, 2, 3]}


def test_micro_batches_are_one_loss_and_two_call_sites_are_two(tmp_path: Path) -> None:
    model = nn.Linear(4, 3)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    measure = nn.CrossEntropyLoss()
    recorded: list[list[float]] = []

    def train() -> None:
        for _ in range(4):
            optimizer.zero_grad()
            parts = []
            for part in range(3):
                loss = measure(model(X[part::3]), Y[part::3])
                parts.append(loss.item())
                (loss / 3).backward()
            other = functional.mse_loss(model(X), torch.zeros(12, 3))
            other.backward()
            recorded.append([sum(parts) / 3, other.item()])
            optimizer.step()

    captured = scalars(watch(tmp_path, train, *LOSSES), "losses")
    assert captured["CrossEntropyLoss_output_0"] == pytest.approx({step: pair[0] for step, pair in enumerate(recorded)})
    other = next(name for name in captured if name != "CrossEntropyLoss_output_0")
    assert captured[other] == pytest.approx({step: pair[1] for step, pair in enumerate(recorded)})


def test_the_factors_of_scaler_and_script_are_removed(tmp_path: Path) -> None:
    model = nn.Linear(4, 3)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    scaler = torch.amp.GradScaler("cpu", init_scale=1024.0, growth_interval=2)
    recorded: list[float] = []

    def train() -> None:
        for _ in range(6):
            optimizer.zero_grad()
            loss = functional.cross_entropy(model(X), Y)
            recorded.append(loss.item())
            scaler.scale(loss / 2).backward()
            scaler.step(optimizer)
            scaler.update()

    captured = scalars(watch(tmp_path, train, *LOSSES), "losses")
    assert captured == {"cross_entropy_output_0": pytest.approx(dict(enumerate(recorded)), rel=1e-6)}


@pytest.mark.parametrize("kind", ["cross_entropy", "module", "ignored", "segmentation", "soft", "binary", "squares"])
def test_accuracy_is_computed_from_the_predictions_of_the_loss_call(tmp_path: Path, kind: str) -> None:
    torch.manual_seed(1)
    model = nn.Linear(4, 3)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.5)
    measure = nn.CrossEntropyLoss(ignore_index=1)
    accuracies: list[float] = []

    def compute_loss() -> torch.Tensor:
        out = model(X)
        if kind == "binary":
            labels = (Y > 0).float()
            accuracies.append(float(((out[:, 0] > 0) == (labels > 0)).float().mean()))
            return functional.binary_cross_entropy_with_logits(out[:, 0], labels)
        if kind == "squares":
            return functional.mse_loss(out, torch.zeros(12, 3))
        if kind == "ignored":
            counted = Y != 1
            accuracies.append(float((out.argmax(1) == Y)[counted].float().mean()))
            return measure(out, Y)
        if kind == "segmentation":
            pixels = out.reshape(2, 6, 3).transpose(1, 2)
            accuracies.append(float((pixels.argmax(1) == Y.reshape(2, 6)).float().mean()))
            return functional.cross_entropy(pixels, Y.reshape(2, 6))
        accuracies.append(float((out.argmax(1) == Y).float().mean()))
        if kind == "soft":
            return functional.cross_entropy(out, functional.one_hot(Y, 3) * 0.9 + 1 / 30)
        return nn.CrossEntropyLoss()(out, Y) if kind == "module" else functional.cross_entropy(out, target=Y)

    def train() -> None:
        for _ in range(6):
            optimizer.zero_grad()
            compute_loss().backward()
            optimizer.step()

    captured = scalars(watch(tmp_path, train, "metrics:every=2"), "metrics")
    expected = {step: value for step, value in enumerate(accuracies) if step % 2 == 0}
    assert captured == ({"accuracy": pytest.approx(expected)} if accuracies else {})
