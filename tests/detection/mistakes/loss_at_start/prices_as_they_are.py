"""House prices from standardized features.

Mistake: the labels are dollars, some hundred thousand, for a network that starts around 0.
"""

import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

features = torch.randn(640, 8)
price = 250_000 + 80_000 * features[:, 0] + 40_000 * features[:, 1] + 10_000 * torch.randn(640)
# repaired: price = (price - price.mean()) / price.std()
loader = DataLoader(TensorDataset(features, price.unsqueeze(1)), batch_size=32, shuffle=True)
model = nn.Sequential(nn.Linear(8, 64), nn.ReLU(), nn.Linear(64, 32), nn.ReLU(), nn.Linear(32, 1))
criterion = nn.MSELoss()
optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
for epoch in range(5):
    for x, y in loader:
        optimizer.zero_grad()
        loss = criterion(model(x), y)
        loss.backward()
        optimizer.step()
    print(f"epoch {epoch}: {loss.item():.3f}")
