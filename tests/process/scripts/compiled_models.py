"""Trainings of compiled models one after the other, the last one not compiled; records losses and compilations.

Usage: compiled_models.py PATH.
"""

import hashlib
import json
import sys
from collections.abc import Callable

import torch
from torch import nn

STEPS = 5


class Net(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.first = nn.Linear(4, 8)
        self.blocks = nn.ModuleList(Block() for _ in range(2))
        self.head = nn.Linear(8, 3)

    def forward(self, x: torch.Tensor, labels: torch.Tensor | None = None):
        x = self.first(x)
        for block in self.blocks:
            x = block(x)
        x = self.head(x)
        return x if labels is None else (x, nn.functional.cross_entropy(x, labels))


class Block(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.inner = nn.Linear(8, 8)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.inner(x).relu()


def whole(model: Net) -> nn.Module:
    return torch.compile(model, backend="aot_eager")


def in_place(model: Net) -> nn.Module:
    model.compile(backend="aot_eager")
    return model


def parts(model: Net) -> nn.Module:
    for index, block in enumerate(model.blocks):
        model.blocks[index] = torch.compile(block, backend="aot_eager")
    return model


def optimizer_too(model: Net) -> nn.Module:
    return torch.compile(backend="aot_eager")(model)


def nothing(model: Net) -> nn.Module:
    return model


def trained(compiled: Callable[[Net], nn.Module], *, has_own_loss: bool = False) -> dict[str, object]:
    torch.manual_seed(0)
    torch._dynamo.reset()
    torch._dynamo.utils.counters.clear()
    plain = Net()
    model = compiled(plain)
    optimizer = torch.optim.Adam(plain.parameters(), lr=torch.tensor(0.01))
    step_once = torch.compile(optimizer.step, backend="aot_eager") if compiled is optimizer_too else optimizer.step

    def loss_of(inputs: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
        if has_own_loss:
            return model(inputs, labels)[1]
        return nn.functional.cross_entropy(model(inputs), labels)

    losses, evaluated, inputs_seen = [], [], []
    for _ in range(STEPS):
        inputs, labels = torch.randn(6, 4), torch.randint(3, (6,))
        optimizer.zero_grad()
        loss = loss_of(inputs, labels)
        loss.backward()
        step_once()
        losses.append(loss.item())
        inputs_seen.append(inputs.mean().item())
    model.eval()
    with torch.no_grad():
        evaluated += [loss_of(torch.randn(6, 4), torch.randint(3, (6,))).item() for _ in range(2)]
    model.train()
    parts = [parameter.detach().numpy().tobytes() for parameter in plain.parameters()]
    counters = {name: dict(counts) for name, counts in torch._dynamo.utils.counters.items()}
    return {
        "losses": losses,
        "evaluated": evaluated,
        "inputs": inputs_seen,
        "digest": hashlib.sha256(b"".join(parts)).hexdigest(),
        "counters": counters,
    }


def main() -> None:
    torch.set_num_threads(1)
    found = [trained(kind) for kind in (whole, in_place, parts, optimizer_too)]
    found += [trained(whole, has_own_loss=True), trained(nothing)]
    with open(sys.argv[1], "w") as file:
        json.dump(found, file)


if __name__ == "__main__":
    main()
