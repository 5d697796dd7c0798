# Asked as: nn.Transformer translates the training set perfectly with teacher forcing, BLEU is 0 (PyTorch forums)
import torch
from torch import nn

torch.manual_seed(0)
WORDS, BOS, PAD = 20, 1, 0


class Translator(nn.Module):
    def __init__(self, width=32):
        super().__init__()
        self.source, self.target = nn.Embedding(WORDS, width), nn.Embedding(WORDS, width)
        self.position = nn.Embedding(16, width)
        self.transformer = nn.Transformer(width, 4, 1, 1, 64, dropout=0.0, batch_first=True)
        self.generator = nn.Linear(width, WORDS)

    def forward(self, source, target):
        s = self.source(source) + self.position(torch.arange(source.size(1)))
        t = self.target(target) + self.position(torch.arange(target.size(1)))
        mask = nn.Transformer.generate_square_subsequent_mask(target.size(1))
        hidden = self.transformer(s, t, src_mask=None, tgt_mask=None)  # mistake
        # repaired: hidden = self.transformer(s, t, src_mask=None, tgt_mask=mask)
        return self.generator(hidden)


model = Translator()
optimizer = torch.optim.Adam(model.parameters(), lr=2e-3, betas=(0.9, 0.98))
criterion = nn.CrossEntropyLoss(ignore_index=PAD)
for step in range(50):
    source = torch.randint(2, WORDS, (24, 7))
    target = torch.cat([torch.full((24, 1), BOS), source.flip(1)], dim=1)
    logits = model(source, target[:, :-1])
    loss = criterion(logits.reshape(-1, WORDS), target[:, 1:].reshape(-1))
    optimizer.zero_grad()
    loss.backward()
    nn.utils.clip_grad_norm_(model.parameters(), 1.0)
    optimizer.step()
    if step % 10 == 0:
        print(f"step {step} loss {loss.item():.3f}")
