"""Five faulty trainings, each with its repaired twin, to compare tools that diagnose trainings: FAULT [--repaired].

The loop logs as a careful user would, into ``NAME.csv``: loss, learning rate, gradient norm and times of every step,
and the validation after every epoch. Tools that read logs read this file. ``--lines TOOL`` adds the lines that the
README of a tool asks for, and nothing else. Leadline gets the script without them. The results: ``docs/comparison.md``.
"""

from __future__ import annotations

import argparse
import contextlib
import csv
import time
from dataclasses import dataclass
from typing import Any

import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset, TensorDataset

COLUMNS = ("step", "epoch", "train_loss", "lr", "grad_norm", "step_time", "data_time", "val_loss", "val_accuracy")


@dataclass
class Training:
    model: nn.Module
    optimizer: torch.optim.Optimizer
    train: DataLoader
    valid: DataLoader
    epochs: int
    keeps_gradients: bool = False


def clusters(n: int, width: int, classes: int, noise: float = 1.0) -> TensorDataset:
    """Return normal clusters around one center for each class."""
    centers = 2 * torch.randn(classes, width, generator=torch.Generator().manual_seed(1))
    labels = torch.randint(classes, (n,))
    return TensorDataset(centers[labels] + noise * torch.randn(n, width), labels)


def loaders(train: Dataset, valid: Dataset, batch: int = 32) -> tuple[DataLoader, DataLoader]:
    return DataLoader(train, batch, shuffle=True), DataLoader(valid, 128)


def vanishing(is_repaired: bool) -> Training:
    """Ten sigmoid layers, through which almost no gradient comes back; repaired: ReLU."""
    activation = nn.ReLU if is_repaired else nn.Sigmoid
    layers = [nn.Linear(10, 256), activation()]
    for _ in range(9):
        layers += [nn.Linear(256, 256), activation()]
    model = nn.Sequential(*layers, nn.Linear(256, 4))
    for layer in layers[::2]:
        nn.init.kaiming_uniform_(layer.weight, nonlinearity="relu") if is_repaired else nn.init.xavier_uniform_(
            layer.weight
        )
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    train, valid = loaders(clusters(1280, 10, 4, noise=2), clusters(256, 10, 4, noise=2))
    return Training(model, optimizer, train, valid, epochs=8)


def nan(is_repaired: bool) -> Training:
    """A learning rate too high for the momentum: the loss falls at first, and is NaN after some hundred steps."""
    model = nn.Sequential(nn.Linear(10, 1024), nn.ReLU(), nn.Linear(1024, 1024), nn.ReLU(), nn.Linear(1024, 4))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.003 if is_repaired else 0.1, momentum=0.9)
    train, valid = loaders(clusters(1280, 10, 4, noise=2), clusters(256, 10, 4, noise=2))
    return Training(model, optimizer, train, valid, epochs=8)


def overfitting(is_repaired: bool) -> Training:
    """Eighty examples for a wide network; repaired: 4000, in fewer epochs."""
    n, epochs = (12_800, 1) if is_repaired else (80, 100)
    model = nn.Sequential(nn.Linear(40, 1024), nn.ReLU(), nn.Linear(1024, 1024), nn.ReLU(), nn.Linear(1024, 4))
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-4)
    train, valid = loaders(clusters(n, 40, 4, noise=8), clusters(512, 40, 4, noise=8))
    return Training(model, optimizer, train, valid, epochs)


class Slow(Dataset):
    """Reads each example for 3 ms, as a decoder of images does."""

    def __init__(self, rows: Dataset) -> None:
        self.rows = rows

    def __len__(self) -> int:
        return len(self.rows)  # type: ignore[arg-type]

    def __getitem__(self, index: int) -> Any:
        time.sleep(0.003)
        return self.rows[index]


def slow_loading(is_repaired: bool) -> Training:
    """Examples are decoded one after another in the process that trains; repaired: before the training."""
    train = clusters(1280, 256, 10, noise=6)
    model = nn.Sequential(nn.Linear(256, 2048), nn.ReLU(), nn.Linear(2048, 2048), nn.ReLU(), nn.Linear(2048, 10))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.005)
    rows = train if is_repaired else Slow(train)
    return Training(model, optimizer, *loaders(rows, clusters(256, 256, 10, noise=6)), epochs=5)


def zero_grad_forgotten(is_repaired: bool) -> Training:
    """Gradients add up over all steps; repaired: ``zero_grad`` before each backward pass."""
    model = nn.Sequential(nn.Linear(10, 1024), nn.ReLU(), nn.Linear(1024, 1024), nn.ReLU(), nn.Linear(1024, 4))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    train, valid = loaders(clusters(1280, 10, 4, noise=2), clusters(256, 10, 4, noise=2))
    return Training(model, optimizer, train, valid, epochs=8, keeps_gradients=not is_repaired)


