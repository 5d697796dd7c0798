# Asked as: is src_key_padding_mask True for padding or for tokens? (PyTorch forums, StackOverflow)
import torch
from torch import nn

torch.manual_seed(0)
PAD, WORDS = 0, 30


class Classifier(nn.Module):
    def __init__(self, width=32):
        super().__init__()
        self.embedding = nn.Embedding(WORDS, width, padding_idx=PAD)
        self.position = nn.Embedding(12, width)
        layer = nn.TransformerEncoderLayer(width, 4, 64, dropout=0.0, batch_first=True)
        self.encoder = nn.TransformerEncoder(layer, 1, enable_nested_tensor=False)
        self.head = nn.Linear(width, 3)

    def forward(self, x):
        mask = x != PAD  # mistake
        # repaired: mask = x == PAD
        h = self.embedding(x) + self.position(torch.arange(x.size(1)))
        h = self.encoder(h, src_key_padding_mask=mask)
        return self.head(h[:, 0])


def batch(size=32):
    x = torch.randint(4, WORDS, (size, 12))
    lengths = torch.randint(4, 12, (size,))
    y = torch.randint(0, 3, (size,))
    x[torch.arange(size), (torch.rand(size) * lengths).long()] = 1 + y
    x[torch.arange(12) >= lengths[:, None]] = PAD
    return x, y


model = Classifier()
optimizer = torch.optim.AdamW(model.parameters(), lr=2e-3)
for step in range(60):
    x, y = batch()
    loss = nn.functional.cross_entropy(model(x), y)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    if step % 20 == 0:
        print(step, loss.item())
