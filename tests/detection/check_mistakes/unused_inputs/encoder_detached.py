# Asked as: I detach the features to save memory and my encoder does not learn (PyTorch forums, detach)
import torch
from torch import nn

torch.manual_seed(0)


class Seq2Label(nn.Module):
    def __init__(self):
        super().__init__()
        self.embed = nn.Embedding(12, 16)
        self.encoder = nn.GRU(16, 24, batch_first=True)
        self.decoder = nn.Sequential(nn.Linear(24, 24), nn.ReLU(), nn.Linear(24, 12))

    def forward(self, x):
        _, h = self.encoder(self.embed(x))
        context = h[-1].detach()  # mistake
        # repaired: context = h[-1]
        return self.decoder(context)


model = Seq2Label()
optimizer = torch.optim.Adam(model.parameters(), lr=5e-3)
for step in range(60):
    x = torch.randint(0, 12, (32, 6))
    y = (x[:, -1] + 5) % 12
    loss = nn.functional.cross_entropy(model(x), y)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    if step % 20 == 0:
        print(step, loss.item())
