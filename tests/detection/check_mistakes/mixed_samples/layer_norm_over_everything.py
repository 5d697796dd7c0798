# Asked as: my own LayerNorm works in training, but inference with batch size one differs (r/MachineLearning)
import torch
from torch import nn


class LayerNorm(nn.Module):
    def __init__(self, width, eps=1e-5):
        super().__init__()
        self.gain, self.bias = nn.Parameter(torch.ones(width)), nn.Parameter(torch.zeros(width))
        self.eps = eps

    def forward(self, x):
        mean, std = x.mean(), x.std()  # mistake
        # repaired: mean, std = x.mean(-1, keepdim=True), x.std(-1, keepdim=True)
        return self.gain * (x - mean) / (std + self.eps) + self.bias


class Regressor(nn.Module):
    def __init__(self):
        super().__init__()
        self.layers = nn.Sequential(
            nn.Linear(8, 64), LayerNorm(64), nn.SiLU(), nn.Linear(64, 64), LayerNorm(64), nn.SiLU(), nn.Linear(64, 1)
        )

    def forward(self, x):
        return self.layers(x)


def train(model, steps=50):
    optimizer = torch.optim.Adam(model.parameters(), lr=2e-3)
    loss_function = nn.SmoothL1Loss()
    for step in range(steps):
        x = torch.rand(64, 8) * 2 - 1
        y = torch.sin(3 * x[:, :1]) + x[:, 1:2] * x[:, 2:3]
        loss = loss_function(model(x), y)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        if step % 10 == 9:
            print(f"step {step + 1}: {loss.item():.4f}")


if __name__ == "__main__":
    torch.manual_seed(3)
    train(Regressor())
