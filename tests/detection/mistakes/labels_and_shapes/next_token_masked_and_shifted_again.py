"""A decoder that is trained on answers only: labels of the prompt are -100.

Mistake: labels are rolled in the collator, and shifted once more in the loss.
"""

import torch
from torch import nn

VOCABULARY, LENGTH = 60, 24


class Decoder(nn.Module):
    def __init__(self):
        super().__init__()
        self.tokens, self.positions = nn.Embedding(VOCABULARY, 48), nn.Embedding(LENGTH, 48)
        layer = nn.TransformerEncoderLayer(48, 4, 96, dropout=0.0, batch_first=True)
        self.body = nn.TransformerEncoder(layer, 2, enable_nested_tensor=False)
        self.head = nn.Linear(48, VOCABULARY)

    def forward(self, x):
        length = x.shape[1]
        mask = nn.Transformer.generate_square_subsequent_mask(length)
        x = self.tokens(x) + self.positions(torch.arange(length))
        return self.head(self.body(x, mask=mask, is_causal=True))


def collate(prompts):
    answers = (prompts[:, -1:] + 7 * torch.arange(1, LENGTH // 2 + 1)) % VOCABULARY
    tokens = torch.cat([prompts, answers], dim=1)
    labels = tokens.masked_fill(torch.arange(LENGTH) < LENGTH // 2, -100)
    labels = torch.cat([labels[:, 1:], torch.full((len(labels), 1), -100)], dim=1)  # mistake
    return tokens, labels


model = Decoder()
optimizer = torch.optim.AdamW(model.parameters(), lr=3e-3)
for step in range(100):
    tokens, labels = collate(torch.randint(VOCABULARY, (16, LENGTH // 2)))
    logits = model(tokens)
    loss = nn.functional.cross_entropy(logits[:, :-1].transpose(1, 2), labels[:, 1:])
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
print(loss.item())
