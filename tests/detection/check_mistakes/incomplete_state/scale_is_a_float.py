# Asked as: attributes that are Python numbers are not in the state_dict, inference differs (PyTorch forums)
import torch
from torch import nn

torch.manual_seed(0)


class ScaledRegressor(nn.Module):
    """Standardizes its target by the first batches that it sees."""

    def __init__(self):
        super().__init__()
        self.net = nn.Sequential(nn.Linear(5, 32), nn.ReLU(), nn.Linear(32, 1))
        self.scale = 1.0  # mistake
        # repaired: self.register_buffer("scale", torch.tensor(1.0))

    def observe(self, y):
        new = 0.8 * float(self.scale) + 0.2 * y.std().item()
        self.scale = new  # mistake
        # repaired: self.scale.fill_(new)

    def forward(self, x):
        return self.net(x) * self.scale


model = ScaledRegressor()
optimizer = torch.optim.Adam(model.parameters(), lr=4e-3)
for step in range(50):
    x = torch.randn(48, 5)
    y = 30 * (x[:, :1] + 0.5 * x[:, 1:2])
    if step < 10:
        model.observe(y)
    loss = nn.functional.mse_loss(model(x), y) / 900
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    if step % 10 == 0:
        print(step, loss.item(), float(model.scale))
torch.save(model.state_dict(), "regressor.pt")
