# Asked as: heads in a dict do not appear in print(model) (PyTorch forums, nn.ModuleDict)
import torch
from torch import nn

torch.manual_seed(0)


class MultiTask(nn.Module):
    def __init__(self):
        super().__init__()
        self.shared = nn.Sequential(nn.Linear(10, 32), nn.ReLU())
        heads = {"price": nn.Linear(32, 1), "sold": nn.Linear(32, 1)}
        self.heads = heads  # mistake
        # repaired: self.heads = nn.ModuleDict(heads)

    def forward(self, x):
        h = self.shared(x)
        return {name: head(h).squeeze(-1) for name, head in self.heads.items()}


model = MultiTask()
optimizer = torch.optim.AdamW(model.parameters(), lr=3e-3)
for step in range(60):
    x = torch.randn(32, 10)
    price, sold = x[:, 0] - x[:, 1], (x[:, 2] > 0).float()
    out = model(x)
    loss = nn.functional.mse_loss(out["price"], price)
    loss = loss + nn.functional.binary_cross_entropy_with_logits(out["sold"], sold)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    if step % 20 == 0:
        print(step, loss.item())
torch.save(model.state_dict(), "tasks.pt")
