"""What losses are called, how large they are, and how often their predictions were right."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from torch import nn
from torch.nn import functional
from watched import scalars, watch

LOSSES = ("losses:every=1",)
X, Y = torch.randn(12, 4, generator=torch.Generator().manual_seed(0)), torch.arange(12) % 3


def steps(loss: Callable[[nn.Module, int], torch.Tensor], count: int = 5) -> tuple[Callable[[], None], list[float]]:
    """A training that calls backward on what ``loss`` gives, and the losses that ``loss`` noted."""
    model = nn.Linear(4, 3)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    noted: list[float] = []

    def train() -> None:
        for step in range(count):
            optimizer.zero_grad()
            loss(model, step).backward()
            optimizer.step()

    return train, noted


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
        lambda loss: (loss * 2 / 3).sum(),
        lambda loss: loss / torch.tensor(8.0),
    ],
)
def test_a_loss_bears_the_name_of_its_call_and_its_own_size(
    tmp_path: Path, measure: Callable[..., torch.Tensor], name: str, scale: Callable[[torch.Tensor], torch.Tensor]
) -> None:
    def one(model: nn.Module, step: int) -> torch.Tensor:
        loss = measure(model(X), Y)
        scaled = scale(loss)
        noted.append(float((scaled if name == "loss" else loss).detach()))
        return scaled

    train, noted = steps(one)
    found = scalars(watch(tmp_path, train, *LOSSES), "losses")
    assert list(found) == [name]
    assert found[name] == pytest.approx(dict(enumerate(noted)), rel=1e-6)


def test_a_sum_of_losses_is_a_loss_of_its_own(tmp_path: Path) -> None:
    def one(model: nn.Module, step: int) -> torch.Tensor:
        out = model(X)
        loss = functional.cross_entropy(out, Y) + 0.1 * out.pow(2).mean()
        noted.append(loss.item())
        return loss

    train, noted = steps(one)
    assert scalars(watch(tmp_path, train, *LOSSES), "losses") == {"loss": pytest.approx(dict(enumerate(noted)))}


def test_a_module_of_the_scripts_own_gives_the_loss_its_name(tmp_path: Path) -> None:
    class Focal(nn.Module):
        def forward(self, out: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
            p = out.softmax(1).gather(1, y[:, None])
            return (-((1 - p) ** 2) * p.log()).mean()

    focal = Focal()
    train, _ = steps(lambda model, step: focal(model(X), Y))
    assert list(scalars(watch(tmp_path, train, *LOSSES), "losses")) == ["Focal_output_0"]


@pytest.mark.parametrize(("inner", "name"), [(True, "criterion_output_0"), (False, "Net_output_0")])
def test_a_model_that_gives_its_loss_itself(tmp_path: Path, inner: bool, name: str) -> None:
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

    found = scalars(watch(tmp_path, train, *LOSSES), "losses")
    assert {each: list(values) for each, values in found.items()} == {name: [0, 1, 2, 3]}


def test_micro_batches_are_one_loss_and_two_places_are_two(tmp_path: Path) -> None:
    model = nn.Linear(4, 3)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    measure = nn.CrossEntropyLoss()
    noted: list[list[float]] = []

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
            noted.append([sum(parts) / 3, other.item()])
            optimizer.step()

    found = scalars(watch(tmp_path, train, *LOSSES), "losses")
    assert found["CrossEntropyLoss_output_0"] == pytest.approx({step: each[0] for step, each in enumerate(noted)})
    other = next(name for name in found if name != "CrossEntropyLoss_output_0")
    assert found[other] == pytest.approx({step: each[1] for step, each in enumerate(noted)})


def test_a_gradient_scalers_factor_is_taken_out_with_the_scripts_own(tmp_path: Path) -> None:
    model = nn.Linear(4, 3)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    scaler = torch.amp.GradScaler("cpu", init_scale=1024.0, growth_interval=2)
    noted: list[float] = []

    def train() -> None:
        for _ in range(6):
            optimizer.zero_grad()
            loss = functional.cross_entropy(model(X), Y)
            noted.append(loss.item())
            scaler.scale(loss / 2).backward()
            scaler.step(optimizer)
            scaler.update()

    found = scalars(watch(tmp_path, train, *LOSSES), "losses")
    assert found == {"cross_entropy_output_0": pytest.approx(dict(enumerate(noted)), rel=1e-6)}


@pytest.mark.parametrize("kind", ["cross_entropy", "module", "ignored", "segmentation", "soft", "binary", "squares"])
def test_accuracy_is_that_of_the_loss_calls_own_predictions(tmp_path: Path, kind: str) -> None:
    torch.manual_seed(1)
    model = nn.Linear(4, 3)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.5)
    measure = nn.CrossEntropyLoss(ignore_index=1)
    right: list[float] = []

    def one() -> torch.Tensor:
        out = model(X)
        if kind == "binary":
            labels = (Y > 0).float()
            right.append(float(((out[:, 0] > 0) == (labels > 0)).float().mean()))
            return functional.binary_cross_entropy_with_logits(out[:, 0], labels)
        if kind == "squares":
            return functional.mse_loss(out, torch.zeros(12, 3))
        if kind == "ignored":
            kept = Y != 1
            right.append(float((out.argmax(1) == Y)[kept].float().mean()))
            return measure(out, Y)
        if kind == "segmentation":
            pixels = out.reshape(2, 6, 3).transpose(1, 2)
            right.append(float((pixels.argmax(1) == Y.reshape(2, 6)).float().mean()))
            return functional.cross_entropy(pixels, Y.reshape(2, 6))
        right.append(float((out.argmax(1) == Y).float().mean()))
        if kind == "soft":
            return functional.cross_entropy(out, functional.one_hot(Y, 3) * 0.9 + 1 / 30)
        return nn.CrossEntropyLoss()(out, Y) if kind == "module" else functional.cross_entropy(out, target=Y)

    def train() -> None:
        for _ in range(6):
            optimizer.zero_grad()
            one().backward()
            optimizer.step()

    found = scalars(watch(tmp_path, train, "metrics:every=2"), "metrics")
    expected = {step: value for step, value in enumerate(right) if step % 2 == 0}
    assert found == ({"accuracy": pytest.approx(expected)} if right else {})
