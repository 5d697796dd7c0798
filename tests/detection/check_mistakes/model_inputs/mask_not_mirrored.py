# Asked as: a random flip of the image in __getitem__ and not of its mask (U-Net, PyTorch forums)

import torch
import torch.nn.functional as F
from torch import nn
from torch.utils.data import DataLoader, Dataset

SIDE = 16


class Rivers(Dataset):
    def __init__(self, count):
        columns = torch.randint(1, 6, (count, 1, 1)) + (torch.arange(SIDE)[:, None] // 4)
        self.masks = ((torch.arange(SIDE) - columns).abs() < 2).float()
        self.pictures = self.masks + 0.3 * torch.randn(count, SIDE, SIDE)

    def __len__(self):
        return len(self.masks)

    def __getitem__(self, index):
        picture, mask = self.pictures[index], self.masks[index]
        if torch.rand(()) < 0.5:
            picture = picture.flip(-1)  # mistake
            # repaired: picture, mask = picture.flip(-1), mask.flip(-1)
        return picture[None], mask[None]


model = nn.Sequential(nn.Conv2d(1, 8, 3, padding=1), nn.ReLU(), nn.Conv2d(8, 1, 3, padding=1))
optimizer = torch.optim.Adam(model.parameters(), lr=1e-2)
loader = DataLoader(Rivers(256), batch_size=32, shuffle=True)
for epoch in range(4):
    for pictures, masks in loader:
        loss = F.binary_cross_entropy_with_logits(model(pictures), masks)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
