"""A classifier with probabilities and a logarithm by hand.

Mistake: nn.Softmax(dim=0) normalizes over the batch.
"""

import torch
from torch import nn

model = nn.Sequential(
    nn.Linear(9, 27),
    nn.ReLU(),
    nn.Linear(27, 3),
    nn.Softmax(dim=0),  # mistake
    # repaired: nn.Softmax(dim=1),
)
nll = nn.NLLLoss()
opt = torch.optim.Adam(model.parameters(), lr=0.004)
for step in range(100):
    y = torch.randint(3, (30,))
    x = torch.randn(30, 9)
    x[torch.arange(30), y] += 2.0
    loss = nll(model(x).log(), y)
    opt.zero_grad()
    loss.backward()
    opt.step()
    if step % 20 == 0:
        print(step, loss.item())
