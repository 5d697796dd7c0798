"""A regression on a stream of measurements, read by two workers of a data loader.

Mistake: every worker reads the whole stream, so that each batch comes twice.
"""

import torch
from torch import nn
from torch.utils import data


class Stream(data.IterableDataset):
    def __iter__(self):
        first, step = 0, 1  # mistake
        # repaired: first, step = data.get_worker_info().id, data.get_worker_info().num_workers
        for block in range(first, 80, step):
            generator = torch.Generator().manual_seed(block)
            for x in torch.randn(64, 6, generator=generator):
                yield x, torch.sin(x[:1]) + 0.5 * x[1:2]


model = nn.Sequential(nn.Linear(6, 900), nn.Tanh(), nn.Linear(900, 900), nn.Tanh(), nn.Linear(900, 1))
optimizer = torch.optim.Adam(model.parameters(), lr=3e-4)
for x, y in data.DataLoader(Stream(), batch_size=64, num_workers=2):
    loss = nn.functional.mse_loss(model(x), y)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
print(loss.item())
