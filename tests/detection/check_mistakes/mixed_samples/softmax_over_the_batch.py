# Asked as: UserWarning about the implicit dimension of softmax, which dim do I want? (StackOverflow)
import torch
from torch import nn


class AttentionPool(nn.Module):
    """Weighs the steps of a series and averages them."""

    def __init__(self, width):
        super().__init__()
        self.score = nn.Linear(width, 1)

    def forward(self, x):
        weights = torch.softmax(self.score(x), dim=0)  # mistake
        # repaired: weights = torch.softmax(self.score(x), dim=1)
        return (weights * x).sum(1)


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.encoder = nn.Sequential(nn.Linear(6, 32), nn.GELU(), nn.Linear(32, 32))
        self.pool = AttentionPool(32)
        self.head = nn.Linear(32, 1)

    def forward(self, x):
        return self.head(self.pool(self.encoder(x))).squeeze(1)


torch.manual_seed(1)
model = Model()
opt = torch.optim.AdamW(model.parameters(), lr=2e-3)
for step in range(50):
    series = torch.randn(24, 10, 6)
    target = series[:, :, 0].max(1).values
    loss = nn.functional.mse_loss(model(series), target)
    opt.zero_grad()
    loss.backward()
    opt.step()
    if step % 10 == 0:
        print(step, loss.item())
