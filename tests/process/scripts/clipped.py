"""A training that clips gradients inside and outside of compiled functions; records the number of compilations."""

import hashlib
import json
import sys

import torch
from torch import nn
from torch.nn.utils import clip_grad_norm_


def main() -> None:
    (path,) = sys.argv[1:]
    torch.set_num_threads(1)
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 3))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)

    def backward(inputs, labels):
        nn.functional.cross_entropy(model(inputs), labels).backward()
        return torch.nn.utils.clip_grad_norm_(model.parameters(), 0.2)

    def clip():
        torch.nn.utils.clip_grad_value_(model.parameters(), 0.1)
        return clip_grad_norm_(model.parameters(), 0.2)

    compiled = torch.compile(backward, backend="eager")
    clip_whole = torch.compile(clip, backend="eager", fullgraph=True)
    norms = []
    for step in range(9):
        optimizer.zero_grad(set_to_none=False)
        data = torch.randn(6, 4), torch.randint(3, (6,))
        if step % 3 == 0:
            norms.append(compiled(*data).item())
        else:
            nn.functional.cross_entropy(model(data[0]), data[1]).backward()
            norms.append((clip_whole() if step % 3 == 1 else clip_grad_norm_(model.parameters(), 0.2)).item())
        optimizer.step()
    counters = torch._dynamo.utils.counters
    digest = hashlib.sha256(b"".join(parameter.detach().numpy().tobytes() for parameter in model.parameters()))
    with open(path, "w") as file:
        json.dump(
            {
                "digest": digest.hexdigest(),
                "norms": norms,
                "stats": counters["stats"],
                "graph_breaks": sum(counters["graph_break"].values()),
                "recompiles": len(counters["recompiles"]),
            },
            file,
        )


if __name__ == "__main__":
    main()
