"""Five folds in one process: a fresh network and optimizer for each, and validation after each epoch."""

import sys

import torch
from torch import nn
from torch.utils.data import DataLoader, Subset, TensorDataset

steps = int(sys.argv[1])
torch.manual_seed(int(sys.argv[2]))
x = torch.randn(400, 10)
y = (x @ torch.randn(10, 3) + 0.5 * torch.randn(400, 3)).argmax(1)
dataset = TensorDataset(x, y)
folds = torch.randperm(400).chunk(5)
epochs = max(2, steps // 50)
scores = []
for fold in range(5):
    training = torch.cat([part for k, part in enumerate(folds) if k != fold])
    train_loader = DataLoader(Subset(dataset, training.tolist()), batch_size=32, shuffle=True)
    val_loader = DataLoader(Subset(dataset, folds[fold].tolist()), batch_size=80)
    model = nn.Sequential(nn.Linear(10, 64), nn.ReLU(), nn.Dropout(0.1), nn.Linear(64, 3))
    optimizer = torch.optim.Adam(model.parameters(), lr=5e-3)
    criterion = nn.CrossEntropyLoss()
    for epoch in range(epochs):
        model.train()
        total = 0.0
        for xb, yb in train_loader:
            optimizer.zero_grad()
            loss = criterion(model(xb), yb)
            loss.backward()
            optimizer.step()
            total += loss.item()
        model.eval()
        with torch.no_grad():
            for xb, yb in val_loader:
                out = model(xb)
                val_loss, accuracy = criterion(out, yb).item(), (out.argmax(1) == yb).float().mean().item()
        if epoch == 0:
            first = total / len(train_loader)
    scores.append(accuracy)
    print(f"fold {fold}: val_loss {val_loss:.3f} accuracy {accuracy:.3f}")
print(f"loss fell from {first:.4g} to {total / len(train_loader):.4g}")
