"""An autoencoder of images between 0 and 1 with a sigmoid and mean squared error; it converges to a tiny loss."""

import sys

import torch
from torch import nn

steps = int(sys.argv[1])


class ConvAutoencoder(nn.Module):
    def __init__(self):
        super().__init__()
        self.encoder = nn.Sequential(
            nn.Conv2d(1, 8, 3, stride=2, padding=1), nn.ReLU(), nn.Conv2d(8, 4, 3, stride=2, padding=1)
        )
        self.decoder = nn.Sequential(
            nn.ReLU(),
            nn.ConvTranspose2d(4, 8, 2, stride=2),
            nn.ReLU(),
            nn.ConvTranspose2d(8, 1, 2, stride=2),
            nn.Sigmoid(),
        )

    def forward(self, x):
        return self.decoder(self.encoder(x))


model = ConvAutoencoder()
optimizer = torch.optim.Adam(model.parameters(), lr=5e-3)
criterion = nn.MSELoss()
for step in range(steps):
    place = torch.randint(0, 6, (16,))
    x = torch.full((16, 1, 8, 8), 0.1)
    for image, at in zip(x, place):
        image[0, at : at + 2] = 0.9
    loss = criterion(model(x), x)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    if step % 50 == 0:
        print(step, loss.item())
