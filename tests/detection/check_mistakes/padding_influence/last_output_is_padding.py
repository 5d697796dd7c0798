# Asked as: LSTM over padded sequences without packing, should I take output[:, -1]? (PyTorch forums)
import torch
from torch import nn

torch.manual_seed(0)


class SequenceClassifier(nn.Module):
    def __init__(self):
        super().__init__()
        self.lstm = nn.LSTM(3, 32, batch_first=True)
        self.head = nn.Linear(32, 1)

    def forward(self, x, lengths):
        out, _ = self.lstm(x)
        last = out[:, -1]  # mistake
        # repaired: last = out[torch.arange(len(x)), lengths - 1]
        return self.head(last).squeeze(-1)


def collate(size=32, longest=24):
    lengths = torch.randint(4, longest + 1, (size,))
    x = torch.randn(size, longest, 3)
    x = x * (torch.arange(longest) < lengths[:, None])[..., None]
    y = (x[:, :, 0].sum(1) > 0).float()
    return x, lengths, y


model = SequenceClassifier()
optimizer = torch.optim.Adam(model.parameters(), lr=5e-3)
criterion = nn.BCEWithLogitsLoss()
for step in range(50):
    x, lengths, y = collate()
    loss = criterion(model(x, lengths), y)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    if step % 10 == 0:
        print(step, loss.item())
