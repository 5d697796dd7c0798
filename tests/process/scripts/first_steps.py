"""Small trainings that are healthy or faulty from their first steps: FOLDER; each is a run of its own.

The faulty ones are captured as by default; of the healthy ones everything that any rule needs is captured.
"""

from __future__ import annotations

import itertools
import sys
from collections.abc import Callable, Iterator

import torch
from torch import nn
from torch.nn import functional as F
from watched_runs import watched

Batch = tuple[torch.Tensor, torch.Tensor]
STEPS = 120


def classes(steps: int = STEPS, count: int = 4, size: int = 32) -> Iterator[Batch]:
    centres = torch.randn(count, 16)
    for _ in range(steps):
        labels = torch.randint(count, (size,))
        yield centres[labels] + torch.randn(size, 16), labels


def values(steps: int = STEPS, size: int = 32) -> Iterator[Batch]:
    slope = torch.randn(16, 1)
    for _ in range(steps):
        inputs = torch.randn(size, 16)
        yield inputs, inputs @ slope / 4


def step(optimizer: torch.optim.Optimizer, loss: torch.Tensor) -> None:
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()


def net(*sizes: int, activation: type[nn.Module] = nn.ReLU) -> nn.Sequential:
    layers: list[nn.Module] = []
    for width, following in itertools.pairwise(sizes):
        layers += [nn.Linear(width, following), activation()]
    return nn.Sequential(*layers[:-1])


# --- healthy -------------------------------------------------------------------------------------------------


class Scaled(nn.Module):
    """A regression with a bias in front of a normalization, a scale without dimensions and a bias of one."""

    def __init__(self) -> None:
        super().__init__()
        self.body = nn.Sequential(nn.Linear(16, 32), nn.BatchNorm1d(32), nn.ReLU(), nn.Linear(32, 1))
        self.scale = nn.Parameter(torch.ones(()))

    def forward(self, inputs: torch.Tensor) -> torch.Tensor:
        return self.body(inputs) * self.scale


def small_parameters() -> None:
    model = Scaled()
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-2)
    for inputs, labels in values():
        step(optimizer, F.mse_loss(model(inputs), labels))


def deep_defaults() -> None:
    model = net(16, 64, 64, 64, 64, 4)
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
    for inputs, labels in classes():
        step(optimizer, F.cross_entropy(model(inputs), labels))


class Adapted(nn.Module):
    """A frozen layer with a low-rank adapter, whose second factor starts with zeros, as does the head."""

    def __init__(self) -> None:
        super().__init__()
        self.down, self.up = nn.Linear(16, 4, bias=False), nn.Linear(4, 16, bias=False)
        self.frozen, self.head = nn.Linear(16, 16).requires_grad_(False), nn.Linear(16, 4)
        nn.init.zeros_(self.up.weight)
        nn.init.zeros_(self.head.weight)
        nn.init.constant_(self.frozen.weight, 500.0)
        self.register_buffer("positions", torch.full((64,), 10**6))

    def forward(self, inputs: torch.Tensor) -> torch.Tensor:
        return self.head(torch.tanh(self.frozen(inputs) / 1e4) + self.up(self.down(inputs)) + inputs)


def adapter_in_warm_up() -> None:
    model = Adapted()
    optimizer = torch.optim.AdamW([each for each in model.parameters() if each.requires_grad], lr=1e-2)
    schedule = torch.optim.lr_scheduler.LambdaLR(optimizer, lambda at: min(1.0, at / 20))
    for inputs, labels in classes():
        step(optimizer, F.cross_entropy(model(inputs), labels))
        schedule.step()


def converged() -> None:
    model = nn.Linear(16, 1)
    optimizer = torch.optim.LBFGS(model.parameters(), lr=1.0, max_iter=4)
    inputs = torch.randn(64, 16)
    labels = inputs @ torch.randn(16, 1)

    def loss() -> torch.Tensor:
        optimizer.zero_grad()
        value = F.mse_loss(model(inputs), labels)
        value.backward()
        return value

    for _ in range(STEPS):
        optimizer.step(loss)


def satisfied_margin() -> None:
    model = net(16, 32, 4)
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-2)
    centres = 20 * torch.randn(4, 16)
    for _ in range(300):
        labels = torch.randint(4, (32,))
        step(optimizer, F.multi_margin_loss(model(centres[labels] + torch.randn(32, 16)), labels))


