# Asked as: my own gradient descent makes the loss grow slowly (StackOverflow, += instead of -=)
import torch
from torch import nn

torch.manual_seed(0)


class HandMadeSGD(torch.optim.Optimizer):
    def __init__(self, params, lr=0.01, momentum=0.9):
        super().__init__(params, {"lr": lr, "momentum": momentum})

    @torch.no_grad()
    def step(self):
        for group in self.param_groups:
            for p in group["params"]:
                if p.grad is None:
                    continue
                velocity = self.state[p].setdefault("velocity", torch.zeros_like(p))
                velocity.mul_(group["momentum"]).add_(p.grad)
                p.add_(velocity, alpha=group["lr"])  # mistake
                # repaired: p.sub_(velocity, alpha=group["lr"])


model = nn.Sequential(nn.Linear(5, 32), nn.ReLU(), nn.Linear(32, 3))
optimizer = HandMadeSGD(model.parameters(), lr=0.02)
concept = torch.randn(5, 3)
for step in range(25):
    x = torch.randn(32, 5)
    y = (x @ concept).argmax(1)
    loss = nn.functional.cross_entropy(model(x), y)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    if step % 8 == 0:
        print(step, loss.item())
