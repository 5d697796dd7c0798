# Asked as: CosineEmbeddingLoss, what is the target for similar pairs? (PyTorch forums)
import torch
import torch.nn.functional as F
from torch import nn

torch.manual_seed(0)
encoder = nn.Sequential(nn.Linear(16, 48), nn.ReLU(), nn.Linear(48, 16))
optimizer = torch.optim.Adam(encoder.parameters(), lr=2e-3)
mixing = torch.randn(4, 16)
for step in range(60):
    hidden = torch.randn(32, 4)
    same = torch.rand(32) < 0.5
    other = torch.where(same[:, None], hidden, hidden[torch.randperm(32)])
    a = encoder(hidden @ mixing + 0.2 * torch.randn(32, 16))
    b = encoder(other @ mixing + 0.2 * torch.randn(32, 16))
    target = torch.where(same, -1.0, 1.0)  # mistake
    # repaired: target = torch.where(same, 1.0, -1.0)
    loss = F.cosine_embedding_loss(a, b, target, margin=0.2)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    if step % 20 == 0:
        print(step, loss.item())
