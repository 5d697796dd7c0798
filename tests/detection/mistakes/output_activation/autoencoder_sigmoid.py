"""An autoencoder of standardized measurements.

Mistake: sigmoid at the decoder's end, where half of the inputs to reconstruct are negative.
"""

import torch
import torch.nn as nn


class AutoEncoder(nn.Module):
    def __init__(self):
        super().__init__()
        self.encoder = nn.Sequential(nn.Linear(20, 16), nn.ReLU(), nn.Linear(16, 6), nn.ReLU())
        self.decoder = nn.Sequential(
            nn.Linear(6, 16),
            nn.ReLU(),
            nn.Linear(16, 20),
            nn.Sigmoid(),  # mistake
        )

    def forward(self, x):
        return self.decoder(self.encoder(x))


latent = torch.randn(640, 4)
data = latent @ torch.randn(4, 20) / 2 + 0.1 * torch.randn(640, 20)
data = (data - data.mean(0)) / data.std(0)
model = AutoEncoder()
loss_function = nn.MSELoss()
optimizer = torch.optim.Adam(model.parameters(), lr=3e-3, weight_decay=1e-8)
for epoch in range(12):
    for batch in data.split(64):
        reconstructed = model(batch)
        loss = loss_function(reconstructed, batch)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    print(f"epoch {epoch} loss {loss.item():.4f}")
