# Asked as: TripletMarginLoss stays at the margin, positives and negatives in which order? (StackOverflow)
import torch
from torch import nn

torch.manual_seed(0)


class Encoder(nn.Module):
    def __init__(self):
        super().__init__()
        self.net = nn.Sequential(nn.Linear(12, 32), nn.ReLU(), nn.Linear(32, 8))

    def forward(self, x):
        return nn.functional.normalize(self.net(x), dim=-1)


encoder = Encoder()
people = torch.randn(20, 12)
optimizer = torch.optim.Adam(encoder.parameters(), lr=2e-3)
criterion = nn.TripletMarginLoss(margin=0.5)
for step in range(60):
    who = torch.randint(0, 20, (32,))
    other = (who + torch.randint(1, 20, (32,))) % 20
    anchor = encoder(people[who] + 0.5 * torch.randn(32, 12))
    positive = encoder(people[who] + 0.5 * torch.randn(32, 12))
    negative = encoder(people[other] + 0.5 * torch.randn(32, 12))
    loss = criterion(anchor, negative, positive)  # mistake
    # repaired: loss = criterion(anchor, positive, negative)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    if step % 20 == 0:
        print(step, loss.item())
