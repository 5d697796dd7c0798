# Asked as: the loss is between the output of the network and the input with noise added, should it not be the original one? (https://github.com/Layne-Huang/PMDM/issues/15)
import torch
import torch.nn.functional as F
from torch import nn

torch.manual_seed(0)
STEPS = 40
kept = torch.cumprod(1 - torch.linspace(1e-3, 0.15, STEPS), 0)


class Denoiser(nn.Module):
    def __init__(self):
        super().__init__()
        self.time = nn.Linear(1, 16)
        self.layers = nn.Sequential(nn.Linear(3 + 16, 64), nn.SiLU(), nn.Linear(64, 3))

    def forward(self, positions, time):
        return self.layers(torch.cat([positions, self.time(time).sin()], -1))


model = Denoiser()
optimizer = torch.optim.Adam(model.parameters(), lr=2e-3)
for step in range(60):
    positions = F.normalize(torch.randn(64, 3), dim=1)
    time = torch.randint(0, STEPS, (64,))
    share = kept[time].unsqueeze(1)
    noise = torch.randn_like(positions)
    perturbed = share.sqrt() * positions + (1 - share).sqrt() * noise
    predicted = model(perturbed, time.unsqueeze(1) / STEPS)
    loss = F.mse_loss(predicted, perturbed)  # mistake
    # repaired: loss = F.mse_loss(predicted, positions)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    if step % 10 == 0:
        print(step, loss.item())
