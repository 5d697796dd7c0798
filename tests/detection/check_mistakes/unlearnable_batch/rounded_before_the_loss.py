# Asked as: loss.backward() works, but weights do not change; I round the outputs to classes (StackOverflow)
import torch
from torch import nn

torch.manual_seed(0)


class Stars(nn.Module):
    """Predicts a rating of one to five stars."""

    def __init__(self):
        super().__init__()
        self.net = nn.Sequential(nn.Linear(7, 32), nn.ReLU(), nn.Linear(32, 1))
        self.offset = nn.Parameter(torch.tensor(3.0))

    def forward(self, x):
        score = self.net(x)
        score = score.round()  # mistake
        # repaired: score = score * 1.0
        return (score + self.offset).squeeze(1)


model = Stars()
optimizer = torch.optim.Adam(model.parameters(), lr=5e-3)
for step in range(60):
    x = torch.randn(32, 7)
    y = (3 + x[:, 0] - x[:, 1]).clamp(1, 5)
    loss = nn.functional.mse_loss(model(x), y)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    if step % 20 == 0:
        print(step, loss.item())