FAULTS = {function.__name__: function for function in (vanishing, nan, overfitting, slow_loading, zero_grad_forgotten)}


class Lines:
    """What a tool asks for in the script; nothing."""

    def __init__(self, name: str, training: Training) -> None:
        self.name, self.training = name, training

    def step(self) -> contextlib.AbstractContextManager[object]:
        """Return what stands around a step."""
        return contextlib.nullcontext()

    def after_backward(self, loss: torch.Tensor, step: int) -> None:
        """Record a step before its update."""

    def log(self, values: dict[str, float]) -> None:
        """Tell the values of a step, or of an evaluation."""

    def end(self) -> None:
        """End the run."""


class Traceml(Lines):
    def __init__(self, name: str, training: Training) -> None:
        super().__init__(name, training)
        import traceml_ai

        self.traceml = traceml_ai
        traceml_ai.init(mode="auto")

    def step(self) -> contextlib.AbstractContextManager[object]:
        return self.traceml.trace_step(self.training.model)


class Trackio(Lines):
    def __init__(self, name: str, training: Training) -> None:
        super().__init__(name, training)
        import trackio

        self.trackio = trackio
        trackio.init(project="five-faults", name=name)

    def log(self, values: dict[str, float]) -> None:
        self.trackio.log(values)

    def end(self) -> None:
        self.trackio.finish()


class Trainscope(Lines):
    def __init__(self, name: str, training: Training) -> None:
        super().__init__(name, training)
        from trainscope import TrainScope
        from trainscope.core.config import TrainScopeConfig

        config = TrainScopeConfig(run_name=name)
        self.scope = TrainScope(training.model, training.optimizer, config=config).attach()

    def after_backward(self, loss: torch.Tensor, step: int) -> None:
        spike = self.scope.step(loss.item(), batch_index=step)
        if spike:
            print(f"Spike at step {spike['step']}, score={spike['spike_score']:.2f}")

    def end(self) -> None:
        self.scope.detach()


LINES = {"": Lines, "traceml": Traceml, "trackio": Trackio, "trainscope": Trainscope}


def validate(training: Training) -> dict[str, float]:
    training.model.eval()
    loss = right = total = 0.0
    with torch.no_grad():
        for x, y in training.valid:
            scores = training.model(x)
            loss += nn.functional.cross_entropy(scores, y).item() * len(y)
            right += (scores.argmax(1) == y).sum().item()
            total += len(y)
    training.model.train()
    return {"val_loss": loss / total, "val_accuracy": right / total}


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("fault", choices=FAULTS)
    parser.add_argument("--repaired", action="store_true")
    parser.add_argument("--lines", choices=LINES, default="")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--epochs", type=int, help="default: what the fault needs to be seen")
    options = parser.parse_args()
    torch.manual_seed(options.seed)
    torch.set_num_threads(1)
    training = FAULTS[options.fault](options.repaired)
    name = options.fault + ("-repaired" if options.repaired else "")
    lines = LINES[options.lines](name, training)
    model = training.model
    optimizer = training.optimizer
    step = 0
    with open(f"{name}.csv", "w", newline="") as file:
        table = csv.DictWriter(file, COLUMNS)
        table.writeheader()
        for epoch in range(options.epochs or training.epochs):
            begun = time.perf_counter()
            for x, y in training.train:
                loaded = time.perf_counter()
                with lines.step():
                    if not training.keeps_gradients:
                        optimizer.zero_grad()
                    loss = nn.functional.cross_entropy(model(x), y)
                    loss.backward()
                    lines.after_backward(loss, step)
                    norm = nn.utils.get_total_norm([p.grad for p in model.parameters()])
                    optimizer.step()
                now = time.perf_counter()
                values = {"train_loss": loss.item(), "lr": optimizer.param_groups[0]["lr"], "grad_norm": norm.item()}
                values |= {"step_time": now - begun, "data_time": loaded - begun}
                lines.log(values)
                table.writerow({"step": step, "epoch": epoch, **values})
                begun = now
                step += 1
            valid = validate(training)
            lines.log(valid)
            table.writerow({"step": step - 1, "epoch": epoch, **valid})
            print(f"epoch {epoch} loss {loss.item():.4f} val_loss {valid['val_loss']:.4f}", flush=True)
    lines.end()


if __name__ == "__main__":
    main()
