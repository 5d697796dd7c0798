# Asked as: segmentation with one-hot masks, reshape or permute after F.one_hot? (PyTorch forums)
import torch
import torch.nn.functional as F
from torch import nn

torch.manual_seed(0)
model = nn.Sequential(
    nn.Conv2d(1, 16, 3, padding=1), nn.ReLU(), nn.Conv2d(16, 16, 3, padding=1), nn.ReLU(), nn.Conv2d(16, 3, 1)
)
optimizer = torch.optim.Adam(model.parameters(), lr=3e-3)


def pictures(size=12):
    mask = torch.zeros(size, 12, 12, dtype=torch.long)
    for one in mask:
        top, left = torch.randint(0, 6, (2,)).tolist()
        one[top : top + 5, left : left + 5] = 1
        one[top + 1 : top + 4, left + 1 : left + 4] = 2
    return (mask - 1.0 + 0.3 * torch.randn(size, 12, 12)).unsqueeze(1), mask


for step in range(40):
    image, mask = pictures()
    target = F.one_hot(mask, 3).float()
    target = target.reshape(-1, 3, 12, 12)  # mistake
    # repaired: target = target.permute(0, 3, 1, 2)
    loss = F.binary_cross_entropy_with_logits(model(image), target)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    if step % 10 == 0:
        print(step, loss.item())
