"""A recurrent network that predicts one number per sequence.

Mistake: smooth_l1_loss of shapes (N, 1, 1) and (N, 1) broadcasts.
"""

import torch
import torch.nn.functional as F
from torch import nn

rnn = nn.GRU(2, 16, batch_first=True)
head = nn.Linear(16, 1)
optimizer = torch.optim.Adam([*rnn.parameters(), *head.parameters()], lr=5e-3)
for step in range(100):
    sequences = torch.randn(32, 6, 2)
    sums = sequences[:, :, :1].sum(1) / 2
    _, hidden = rnn(sequences)
    prediction = head(hidden.transpose(0, 1))  # mistake
    # repaired: prediction = head(hidden[-1])
    loss = F.smooth_l1_loss(prediction, sums)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    if step % 20 == 0:
        print(step, loss.item())
