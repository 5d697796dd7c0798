# Asked as: F.normalize in my embedding model, what is dim for? retrieval works in training and fails for one query
import torch
import torch.nn.functional as F
from torch import nn

torch.manual_seed(0)
prototypes = torch.randn(10, 16)


class Embedder(nn.Module):
    def __init__(self):
        super().__init__()
        self.body = nn.Sequential(nn.Linear(16, 64), nn.ReLU(), nn.Linear(64, 24))
        self.weight = nn.Parameter(torch.randn(10, 24))

    def embed(self, x):
        return F.normalize(self.body(x), dim=0)  # mistake
        # repaired: return F.normalize(self.body(x), dim=1)

    def forward(self, x):
        return 10 * self.embed(x) @ F.normalize(self.weight, dim=1).T


model = Embedder()
optimizer = torch.optim.Adam(model.parameters(), lr=3e-3)
for step in range(60):
    y = torch.randint(0, 10, (40,))
    x = prototypes[y] + 0.8 * torch.randn(40, 16)
    logits = model(x)
    loss = F.cross_entropy(logits, y)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    if step % 20 == 0:
        print(f"{step}: loss {loss.item():.3f} accuracy {(logits.argmax(1) == y).float().mean():.2f}")
