"""A softmax written by hand.

Mistake: exp of large scores overflows, and infinity over infinity is not a number.
"""

import torch
from torch import nn

net = nn.Sequential(nn.Linear(5, 40), nn.ReLU(), nn.Linear(40, 3))
optimizer = torch.optim.Adam(net.parameters(), lr=0.01)
means = torch.randn(3, 5)
for step in range(100):
    y = torch.randint(3, (32,))
    x = means[y] + 0.3 * torch.randn(32, 5)
    scores = 300 * net(x)  # mistake
    exps = torch.exp(scores)  # mistake
    # repaired: scores = net(x)
    # repaired: exps = torch.exp(scores - scores.max(dim=1, keepdim=True).values)
    p = exps / exps.sum(dim=1, keepdim=True)
    loss = -torch.log(p[torch.arange(32), y] + 1e-8).mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    if step % 20 == 0:
        print(step, loss.item())
