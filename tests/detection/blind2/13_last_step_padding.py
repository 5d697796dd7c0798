"""Which of two names came last in a conversation? Sentences of different length, a simple RNN."""

import sys

import torch
import torch.nn.functional as F
from torch import nn
from torch.nn.utils.rnn import pad_sequence
from torch.utils.data import DataLoader

FIXED = len(sys.argv) > 1 and sys.argv[1] == "fixed"
torch.manual_seed(0)

PAD, ANNA, BERT, WORDS = 0, 1, 2, 40


def sentences(n, generator):
    rows = []
    for _ in range(n):
        length = int(torch.randint(4, 120, (1,), generator=generator) * torch.rand(1, generator=generator) ** 2 + 4)
        words = torch.randint(3, WORDS, (length,), generator=generator)
        names = torch.rand(length, generator=generator) < 0.25
        words[names] = torch.randint(1, 3, (int(names.sum()),), generator=generator)
        last = [w for w in words.tolist() if w in (ANNA, BERT)]
        if last:
            rows.append((words, last[-1] - 1))
    return rows


def collate(rows):
    words = [r[0] for r in rows]
    lengths = torch.tensor([len(w) for w in words])
    return pad_sequence(words, batch_first=True, padding_value=PAD), lengths, torch.tensor([r[1] for r in rows])


class Classifier(nn.Module):
    def __init__(self, size=32):
        super().__init__()
        self.embed = nn.Embedding(WORDS, size, padding_idx=PAD)
        self.rnn = nn.RNN(size, size, batch_first=True)
        self.head = nn.Linear(size, 2)

    def forward(self, words, lengths):
        outputs, _ = self.rnn(self.embed(words))
        last = outputs[torch.arange(len(words)), lengths - 1] if FIXED else outputs[:, -1]
        return self.head(last)


def main():
    generator = torch.Generator().manual_seed(0)
    train = DataLoader(sentences(1600, generator), batch_size=32, shuffle=True, collate_fn=collate)
    val = DataLoader(sentences(500, generator), batch_size=100, collate_fn=collate)
    model = Classifier()
    optimizer = torch.optim.Adam(model.parameters(), lr=3e-3)
    for epoch in range(4):
        model.train()
        total = 0.0
        for words, lengths, y in train:
            loss = F.cross_entropy(model(words, lengths), y)
            optimizer.zero_grad()
            loss.backward()
            nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            optimizer.step()
            total += loss.item()
        model.eval()
        with torch.no_grad():
            right = torch.cat([model(w, n).argmax(1) == y for w, n, y in val]).float().mean().item()
        print(f"epoch {epoch}  train {total / len(train):.3f}  val acc {right:.3f}")
    print(f"final val acc {right:.3f}")


if __name__ == "__main__":
    main()