def pretrained() -> None:
    model, slope = nn.Linear(16, 1), torch.randn(1, 16)
    with torch.no_grad():
        model.weight.copy_(slope)
        model.bias.zero_()
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-2)
    for _ in range(STEPS):
        inputs = torch.randn(32, 16)
        step(optimizer, F.mse_loss(model(inputs), inputs @ slope.T + 0.1 * torch.randn(32, 1)))


def adversarial() -> None:
    generator, critic = net(8, 32, 2), net(2, 32, 1)
    of_generator = torch.optim.Adam(generator.parameters(), lr=1e-3)
    of_critic = torch.optim.Adam(critic.parameters(), lr=2e-3)
    loss = nn.BCEWithLogitsLoss()
    ones, zeros = torch.ones(32, 1), torch.zeros(32, 1)
    for _ in range(200):
        real, made = torch.randn(32, 2) + 3, generator(torch.randn(32, 8))
        step(of_critic, loss(critic(real), ones) + loss(critic(made.detach()), zeros))
        step(of_generator, loss(critic(made), ones))


def summed_loss() -> None:
    model = net(16, 32, 1)
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-2)
    for inputs, labels in values():
        step(optimizer, F.mse_loss(model(inputs), labels, reduction="sum"))


# --- faulty --------------------------------------------------------------------------------------------------


def of_output(change: Callable[[torch.Tensor], torch.Tensor]) -> Callable[[], None]:
    """Return a classifier's training whose output is changed in front of the loss."""

    def train() -> None:
        model = net(16, 32, 4)
        optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
        for inputs, labels in classes():
            step(optimizer, F.cross_entropy(change(model(inputs)), labels))

    return train


def detached_encoder() -> None:
    encoder, head = net(16, 32, 32), nn.Linear(32, 4)
    model = nn.ModuleDict({"encoder": encoder, "head": head})
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
    for inputs, labels in classes():
        step(optimizer, F.cross_entropy(head(torch.relu(encoder(inputs)).detach()), labels))


def dead_units() -> None:
    model = net(16, 32, 32, 4)
    nn.init.constant_(model[2].bias, -100.0)
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
    for inputs, labels in classes():
        step(optimizer, F.cross_entropy(model(inputs), labels))


def one_class() -> None:
    model = net(16, 32, 1)
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
    for inputs, _ in classes():
        step(optimizer, F.cross_entropy(model(inputs), torch.zeros(len(inputs), dtype=torch.long)))


def new_loss_tensor() -> None:
    model = net(16, 32, 1)
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
    for inputs, labels in values():
        loss = F.mse_loss(model(inputs), labels)
        step(optimizer, torch.tensor(loss.item(), requires_grad=True))


def huge_rate() -> None:
    model = net(16, 32, 32, 4)
    optimizer = torch.optim.Adam(model.parameters(), lr=3.0)
    for inputs, labels in classes():
        step(optimizer, F.cross_entropy(model(inputs), labels))


def unscaled_pixels() -> None:
    model = net(16, 32, 1)
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-9)
    for inputs, labels in values():
        step(optimizer, F.mse_loss(model(255 * inputs), labels))


HEALTHY = (
    small_parameters,
    deep_defaults,
    adapter_in_warm_up,
    converged,
    satisfied_margin,
    pretrained,
    adversarial,
    summed_loss,
)
FAULTY = {
    "detached_output": of_output(lambda output: output.detach().requires_grad_()),
    "rounded_output": of_output(torch.round),
    "detached_encoder": detached_encoder,
    "dead_units": dead_units,
    "one_class": one_class,
    "new_loss_tensor": new_loss_tensor,
    "huge_rate": huge_rate,
    "unscaled_pixels": unscaled_pixels,
}


def main() -> None:
    torch.set_num_threads(1)
    for train in HEALTHY:
        torch.manual_seed(0)
        with watched(sys.argv[1], train.__name__):
            train()
    for name, train in FAULTY.items():
        torch.manual_seed(0)
        with watched(sys.argv[1], name, is_default=True):
            train()


if __name__ == "__main__":
    main()
