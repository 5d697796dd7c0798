"""Connectionist temporal classification of frames, with a bidirectional GRU: the loss starts far above its end."""

import sys

import torch
from torch import nn

steps = int(sys.argv[1])
torch.manual_seed(int(sys.argv[2]))
LETTERS = 6
sounds = torch.randn(LETTERS + 1, 8) * 1.5


class Acoustic(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv = nn.Conv1d(8, 24, 3, padding=1)
        self.gru = nn.GRU(24, 24, batch_first=True, bidirectional=True)
        self.fc = nn.Linear(48, LETTERS + 1)

    def forward(self, x):
        x = torch.relu(self.conv(x.transpose(1, 2))).transpose(1, 2)
        return self.fc(self.gru(x)[0]).log_softmax(2)


model = Acoustic()
criterion = nn.CTCLoss(blank=0, zero_infinity=True)
optimizer = torch.optim.AdamW(model.parameters(), lr=3e-3)
history = []
for step in range(steps):
    text = torch.randint(1, LETTERS + 1, (12, 5))
    frames = torch.stack([text, torch.zeros_like(text), torch.zeros_like(text)], 2).flatten(1).repeat_interleave(2, 1)
    frames = torch.where(torch.rand(frames.shape) < 0.5, frames, frames.roll(1, 1))
    x = sounds[frames] + 0.3 * torch.randn(*frames.shape, 8)
    out = model(x).transpose(0, 1)
    loss = criterion(out, text, torch.full((12,), out.shape[0]), torch.full((12,), 5))
    optimizer.zero_grad()
    loss.backward()
    nn.utils.clip_grad_norm_(model.parameters(), 5.0)
    optimizer.step()
    history.append(loss.item())
    if step % 25 == 0:
        print(step, loss.item())
print(f"loss fell from {history[0]:.4g} to {sum(history[-10:]) / 10:.4g}")
