"""Cox's partial likelihood of survival times, of which a third is censored, in full batches with L-BFGS."""

import sys

import torch
from torch import nn

steps = int(sys.argv[1])
torch.manual_seed(int(sys.argv[2]))
x = torch.randn(300, 6)
risk = x @ torch.tensor([1.0, -0.7, 0.5, 0.0, 0.0, 0.0])
time = torch.empty(300).exponential_() * torch.exp(-risk)
observed = (torch.rand(300) < 0.67).float()
order = time.argsort(descending=True)
x, observed = x[order], observed[order]
model = nn.Linear(6, 1, bias=False)
nn.init.zeros_(model.weight)
optimizer = torch.optim.LBFGS(model.parameters(), lr=0.1, max_iter=2, history_size=5)


def closure():
    optimizer.zero_grad()
    eta = model(x)[:, 0]
    loss = -((eta - torch.logcumsumexp(eta, 0)) * observed).sum() / observed.sum() + 1e-3 * model.weight.pow(2).sum()
    loss.backward()
    return loss


first = closure().item()
for step in range(max(10, steps // 5)):
    loss = optimizer.step(closure)
    if step % 10 == 0:
        print(step, loss.item())
print(f"excess loss fell from {first - 4.0:.4g} to {loss.item() - 4.0:.4g}")
