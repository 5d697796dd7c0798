# Asked as: my transformer cannot sort, does it know the order of the tokens? (r/MachineLearning)
import torch
from torch import nn

torch.manual_seed(0)


class OrderModel(nn.Module):
    def __init__(self, words=16, width=32, length=8):
        super().__init__()
        self.tokens = nn.Embedding(words, width)
        self.positions = nn.Embedding(length, width)
        layer = nn.TransformerEncoderLayer(width, 4, 64, dropout=0.0, batch_first=True)
        self.encoder = nn.TransformerEncoder(layer, 2)
        self.head = nn.Linear(width, words)

    def forward(self, x):
        position = self.positions(torch.arange(x.size(1)))
        h = self.tokens(x)  # mistake
        # repaired: h = self.tokens(x) + position
        return self.head(self.encoder(h).mean(1))


model = OrderModel()
optimizer = torch.optim.Adam(model.parameters(), lr=2e-3)
for step in range(50):
    x = torch.randint(0, 16, (32, 8))
    y = x[:, 0]
    loss = nn.functional.cross_entropy(model(x), y)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    if step % 10 == 0:
        print(step, loss.item())
