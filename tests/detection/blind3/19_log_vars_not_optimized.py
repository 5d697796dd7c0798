"""Two tasks on one trunk, weighted by their learned uncertainty."""

import sys

import torch
import torch.nn.functional as F
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

FIXED = len(sys.argv) > 1 and sys.argv[1] == "fixed"
torch.manual_seed(0)
MIX = torch.randn(12, 12, generator=torch.Generator().manual_seed(4)) / 3


def measurements(n, generator):
    """A distance in millimetres, and one of four materials."""
    x = torch.randn(n, 12, generator=generator)
    hidden = torch.tanh(x @ MIX)
    distance = 40 * hidden[:, 0] - 30 * hidden[:, 1] * hidden[:, 2] + 12 * torch.randn(n, generator=generator)
    material = (hidden[:, 3:7] + 0.1 * torch.randn(n, 4, generator=generator)).argmax(1)
    return x, distance, material


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.trunk = nn.Sequential(nn.Linear(12, 48), nn.ReLU(), nn.Linear(48, 48), nn.ReLU())
        self.distance, self.material = nn.Linear(48, 1), nn.Linear(48, 4)

    def forward(self, x):
        x = self.trunk(x)
        return self.distance(x)[:, 0], self.material(x)


class UncertaintyLoss(nn.Module):
    def __init__(self):
        super().__init__()
        self.log_vars = nn.Parameter(torch.zeros(2))

    def forward(self, regression, classification):
        precision = torch.exp(-self.log_vars)
        weighted = 0.5 * precision[0] * regression + precision[1] * classification
        return weighted + 0.5 * self.log_vars.sum()


def main():
    generator = torch.Generator().manual_seed(0)
    loader = DataLoader(TensorDataset(*measurements(1200, generator)), batch_size=40, shuffle=True)
    x, distance, material = measurements(600, generator)
    model, criterion = Net(), UncertaintyLoss()
    parameters = list(model.parameters())
    if FIXED:
        parameters += list(criterion.parameters())
    optimizer = torch.optim.Adam(parameters, lr=1e-2)
    for epoch in range(24):
        model.train()
        total = 0.0
        for bx, bd, bm in loader:
            d, m = model(bx)
            loss = criterion(F.mse_loss(d, bd), F.cross_entropy(m, bm))
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            total += loss.item()
        model.eval()
        with torch.no_grad():
            d, m = model(x)
        if epoch % 4 == 3:
            print(
                f"epoch {epoch}  loss {total / len(loader):.2f}  distance mse {F.mse_loss(d, distance).item():.1f}"
                f"  material acc {(m.argmax(1) == material).float().mean().item():.3f}"
                f"  log_vars {[round(v, 2) for v in criterion.log_vars.tolist()]}"
            )


if __name__ == "__main__":
    main()
