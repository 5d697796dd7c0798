"""Skip-gram with negative samples, the loss summed over the batch, and plain SGD with a rate that falls."""

import sys

import torch
import torch.nn.functional as F
from torch import nn

steps = int(sys.argv[1])
torch.manual_seed(int(sys.argv[2]))
V, TOPICS = 60, 6


class SkipGram(nn.Module):
    def __init__(self):
        super().__init__()
        self.center, self.context = nn.Embedding(V, 16), nn.Embedding(V, 16)
        nn.init.uniform_(self.center.weight, -0.5 / 16, 0.5 / 16)
        nn.init.zeros_(self.context.weight)

    def forward(self, center, context, negative):
        c = self.center(center)
        positive = F.logsigmoid((c * self.context(context)).sum(1))
        others = F.logsigmoid(-(self.context(negative) @ c[:, :, None])[..., 0]).sum(1)
        return -(positive + others).sum()


model = SkipGram()
optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
scheduler = torch.optim.lr_scheduler.LinearLR(optimizer, 1.0, 0.1, total_iters=steps)
history = []
for step in range(steps):
    topic = torch.randint(TOPICS, (64,))
    center = topic * 10 + torch.randint(10, (64,))
    context = topic * 10 + torch.randint(10, (64,))
    loss = model(center, context, torch.randint(V, (64, 4)))
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    scheduler.step()
    history.append(loss.item() / 64)
    if step % 50 == 0:
        print(step, history[-1])
print(f"loss fell from {history[0]:.4g} to {sum(history[-10:]) / 10:.4g}")
