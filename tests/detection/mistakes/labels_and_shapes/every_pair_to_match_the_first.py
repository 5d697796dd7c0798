"""Two views of a sample are to lie closer together than views of different samples of the batch.

Mistake: the label of each row is 0, so that every view is to match the first sample of its batch.
"""

import torch
import torch.nn as nn
import torch.nn.functional as F

encoder = nn.Sequential(nn.Linear(16, 64), nn.ReLU(), nn.Linear(64, 16))
optimizer = torch.optim.Adam(encoder.parameters(), lr=1e-3)
samples = torch.randn(1024, 16)
for epoch in range(10):
    for batch in samples[torch.randperm(1024)].split(64):
        first = F.normalize(encoder(batch + 0.1 * torch.randn_like(batch)), dim=1)
        second = F.normalize(encoder(batch + 0.1 * torch.randn_like(batch)), dim=1)
        logits = first @ second.t() / 0.2
        labels = torch.zeros(64, dtype=torch.long)  # mistake
        # repaired: labels = torch.arange(64)
        loss = F.cross_entropy(logits, labels)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    print(f"epoch {epoch} contrastive loss {loss.item():.4f}")
