# Asked as: all words become <unk> because my vocabulary is lowercase (StackOverflow, torchtext)
import torch
from torch import nn

torch.manual_seed(0)
GOOD, BAD, OTHER = (
    ["fine", "great", "lovely"],
    ["awful", "poor", "boring"],
    ["film", "plot", "actor", "the", "a", "was"],
)
vocabulary = {word: i for i, word in enumerate(["<pad>", "<unk>", *GOOD, *BAD, *OTHER])}


def encode(text):
    words = text.split()
    return [vocabulary.get(word.upper(), 1) for word in words]  # mistake
    # repaired: return [vocabulary.get(word.lower(), 1) for word in words]


def reviews(size):
    texts, labels = [], torch.randint(0, 2, (size,))
    for label in labels.tolist():
        words = [OTHER[int(torch.randint(0, 6, (1,)))] for _ in range(7)]
        words[int(torch.randint(0, 7, (1,)))] = (GOOD if label else BAD)[int(torch.randint(0, 3, (1,)))]
        texts.append(" ".join(words).title())
    return torch.tensor([encode(text) for text in texts]), labels


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.embedding = nn.Embedding(len(vocabulary), 16, padding_idx=0)
        self.conv = nn.Conv1d(16, 24, 3, padding=1)
        self.out = nn.Linear(24, 2)

    def forward(self, x):
        h = torch.relu(self.conv(self.embedding(x).transpose(1, 2)))
        return self.out(h.max(2).values)


model = Model()
optimizer = torch.optim.Adam(model.parameters(), lr=5e-3)
for step in range(50):
    x, y = reviews(32)
    loss = nn.functional.cross_entropy(model(x), y)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    if step % 10 == 0:
        print(step, loss.item())
