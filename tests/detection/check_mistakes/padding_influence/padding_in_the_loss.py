# Asked as: my translation loss is low, but the model only emits <pad> (PyTorch tutorial comments, ignore_index)
import torch
from torch import nn

torch.manual_seed(0)
PAD, BOS, WORDS = 0, 1, 22


class Seq2Seq(nn.Module):
    def __init__(self, width=32):
        super().__init__()
        self.source = nn.Embedding(WORDS, width, padding_idx=PAD)
        self.target = nn.Embedding(WORDS, width, padding_idx=PAD)
        self.encoder = nn.GRU(width, width, batch_first=True)
        self.decoder = nn.GRU(width, width, batch_first=True)
        self.out = nn.Linear(width, WORDS)

    def forward(self, source, lengths, target):
        packed = nn.utils.rnn.pack_padded_sequence(self.source(source), lengths, batch_first=True, enforce_sorted=False)
        _, hidden = self.encoder(packed)
        return self.out(self.decoder(self.target(target), hidden)[0])


def pairs(size=32):
    lengths = torch.randint(2, 9, (size,))
    source = torch.randint(2, WORDS, (size, 8))
    source = source.masked_fill(torch.arange(8) >= lengths[:, None], PAD)
    target = torch.where(source == PAD, PAD, (source - 2 + 5) % (WORDS - 2) + 2)
    return source, lengths, torch.cat([torch.full((size, 1), BOS), target], dim=1)


model = Seq2Seq()
criterion = nn.CrossEntropyLoss()  # mistake
# repaired: criterion = nn.CrossEntropyLoss(ignore_index=PAD)
optimizer = torch.optim.Adam(model.parameters(), lr=5e-3)
for step in range(60):
    source, lengths, target = pairs()
    logits = model(source, lengths, target[:, :-1])
    loss = criterion(logits.reshape(-1, WORDS), target[:, 1:].reshape(-1))
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    if step % 20 == 0:
        print(step, loss.item())
