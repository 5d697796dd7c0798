"""Connectionist temporal classification: frames of different lengths, labels without their places, packed sequences."""

import sys

import torch
from torch import nn

steps = int(sys.argv[1])
kinds = 7
codes = torch.randn(kinds, 12)


def utterance():
    labels = torch.randint(1, kinds, (int(torch.randint(3, 7, ())),))
    parts = [torch.zeros(1, 12)]
    for label in labels:
        parts += [torch.zeros(int(torch.randint(2, ())), 12), codes[label].expand(int(torch.randint(2, 5, ())), 12)]
    frames = torch.cat(parts)
    return frames + 0.3 * torch.randn_like(frames), labels


class Acoustic(nn.Module):
    def __init__(self):
        super().__init__()
        self.lstm = nn.LSTM(12, 32, bidirectional=True, batch_first=True)
        self.out = nn.Linear(64, kinds)

    def forward(self, frames, lengths):
        packed = nn.utils.rnn.pack_padded_sequence(frames, lengths, batch_first=True, enforce_sorted=False)
        hidden, _ = nn.utils.rnn.pad_packed_sequence(self.lstm(packed)[0], batch_first=True)
        return self.out(hidden).log_softmax(-1)


model = Acoustic()
optimizer = torch.optim.Adam(model.parameters(), lr=5e-3)
ctc = nn.CTCLoss(zero_infinity=True)
for step in range(steps):
    frames, labels = zip(*[utterance() for _ in range(16)], strict=True)
    lengths = torch.tensor(list(map(len, frames)))
    scores = model(nn.utils.rnn.pad_sequence(frames, batch_first=True), lengths)
    loss = ctc(scores.transpose(0, 1), torch.cat(labels), lengths, torch.tensor(list(map(len, labels))))
    optimizer.zero_grad()
    loss.backward()
    nn.utils.clip_grad_norm_(model.parameters(), 5.0)
    optimizer.step()
    if step % 50 == 0:
        print(step, loss.item())
