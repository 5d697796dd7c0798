"""Names of people and places in sentences: a tagger with O, PER and LOC."""

import sys

import torch
from torch import nn
from torch.nn.utils.rnn import pad_sequence
from torch.utils.data import DataLoader

FIXED = len(sys.argv) > 1 and sys.argv[1] == "fixed"
torch.manual_seed(0)

PAD = 0
TAGS = ["O", "PER", "LOC"]
LABEL_PAD = -100 if FIXED else PAD


def sentences(n, generator):
    """Words 50-69 are people, or places after a preposition (words 1-4)."""
    rows = []
    for _ in range(n):
        length = int(torch.randint(6, 20, (1,), generator=generator))
        words = torch.randint(1, 50, (length,), generator=generator)
        names = torch.rand(length, generator=generator) < 0.2
        words[names] = torch.randint(50, 70, (int(names.sum()),), generator=generator)
        before = torch.cat([torch.tensor([9]), words[:-1]])
        tags = torch.zeros(length, dtype=torch.long)
        tags[words >= 50] = 1
        tags[(words >= 50) & (before <= 4)] = 2
        rows.append((words, tags))
    return rows


def collate(rows):
    words = pad_sequence([w for w, _ in rows], batch_first=True, padding_value=PAD)
    tags = pad_sequence([t for _, t in rows], batch_first=True, padding_value=LABEL_PAD)
    return words, tags


class Tagger(nn.Module):
    def __init__(self, size=32):
        super().__init__()
        self.embed = nn.Embedding(70, size, padding_idx=PAD)
        self.rnn = nn.LSTM(size, size, batch_first=True, bidirectional=True)
        self.head = nn.Linear(2 * size, len(TAGS))

    def forward(self, words):
        return self.head(self.rnn(self.embed(words))[0])


def span_scores(model, rows):
    hits = shown = real = 0
    with torch.no_grad():
        for words, tags in rows:
            predicted = model(words[None]).argmax(-1)[0]
            hits += ((predicted == tags) & (tags > 0)).sum().item()
            shown += (predicted > 0).sum().item()
            real += (tags > 0).sum().item()
    precision, recall = hits / max(shown, 1), hits / max(real, 1)
    return precision, recall, 2 * precision * recall / max(precision + recall, 1e-9)


def main():
    generator = torch.Generator().manual_seed(0)
    loader = DataLoader(sentences(1500, generator), batch_size=32, shuffle=True, collate_fn=collate)
    val = sentences(200, generator)
    model = Tagger()
    criterion = nn.CrossEntropyLoss(ignore_index=LABEL_PAD)
    optimizer = torch.optim.Adam(model.parameters(), lr=3e-3)
    for epoch in range(4):
        model.train()
        total = 0.0
        for words, tags in loader:
            loss = criterion(model(words).transpose(1, 2), tags)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            total += loss.item()
        model.eval()
        precision, recall, f = span_scores(model, val)
        print(f"epoch {epoch}  train {total / len(loader):.4f}  P {precision:.3f}  R {recall:.3f}  F1 {f:.3f}")
    print(f"final F1 {f:.3f}")


if __name__ == "__main__":
    main()
