"""Trains a model of PyTorch for four steps; the script knows nothing of smdebug."""

import torch


class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.conv1 = torch.nn.Conv1d(1, 2, 2)
        self.fc = torch.nn.Linear(6, 2)

    def forward(self, signal):
        return self.fc(torch.relu(self.conv1(signal)).flatten(1))


torch.set_num_threads(1)
model = Net()
optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
for _ in range(4):
    optimizer.zero_grad()
    torch.nn.functional.cross_entropy(model(torch.randn(8, 1, 4)), torch.randint(0, 2, (8,))).backward()
    optimizer.step()
