"""A training with a compiled model and optimizer step; records the number of compilations.

Usage: compiled.py PATH BACKEND [STEPS [late] [model]]; ``late``: the script creates a hook after ``torch.compile``;
``model``: the optimizer step is not compiled.
From step 50 on the batch size differs, which recompiles the model in a captured step.
"""

import hashlib
import json
import sys

import torch
from torch import nn

EARLY = 53


def main() -> None:
    path, backend, *more = sys.argv[1:]
    torch.set_num_threads(1)
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 3))
    compiled = torch.compile(model, backend=backend)
    if "late" in more:
        import leadline.torch

        leadline.torch.Hook(out="runs", capture=["layers:every=1"])
    optimizer = torch.optim.Adam(model.parameters(), lr=torch.tensor(0.01))
    step_once = optimizer.step if "model" in more else torch.compile(optimizer.step, backend=backend)
    counters = torch._dynamo.utils.counters
    losses, weights, early = [], {}, {}
    for step in range(int(more[0]) if more else 12):
        size = 6 if step < 50 else 9
        # this loss does not come from a function of PyTorch, so Leadline names it
        logits, labels = compiled(torch.randn(size, 4)), torch.randint(3, (size, 1))
        loss = (logits.logsumexp(1) - logits.gather(1, labels)[:, 0]).mean()
        optimizer.zero_grad()
        loss.backward()
        losses.append(loss.item())
        if step == 9:
            weights = {name: weight.detach().flatten().tolist() for name, weight in model.named_parameters()}
        step_once()
        if step in (3, EARLY):
            early = dict(counters["frames"])
    parts = [parameter.detach().numpy().tobytes() for parameter in model.parameters()]
    with open(path, "w") as file:
        json.dump(
            {
                "digest": hashlib.sha256(b"".join(parts)).hexdigest(),
                "counters": {name: counters[name] for name in ("stats", "graph_break", "unimplemented", "inline_call")},
                "stats": counters["stats"],
                "frames": counters["frames"],
                "early": early,
                "losses": losses,
                "weights": weights,
            },
            file,
        )


if __name__ == "__main__":
    main()
