# Asked as: eval() results depend on what else is in the batch, track_running_stats=False (PyTorch forums)
import torch
from torch import nn

torch.manual_seed(0)


class Encoder(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv = nn.Conv1d(3, 16, 5, padding=2)
        self.norm = nn.BatchNorm1d(16, track_running_stats=False)  # mistake
        # repaired: self.norm = nn.BatchNorm1d(16)
        self.head = nn.Linear(16, 3)

    def forward(self, x):
        return self.head(torch.relu(self.norm(self.conv(x))).mean(2))


model = Encoder()
optimizer = torch.optim.Adam(model.parameters(), lr=5e-3)
for epoch in range(3):
    model.train()
    for _ in range(15):
        y = torch.randint(0, 3, (32,))
        x = torch.randn(32, 3, 20)
        x[torch.arange(32), y] *= 2
        loss = nn.functional.cross_entropy(model(x), y)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    model.eval()
    with torch.no_grad():
        print(epoch, loss.item(), (model(x).argmax(1) == y).float().mean().item())
