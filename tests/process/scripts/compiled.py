"""A training whose model and optimizer step are compiled; writes down how often that was."""

import hashlib
import json
import sys

import torch
from torch import nn


def main() -> None:
    path, backend = sys.argv[1:]
    torch.set_num_threads(1)
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 3))
    compiled = torch.compile(model, backend=backend)
    optimizer = torch.optim.Adam(model.parameters(), lr=torch.tensor(0.01))
    step_once = torch.compile(optimizer.step, backend=backend)
    counters = torch._dynamo.utils.counters
    losses, weights, early = [], {}, {}
    for step in range(12):
        loss = nn.functional.cross_entropy(compiled(torch.randn(6, 4)), torch.randint(3, (6,)))
        optimizer.zero_grad()
        loss.backward()
        losses.append(loss.item())
        if step == 9:
            weights = {name: each.detach().flatten().tolist() for name, each in model.named_parameters()}
        step_once()
        if step == 3:
            early = dict(counters["frames"])
    parts = [each.detach().numpy().tobytes() for each in model.parameters()]
    with open(path, "w") as file:
        json.dump({
            "digest": hashlib.sha256(b"".join(parts)).hexdigest(),
            "stats": counters["stats"], "frames": counters["frames"], "early": early,
            "losses": losses, "weights": weights,
        }, file)  # fmt: skip


if __name__ == "__main__":
    main()
