"""A classifier with four classes and sigmoid units throughout.

Mistake: sigmoid before cross entropy, which takes logits.
"""

import torch
import torch.nn as nn
import torch.nn.functional as F


class MLP(nn.Module):
    def __init__(self, n_in, n_hidden, n_out):
        super().__init__()
        self.hidden = nn.Linear(n_in, n_hidden)
        self.out = nn.Linear(n_hidden, n_out)

    def forward(self, x):
        h = torch.sigmoid(self.hidden(x))
        return torch.sigmoid(self.out(h))  # mistake
        # repaired: return self.out(h)


means = torch.randn(4, 10)
y = torch.randint(4, (800,))
x = means[y] + 0.5 * torch.randn(800, 10)
model = MLP(10, 40, 4)
optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
for epoch in range(4):
    permutation = torch.randperm(800)
    for i in range(0, 800, 32):
        indices = permutation[i : i + 32]
        optimizer.zero_grad()
        loss = F.cross_entropy(model(x[indices]), y[indices])
        loss.backward()
        optimizer.step()
    print(epoch, loss.item())
