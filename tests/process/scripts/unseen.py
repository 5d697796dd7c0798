"""A training without visible optimizer steps: ``manual`` or ``functional`` updates, or a ``replaced`` step."""

import sys

import torch
from torch import nn


def main() -> None:
    torch.set_num_threads(1)
    torch.manual_seed(0)
    way, model = sys.argv[1], nn.Linear(4, 2)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)

    def descend(gradients: list[torch.Tensor]) -> None:
        with torch.no_grad():
            for parameter, gradient in zip(model.parameters(), gradients, strict=True):
                parameter -= 0.1 * gradient

    def loss_of(parameters: dict[str, torch.Tensor], inputs: torch.Tensor) -> torch.Tensor:
        return torch.func.functional_call(model, parameters, (inputs,)).pow(2).mean()

    optimizer.step = lambda: descend([parameter.grad for parameter in model.parameters()])  # type: ignore[method-assign]
    for _ in range(20):
        inputs = torch.randn(8, 4)
        if way == "functional":
            found = torch.func.grad(loss_of)(dict(model.named_parameters()), inputs)
            descend(list(found.values()))
            continue
        optimizer.zero_grad()
        model(inputs).pow(2).mean().backward()
        if way == "replaced":
            optimizer.step()
        else:
            descend([parameter.grad for parameter in model.parameters()])
    print(model.weight.flatten().tolist())


if __name__ == "__main__":
    main()
