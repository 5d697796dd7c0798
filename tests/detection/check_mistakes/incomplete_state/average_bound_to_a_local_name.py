# Asked as: "param = ema_param" does not copy the average of WeightEMA into the model (https://github.com/YU1ut/MixMatch-pytorch/pull/23)
import copy

import torch
import torch.nn.functional as F
from torch import nn

torch.manual_seed(0)


class WeightAverage:
    def __init__(self, model, averaged, alpha=0.9):
        self.ours, self.averaged, self.alpha = list(model.parameters()), list(averaged.parameters()), alpha

    @torch.no_grad()
    def step(self):
        for ours, theirs in zip(self.ours, self.averaged, strict=True):
            theirs = self.alpha * theirs + (1 - self.alpha) * ours  # mistake
            # repaired: theirs.copy_(self.alpha * theirs + (1 - self.alpha) * ours)


net = nn.Sequential(nn.Linear(8, 32), nn.ReLU(), nn.Linear(32, 3))
averaged_net = copy.deepcopy(net)
average = WeightAverage(net, averaged_net)
optimizer = torch.optim.Adam(net.parameters(), lr=3e-3)
rule = torch.randn(8, 3)
held_out = torch.randn(200, 8)
for step in range(60):
    x = torch.randn(48, 8)
    loss = F.cross_entropy(net(x), (x @ rule).argmax(1))
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    average.step()
    if step % 10 == 9:
        with torch.no_grad():
            agreed = averaged_net(held_out).argmax(1) == (held_out @ rule).argmax(1)
        print(step, loss.item(), agreed.float().mean().item())
