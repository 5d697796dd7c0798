# Asked as: nn.TransformerEncoder gives different predictions when I change the batch size (PyTorch forums)
import math

import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

torch.manual_seed(0)
tokens = torch.randint(1, 40, (768, 10))
labels = (tokens == 7).any(1).long() + 2 * (tokens[:, 0] > 20).long()


class TextClassifier(nn.Module):
    def __init__(self, vocabulary=40, width=32, classes=4):
        super().__init__()
        self.width = width
        self.embedding = nn.Embedding(vocabulary, width)
        self.position = nn.Parameter(torch.randn(10, width) * 0.02)
        layer = nn.TransformerEncoderLayer(width, 4, 64, dropout=0.1)  # mistake
        # repaired: layer = nn.TransformerEncoderLayer(width, 4, 64, dropout=0.1, batch_first=True)
        self.encoder = nn.TransformerEncoder(layer, 2, enable_nested_tensor=False)
        self.classify = nn.Linear(width, classes)

    def forward(self, x):
        x = self.embedding(x) * math.sqrt(self.width) + self.position
        return self.classify(self.encoder(x).mean(1))


model = TextClassifier()
loader = DataLoader(TensorDataset(tokens, labels), batch_size=32, shuffle=True)
optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
for epoch in range(2):
    model.train()
    for x, y in loader:
        loss = nn.functional.cross_entropy(model(x), y)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    model.eval()
    with torch.no_grad():
        accuracy = (model(tokens[:64]).argmax(1) == labels[:64]).float().mean().item()
    print(epoch, loss.item(), accuracy)
