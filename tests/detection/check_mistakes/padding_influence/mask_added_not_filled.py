# Asked as: attention mask of zeros and ones added to the scores, is that right? (StackOverflow)
import torch
from torch import nn

torch.manual_seed(0)


class SetModel(nn.Module):
    """Attends from a learned query over a set of up to ten points."""

    def __init__(self, width=32):
        super().__init__()
        self.encode = nn.Sequential(nn.Linear(2, width), nn.ReLU(), nn.Linear(width, width))
        self.query = nn.Parameter(torch.randn(width) * 0.1)
        self.head = nn.Linear(width, 1)

    def forward(self, points, mask):
        h = self.encode(points)
        scores = h @ self.query
        scores = scores + mask  # mistake
        # repaired: scores = scores.masked_fill(mask == 0, float("-inf"))
        weights = scores.softmax(dim=1)
        return self.head((weights[..., None] * h).sum(1)).squeeze(1)


def sets(size=48):
    number = torch.randint(2, 11, (size, 1))
    mask = (torch.arange(10) < number).float()
    points = torch.randn(size, 10, 2)
    target = (points.prod(-1) * mask).sum(1) / number.squeeze(1)
    return points * mask[..., None], mask, target


model = SetModel()
optimizer = torch.optim.Adam(model.parameters(), lr=3e-3)
for step in range(60):
    points, mask, target = sets()
    loss = nn.functional.mse_loss(model(points, mask), target)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    if step % 20 == 0:
        print(step, loss.item())
