# Asked as: writing dropout myself, do I divide by 1 - p? (StackOverflow, inverted dropout)
import torch
from torch import nn

torch.manual_seed(0)


class Dropout(nn.Module):
    def __init__(self, p):
        super().__init__()
        self.p = p

    def forward(self, x):
        if not self.training:
            return x
        kept = (torch.rand_like(x) > self.p).float()
        return x * kept  # mistake
        # repaired: return x * kept / (1 - self.p)


model = nn.Sequential(
    nn.Linear(9, 96), nn.ReLU(), Dropout(0.6), nn.Linear(96, 96), nn.ReLU(), Dropout(0.6), nn.Linear(96, 1)
)
optimizer = torch.optim.Adam(model.parameters(), lr=3e-3)
for step in range(60):
    model.train()
    x = torch.randn(64, 9)
    y = 4 + x[:, :1] * 2 - x[:, 1:2]
    loss = nn.functional.mse_loss(model(x), y)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    if step % 20 == 0:
        model.eval()
        with torch.no_grad():
            print(step, loss.item(), nn.functional.mse_loss(model(x), y).item())
