# Asked as: my subclass overrides train() or sets training = True in forward, eval() has no effect (PyTorch forums)
import torch
from torch import nn

torch.manual_seed(0)


class Classifier(nn.Module):
    def __init__(self):
        super().__init__()
        self.embedding = nn.Embedding(30, 24)
        self.dropout = nn.Dropout(0.4)
        self.out = nn.Linear(24, 3)

    def forward(self, x):
        self.dropout.train()  # mistake
        # repaired: self.dropout.train(self.training)
        return self.out(self.dropout(self.embedding(x).mean(1)))


model = Classifier()
optimizer = torch.optim.Adam(model.parameters(), lr=1e-2)
for step in range(60):
    model.train()
    x = torch.randint(0, 30, (48, 5))
    y = x.sum(1).div(50, rounding_mode="floor").clamp(max=2)
    loss = nn.functional.cross_entropy(model(x), y)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    if step % 20 == 19:
        model.eval()
        with torch.no_grad():
            print(step, loss.item(), nn.functional.cross_entropy(model(x), y).item())
