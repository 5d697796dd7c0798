# Asked as: model.eval() does not switch off F.dropout, predictions are random (PyTorch forums)
import torch
import torch.nn.functional as F
from torch import nn

torch.manual_seed(0)


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.fc1, self.fc2 = nn.Linear(12, 64), nn.Linear(64, 4)

    def forward(self, x):
        x = F.relu(self.fc1(x))
        x = F.dropout(x, 0.3)  # mistake
        # repaired: x = F.dropout(x, 0.3, training=self.training)
        return self.fc2(x)


model = Net()
optimizer = torch.optim.Adam(model.parameters(), lr=4e-3)
concept = torch.randn(12, 4)
validation = torch.randn(64, 12)
for epoch in range(4):
    model.train()
    for _ in range(12):
        x = torch.randn(32, 12)
        loss = F.cross_entropy(model(x), (x @ concept).argmax(1))
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    model.eval()
    with torch.no_grad():
        accuracy = (model(validation).argmax(1) == (validation @ concept).argmax(1)).float().mean()
    print(epoch, loss.item(), accuracy.item())
