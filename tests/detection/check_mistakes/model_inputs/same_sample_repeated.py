# Asked as: my sampler yields the same index over and over, loss falls to zero (PyTorch forums, IterableDataset)
import torch
from torch import nn
from torch.utils.data import DataLoader, IterableDataset

torch.manual_seed(0)


class Stream(IterableDataset):
    def __iter__(self):
        for _ in range(40):
            x = torch.randn(9)
            for _ in range(32):
                sample = x.clone()  # mistake
                # repaired: sample = torch.randn(9)
                yield sample, sample[:3].sum().reshape(1)


model = nn.Sequential(nn.Linear(9, 32), nn.ReLU(), nn.Linear(32, 1))
optimizer = torch.optim.Adam(model.parameters(), lr=3e-3)
for step, (x, y) in enumerate(DataLoader(Stream(), batch_size=32)):
    loss = nn.functional.mse_loss(model(x), y)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    if step % 10 == 0:
        print(step, loss.item())
