# Asked as: positional encoding from the PyTorch tutorial with batch_first=True, order of the words has no effect (GitHub)
import torch
import torch.nn.functional as F
from torch import nn

torch.manual_seed(0)


class Reader(nn.Module):
    def __init__(self, words=12, width=32):
        super().__init__()
        self.words, self.positions = nn.Embedding(words, width), nn.Embedding(128, width)
        layer = nn.TransformerEncoderLayer(width, 4, 64, dropout=0.0, batch_first=True)
        self.encoder, self.head = nn.TransformerEncoder(layer, 2), nn.Linear(width, 2)

    def forward(self, x):
        places = torch.arange(x.shape[0])[:, None]  # mistake
        # repaired: places = torch.arange(x.shape[1])
        return self.head(self.encoder(self.words(x) + self.positions(places)).mean(1))


model = Reader()
optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
for step in range(60):
    x = torch.randint(0, 12, (32, 10))
    y = (x[:, 0] > x[:, -1]).long()
    loss = F.cross_entropy(model(x), y)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    if step % 10 == 0:
        print(step, loss.item())
