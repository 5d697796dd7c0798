"""An autoencoder of two modules.

Mistake: the optimizer is given the decoder's parameters only.
"""

import torch
import torch.nn as nn
import torch.nn.functional as F


class Encoder(nn.Module):
    def __init__(self):
        super().__init__()
        self.fc1, self.fc2 = nn.Linear(24, 16), nn.Linear(16, 4)

    def forward(self, x):
        return self.fc2(F.relu(self.fc1(x)))


class Decoder(nn.Module):
    def __init__(self):
        super().__init__()
        self.fc1, self.fc2 = nn.Linear(4, 16), nn.Linear(16, 24)

    def forward(self, z):
        return self.fc2(F.relu(self.fc1(z)))


encoder, decoder = Encoder(), Decoder()
optimizer = torch.optim.Adam(decoder.parameters(), lr=3e-3)  # mistake
# repaired: optimizer = torch.optim.Adam([*encoder.parameters(), *decoder.parameters()], lr=3e-3)
basis = torch.randn(4, 24) / 2
for step in range(150):
    x = torch.tanh(torch.randn(32, 4) @ basis)
    loss = F.mse_loss(decoder(encoder(x)), x)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    if step % 25 == 0:
        print(step, loss.item())
