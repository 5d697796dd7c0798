"""The first rank of two trains a classifier on its half of the data, shuffled in each epoch.

Mistake: nothing tells the sampler which epoch it is, so that it shuffles each one alike.
"""

import torch
import torch.nn as nn
from torch.utils.data import DataLoader, DistributedSampler, TensorDataset

table = torch.randn(12, 4)
x = torch.randn(768, 12)
y = (x @ table + 0.5 * torch.randn(768, 4)).argmax(1)
train_set, test_set = TensorDataset(x[:640], y[:640]), TensorDataset(x[640:], y[640:])
sampler = DistributedSampler(train_set, num_replicas=2, rank=0, shuffle=True, seed=3)
train = DataLoader(train_set, batch_size=16, sampler=sampler)
test = DataLoader(test_set, batch_size=64, sampler=DistributedSampler(test_set, num_replicas=2, rank=0))

model = nn.Sequential(nn.Linear(12, 32), nn.ReLU(), nn.Linear(32, 4))
optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
for epoch in range(7):
    # repaired: sampler.set_epoch(epoch)
    model.train()  # mistake
    # repaired: model.train()
    for inputs, labels in train:
        loss = nn.functional.cross_entropy(model(inputs), labels)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    model.eval()
    with torch.no_grad():
        correct = sum((model(inputs).argmax(1) == labels).sum().item() for inputs, labels in test)
    print(f"epoch {epoch} loss {loss.item():.3f} accuracy {correct / 64:.3f}")
