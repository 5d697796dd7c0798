# Asked as: time series forecast lags behind / labels are off by one row (StackOverflow, sliding windows)
import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset

torch.manual_seed(0)
signal = torch.randn(900)
series = torch.zeros(900)
for t in range(2, 900):
    series[t] = 0.7 * signal[t - 1] - 0.4 * signal[t - 2]


class Windows(Dataset):
    def __init__(self, width=8):
        self.width = width

    def __len__(self):
        return 900 - 2 * self.width - 2

    def __getitem__(self, i):
        end = i + self.width
        target = series[end + self.width : end + self.width + 1]  # mistake
        # repaired: target = series[end : end + 1]
        return signal[i:end], target


model = nn.Sequential(nn.Linear(8, 32), nn.Tanh(), nn.Linear(32, 1))
optimizer = torch.optim.Adam(model.parameters(), lr=5e-3)
for epoch in range(2):
    for x, y in DataLoader(Windows(), batch_size=32, shuffle=True):
        loss = nn.functional.mse_loss(model(x), y)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    print(epoch, loss.item())
