# Asked as: "as you have shuffled sentences before training, why do we need to deliver the state between batches?" (https://github.com/rafaljozefowicz/lm/issues/7)
import torch
import torch.nn.functional as F
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

torch.manual_seed(0)


class Forecaster(nn.Module):
    def __init__(self):
        super().__init__()
        self.lstm, self.read = nn.LSTM(2, 24, batch_first=True), nn.Linear(24, 1)

    def forward(self, windows, state=None):
        states, state = self.lstm(windows, state)
        return self.read(states[:, -1]).squeeze(1), state


time = torch.arange(1200) * 0.05
series = torch.stack([time.sin(), (1.7 * time).cos()], 1) + 0.05 * torch.randn(1200, 2)
windows = series.unfold(0, 20, 1).transpose(1, 2)[:-1]
loader = DataLoader(TensorDataset(windows, series[20:, 0]), batch_size=32, shuffle=True, drop_last=True)
model = Forecaster()
optimizer = torch.optim.Adam(model.parameters(), lr=3e-3)
for epoch in range(2):
    state = None
    for given, following in loader:
        if state is not None:
            state = tuple(part.detach() for part in state)
        # repaired: state = None
        predicted, state = model(given, state)
        loss = F.mse_loss(predicted, following)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    print(epoch, loss.item())
