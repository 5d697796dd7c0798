"""Fine-tuning of a small convolutional network with its batch normalization frozen, for small batches.

Mistake: only the factors of batch normalization are frozen; it goes on normalizing with the statistics of the batch.
"""

import torch
import torch.nn as nn


def freeze_batch_norm(model):
    for module in model.modules():
        if isinstance(module, nn.BatchNorm2d):
            module.weight.requires_grad_(False)
            module.bias.requires_grad_(False)
            # repaired: module.eval()


model = nn.Sequential(
    nn.Conv2d(1, 8, 3, padding=1),
    nn.BatchNorm2d(8),
    nn.ReLU(),
    nn.Conv2d(8, 8, 3, padding=1),
    nn.BatchNorm2d(8),
    nn.ReLU(),
    nn.AdaptiveAvgPool2d(2),
    nn.Flatten(),
    nn.Linear(32, 2),
)
optimizer = torch.optim.SGD((p for p in model.parameters()), lr=0.02, momentum=0.9)
criterion = nn.CrossEntropyLoss()
model.train()
freeze_batch_norm(model)
for step in range(150):
    labels = torch.randint(2, (4,))
    images = torch.randn(4, 1, 8, 8)
    images[:, 0, :4, :4] += 1.5 * labels.view(4, 1, 1)
    optimizer.zero_grad()
    loss = criterion(model(images), labels)
    loss.backward()
    optimizer.step()
    if step % 30 == 0:
        print(step, loss.item())
