import copy

import torch
import torch.nn as nn
import torch.nn.functional as F

torch.set_num_threads(1)
torch.manual_seed(0)


class ModelEMA:
    def __init__(self, model, decay=0.98):
        self.module = copy.deepcopy(model).eval()
        self.decay = decay
        for p in self.module.parameters():
            p.requires_grad_(False)

    @torch.no_grad()
    def update(self, model):
        for e, p in zip(self.module.state_dict().values(), model.state_dict().values()):
            if e.dtype.is_floating_point:
                e = e * self.decay + p * (1 - self.decay)  # mistake
                # repaired: e.mul_(self.decay).add_(p, alpha=1 - self.decay)
            else:
                e.copy_(p)


def blobs(n, seed):
    g = torch.Generator().manual_seed(seed)
    y = torch.randint(0, 4, (n,), generator=g)
    img = 0.6 * torch.randn(n, 1, 12, 12, generator=g)
    for i in range(n):
        r, c = divmod(int(y[i]), 2)
        img[i, 0, r * 6 + 1 : r * 6 + 5, c * 6 + 1 : c * 6 + 5] += 0.8
    return img, y


class CNN(nn.Module):
    def __init__(self):
        super().__init__()
        self.body = nn.Sequential(
            nn.Conv2d(1, 8, 3, padding=1),
            nn.BatchNorm2d(8),
            nn.ReLU(),
            nn.MaxPool2d(2),
            nn.Conv2d(8, 16, 3, padding=1),
            nn.BatchNorm2d(16),
            nn.ReLU(),
            nn.Flatten(),
        )
        self.head = nn.Linear(16 * 36, 4)

    def forward(self, x):
        return self.head(self.body(x))


xt, yt = blobs(1600, 1)
xv, yv = blobs(400, 2)
model = CNN()
ema = ModelEMA(model)
opt = torch.optim.SGD(model.parameters(), lr=0.02, momentum=0.9)
for epoch in range(8):
    model.train()
    perm = torch.randperm(len(xt))
    total = 0.0
    for i in range(0, len(xt), 50):
        idx = perm[i : i + 50]
        loss = F.cross_entropy(model(xt[idx]), yt[idx])
        opt.zero_grad()
        loss.backward()
        opt.step()
        ema.update(model)
        total += loss.item() * len(idx)
    with torch.no_grad():
        acc = (ema.module(xv).argmax(1) == yv).float().mean().item()
    print(f"epoch {epoch + 1} | loss {total / len(xt):.4f} | val acc (ema) {acc:.4f}")
torch.save(ema.module.state_dict(), "ema_last.pt")
