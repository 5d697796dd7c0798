"""Tiny U-Net, left ventricle style blobs that always lie off-centre."""

import torch
import torch.nn as nn
import torch.nn.functional as F
from torch.utils.data import DataLoader, Dataset

torch.set_num_threads(1)
torch.manual_seed(0)
S = 24


class BlobSeg(Dataset):
    def __init__(self, n, train, seed):
        g = torch.Generator().manual_seed(seed)
        yy, xx = torch.meshgrid(torch.arange(S), torch.arange(S), indexing="ij")
        cx = 5 + 14 * torch.rand(n, generator=g)
        cy = 5 + 14 * torch.rand(n, generator=g)
        r = 3 + 2 * torch.rand(n, generator=g)
        self.mask = (((xx - cx[:, None, None]) ** 2 + (yy - cy[:, None, None]) ** 2) < r[:, None, None] ** 2).float()
        self.img = self.mask * 1.2 + 0.5 * torch.randn(n, S, S, generator=g)
        self.train = train

    def __len__(self):
        return len(self.img)

    def __getitem__(self, i):
        img, mask = self.img[i], self.mask[i]
        if self.train and torch.rand(()) < 0.5:
            img = torch.flip(img, dims=[-1])
            # repaired: mask = torch.flip(mask, dims=[-1])
        return img[None], mask[None]


def conv(i, o):
    return nn.Sequential(nn.Conv2d(i, o, 3, padding=1), nn.BatchNorm2d(o), nn.ReLU())


class UNet(nn.Module):
    def __init__(self):
        super().__init__()
        self.d1, self.d2, self.u1 = conv(1, 8), conv(8, 16), conv(24, 8)
        self.out = nn.Conv2d(8, 1, 1)

    def forward(self, x):
        a = self.d1(x)
        b = self.d2(F.max_pool2d(a, 2))
        return self.out(self.u1(torch.cat([F.interpolate(b, scale_factor=2), a], 1)))


def dice(logit, m):
    p = (logit > 0).float()
    return (2 * (p * m).sum() / (p.sum() + m.sum() + 1e-6)).item()


train = DataLoader(BlobSeg(640, True, 1), batch_size=16, shuffle=True)
val = DataLoader(BlobSeg(128, False, 2), batch_size=64)
net = UNet()
opt = torch.optim.Adam(net.parameters(), lr=2e-3)
for epoch in range(6):
    net.train()
    tl = 0
    for x, m in train:
        loss = F.binary_cross_entropy_with_logits(net(x), m)
        opt.zero_grad()
        loss.backward()
        opt.step()
        tl += loss.item()
    net.eval()
    with torch.no_grad():
        d = sum(dice(net(x), m) for x, m in val) / len(val)
    print(f"epoch {epoch}: loss {tl / len(train):.4f} val dice {d:.4f}")
