"""A deep autoencoder.

Mistake: no activation between any of the layers, so that it is a principal component analysis.
"""

import torch
from torch import nn
from torch.utils.data import DataLoader


class AE(nn.Module):
    def __init__(self):
        super().__init__()
        self.e1 = nn.Linear(16, 12)
        self.e2 = nn.Linear(12, 3)
        self.d1 = nn.Linear(3, 12)
        self.d2 = nn.Linear(12, 16)

    def forward(self, x):
        z = self.e2(self.e1(x))  # mistake
        return self.d2(self.d1(z))  # mistake
        # repaired: z = torch.tanh(self.e2(torch.tanh(self.e1(x))))
        # repaired: return self.d2(torch.tanh(self.d1(z)))


data = torch.tanh(torch.randn(640, 3) @ torch.randn(3, 16))
model = AE()
optimizer = torch.optim.Adam(model.parameters(), lr=3e-3)
criterion = nn.MSELoss()
for epoch in range(8):
    for batch in DataLoader(data, batch_size=32, shuffle=True):
        loss = criterion(model(batch), batch)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    print(epoch, loss.item())
