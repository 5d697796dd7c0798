"""A small decoder-only transformer that learns to count and add, built of nn.TransformerEncoder."""

import sys

import torch
from torch import nn
from torch.nn import functional as F

FIXED = len(sys.argv) > 1 and sys.argv[1] == "fixed"
torch.manual_seed(0)
torch.set_num_threads(1)
SYMBOLS = "0123456789+=. "
INDEX = {symbol: i for i, symbol in enumerate(SYMBOLS)}
LENGTH = 12


def encode(text):
    return [INDEX[symbol] for symbol in text]


def make_sums(generator):
    """All sums of two numbers below 40, written with the result reversed and padded with blanks."""
    texts = []
    for a in range(40):
        for b in range(40):
            texts.append(f"{a:02d}+{b:02d}={str(a + b)[::-1]}.".ljust(LENGTH))
    order = torch.randperm(len(texts), generator=generator).tolist()
    return torch.tensor([encode(texts[i]) for i in order])


class TinyGPT(nn.Module):
    def __init__(self, width=48, heads=4, layers=2):
        super().__init__()
        self.tokens = nn.Embedding(len(SYMBOLS), width)
        self.positions = nn.Parameter(0.02 * torch.randn(LENGTH, width))
        layer = nn.TransformerEncoderLayer(width, heads, 4 * width, dropout=0.0, batch_first=True, norm_first=True)
        self.blocks = nn.TransformerEncoder(layer, layers, enable_nested_tensor=False)
        self.norm = nn.LayerNorm(width)
        self.head = nn.Linear(width, len(SYMBOLS))

    def forward(self, ids):
        x = self.tokens(ids) + self.positions[: ids.shape[1]]
        mask = nn.Transformer.generate_square_subsequent_mask(ids.shape[1]) if FIXED else None
        return self.head(self.norm(self.blocks(x, mask=mask)))

    @torch.no_grad()
    def generate(self, ids, new_tokens):
        for _ in range(new_tokens):
            following = self(ids)[:, -1].argmax(-1, keepdim=True)
            ids = torch.cat([ids, following], 1)
        return ids


def main():
    sums = make_sums(torch.Generator().manual_seed(0))
    train, test = sums[:1400], sums[1400:]
    model = TinyGPT()
    optimizer = torch.optim.AdamW(model.parameters(), lr=2e-3, weight_decay=0.01)
    scheduler = torch.optim.lr_scheduler.OneCycleLR(optimizer, 3e-3, total_steps=900)
    model.train()
    for step in range(900):
        batch = train[torch.randint(len(train), (64,))]
        logits = model(batch[:, :-1])
        loss = F.cross_entropy(logits.flatten(0, 1), batch[:, 1:].flatten())
        optimizer.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        scheduler.step()
        if step % 100 == 99:
            with torch.no_grad():
                val = F.cross_entropy(model(test[:, :-1]).flatten(0, 1), test[:, 1:].flatten())
            print(f"step {step + 1}: train loss {loss.item():.4f} val loss {val.item():.4f}")

    model.eval()
    answers = model.generate(test[:, :6], 3)[:, 6:]
    right = 0
    for answer, row in zip(answers, test, strict=True):
        given = "".join(SYMBOLS[i] for i in answer).split(".")[0]
        wanted = "".join(SYMBOLS[i] for i in row[6:]).split(".")[0]
        right += given == wanted
    print("sample:", "".join(SYMBOLS[i] for i in test[0, :6]), "".join(SYMBOLS[i] for i in answers[0]))
    print(f"sums right {right / len(test):.3f}")


if __name__ == "__main__":
    main()
