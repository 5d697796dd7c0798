"""A short training that prints the imported modules of its process at the end."""

import sys

import torch


def train() -> None:
    torch.set_num_threads(1)
    model = torch.nn.Linear(2, 1)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for _ in range(60):
        optimizer.zero_grad()
        model(torch.randn(4, 2)).pow(2).mean().backward()
        optimizer.step()


if __name__ == "__main__":
    if "--watch" in sys.argv:
        import leadline

        leadline.watch(out="runs", preset="full", budget="off")
    train()
    print(*sys.modules)
