"""A transformer encoder that reads short reviews of different length and tells the mood."""

import sys

import torch
from torch import nn
from torch.nn import functional as F
from torch.nn.utils.rnn import pad_sequence

FIXED = len(sys.argv) > 1 and sys.argv[1] == "fixed"
torch.manual_seed(0)
torch.set_num_threads(1)
PAD, CLS, NOT = 0, 1, 2
GOOD, BAD, NEUTRAL = range(3, 13), range(13, 23), range(23, 60)
MAX_LENGTH = 24


def make_review(generator):
    """The mood is that of the only word with an opinion; a "not" before it turns it round."""
    length = int(torch.randint(6, MAX_LENGTH - 2, (), generator=generator))
    words = torch.randint(NEUTRAL.start, NEUTRAL.stop, (length,), generator=generator)
    good = bool(torch.randint(2, (), generator=generator))
    turned = bool(torch.randint(2, (), generator=generator))
    place = int(torch.randint(1, length, (), generator=generator))
    pool = GOOD if good else BAD
    words[place] = pool.start + int(torch.randint(len(pool), (), generator=generator))
    if turned:
        words[place - 1] = NOT
    return torch.cat([torch.tensor([CLS]), words]), int(good != turned)


def collate(reviews):
    tokens = pad_sequence([words for words, _ in reviews], batch_first=True, padding_value=PAD)
    tokens = F.pad(tokens, (0, MAX_LENGTH - tokens.shape[1]), value=PAD)
    labels = torch.tensor([label for _, label in reviews])
    attention_mask = (tokens != PAD).long()
    return tokens, attention_mask, labels


class ReviewModel(nn.Module):
    def __init__(self, vocabulary=60, width=32):
        super().__init__()
        self.tokens = nn.Embedding(vocabulary, width, padding_idx=PAD)
        self.positions = nn.Embedding(MAX_LENGTH, width)
        layer = nn.TransformerEncoderLayer(width, 4, 64, dropout=0.0, batch_first=True, norm_first=True)
        self.encoder = nn.TransformerEncoder(layer, 2, enable_nested_tensor=False)
        self.head = nn.Linear(width, 2)

    def forward(self, tokens, attention_mask):
        x = self.tokens(tokens) + self.positions(torch.arange(tokens.shape[1]))
        padding_mask = attention_mask == 0 if FIXED else attention_mask.bool()
        x = self.encoder(x, src_key_padding_mask=padding_mask)
        return self.head(x[:, 0])


def main():
    generator = torch.Generator().manual_seed(3)
    reviews = [make_review(generator) for _ in range(3400)]
    train, test = reviews[:3000], reviews[3000:]
    model = ReviewModel()
    optimizer = torch.optim.AdamW(model.parameters(), lr=2e-3)
    loader = torch.utils.data.DataLoader(train, batch_size=50, shuffle=True, collate_fn=collate)
    for epoch in range(12):
        model.train()
        total = 0.0
        for tokens, mask, labels in loader:
            loss = F.cross_entropy(model(tokens, mask), labels)
            optimizer.zero_grad()
            loss.backward()
            nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            optimizer.step()
            total += loss.item()
        print(f"epoch {epoch + 1}: loss {total / len(loader):.4f}")
    model.eval()
    tokens, mask, labels = collate(test)
    with torch.no_grad():
        right = (model(tokens, mask).argmax(1) == labels).float().mean()
    print(f"test accuracy {right:.3f}")


if __name__ == "__main__":
    main()
