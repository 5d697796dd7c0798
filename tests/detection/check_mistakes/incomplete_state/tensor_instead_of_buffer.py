# Asked as: my random Fourier features are different after loading (PyTorch forums, register_buffer)
import torch
from torch import nn

torch.manual_seed(0)


class FourierFeatures(nn.Module):
    def __init__(self, inputs=2, features=24):
        super().__init__()
        frequencies = torch.randn(inputs, features) * 2
        self.frequencies = frequencies  # mistake
        # repaired: self.register_buffer("frequencies", frequencies)

    def forward(self, x):
        angle = x @ self.frequencies
        return torch.cat([angle.sin(), angle.cos()], dim=-1)


model = nn.Sequential(FourierFeatures(), nn.Linear(48, 48), nn.ReLU(), nn.Linear(48, 1))
optimizer = torch.optim.Adam(model.parameters(), lr=3e-3)
for step in range(60):
    x = torch.rand(64, 2)
    y = torch.sin(6 * x[:, :1]) * torch.cos(5 * x[:, 1:])
    loss = nn.functional.mse_loss(model(x), y)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    if step % 20 == 0:
        print(step, loss.item())
torch.save(model.state_dict(), "fourier.pt")
