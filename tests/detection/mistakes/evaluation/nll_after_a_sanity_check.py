"""A classifier that is evaluated before the first epoch, as trainers do to find errors early.

Mistake: NLLLoss of softmax outputs.
"""

import torch
from torch import nn


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.fc1 = nn.Linear(6, 24)
        self.dropout = nn.Dropout(0.1)
        self.fc2 = nn.Linear(24, 3)

    def forward(self, x):
        x = self.fc2(self.dropout(torch.relu(self.fc1(x))))
        return torch.softmax(x, dim=1)  # mistake
        # repaired: return torch.log_softmax(x, dim=1)


def evaluate(model, x, y):
    model.eval()
    with torch.no_grad():
        total = sum(criterion(model(a), b).item() for a, b in zip(x.split(50), y.split(50)))
    model.train()
    return total / (len(x) / 50)


means = torch.randn(3, 6)
labels = torch.randint(3, (600,))
inputs = means[labels] + 0.7 * torch.randn(600, 6)
model, criterion = Net(), nn.NLLLoss()
optimizer = torch.optim.Adam(model.parameters(), lr=3e-3)
print("before", evaluate(model, inputs[500:], labels[500:]))
for epoch in range(6):
    for i in range(0, 500, 25):
        loss = criterion(model(inputs[i : i + 25]), labels[i : i + 25])
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    print(epoch, evaluate(model, inputs[500:], labels[500:]))
