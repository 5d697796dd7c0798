"""One encoder for anchors, positives and negatives, with a triplet margin loss."""

import torch
from torch import nn

torch.manual_seed(0)


class Encoder(nn.Module):
    def __init__(self):
        super().__init__()
        self.net = nn.Sequential(nn.Linear(16, 48), nn.ReLU(), nn.Dropout(0.1), nn.Linear(48, 12))

    def forward(self, x):
        return nn.functional.normalize(self.net(x), dim=1)


encoder = Encoder()
optimizer = torch.optim.Adam(encoder.parameters(), lr=2e-3)
criterion = nn.TripletMarginLoss(margin=0.4)
people = torch.randn(30, 16)
for step in range(50):
    who = torch.randint(0, 30, (32,))
    other = (who + torch.randint(1, 30, (32,))) % 30
    a, p, n = (people[i] + torch.randn(32, 16) for i in (who, who, other))
    loss = criterion(encoder(a), encoder(p), encoder(n))
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    if step % 10 == 0:
        print(step, loss.item())
