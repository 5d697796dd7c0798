"""A training that checks whether torch is installed before importing it, as many libraries do."""

import importlib.util


def main() -> None:
    assert importlib.util.find_spec("torch") is not None
    import torch

    model = torch.nn.Linear(2, 1)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for _ in range(3):
        optimizer.zero_grad()
        model(torch.randn(4, 2)).pow(2).mean().backward()
        optimizer.step()


if __name__ == "__main__":
    main()
