# Asked as: my loss jumps around and never falls, which learning rate for Adam? (r/learnmachinelearning)
import torch
from torch import nn

torch.manual_seed(0)
words = torch.randint(0, 50, (640, 10))
labels = (words < 10).sum(1).clamp(max=4)


class BagOfWords(nn.Module):
    def __init__(self):
        super().__init__()
        self.embedding = nn.EmbeddingBag(50, 32)
        self.layers = nn.Sequential(nn.Linear(32, 64), nn.ReLU(), nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 5))

    def forward(self, x):
        return self.layers(self.embedding(x))


model = BagOfWords()
optimizer = torch.optim.Adam(model.parameters(), lr=0.5)  # mistake
# repaired: optimizer = torch.optim.Adam(model.parameters(), lr=5e-3)
for epoch in range(3):
    for i in range(0, 640, 32):
        loss = nn.functional.cross_entropy(model(words[i : i + 32]), labels[i : i + 32])
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    print(epoch, loss.item())
