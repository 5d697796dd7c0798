# Asked as: every prediction is the same, my Dataset returns the first item each time (StackOverflow)
import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset

torch.manual_seed(0)


class Readings(Dataset):
    def __init__(self):
        self.x = torch.randn(512, 6)
        self.y = self.x[:, :2].sum(1, keepdim=True)

    def __len__(self):
        return len(self.x)

    def __getitem__(self, index):
        features = self.x[0]  # mistake
        # repaired: features = self.x[index]
        return features, self.y[index]


model = nn.Sequential(nn.Linear(6, 32), nn.ReLU(), nn.Linear(32, 1))
optimizer = torch.optim.Adam(model.parameters(), lr=5e-3)
for epoch in range(4):
    for x, y in DataLoader(Readings(), batch_size=32, shuffle=True):
        loss = nn.functional.mse_loss(model(x), y)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    print(epoch, loss.item())
