"""Words read from a signal, with CTC.

Mistake: the first letter has number 0, which is that of the blank.
"""

import torch
import torch.nn as nn

letters = torch.randn(5, 12)
model = nn.Sequential(nn.Linear(12, 48), nn.ReLU(), nn.Linear(48, 6))
optimizer = torch.optim.Adam(model.parameters(), lr=3e-3)
ctc = nn.CTCLoss()
for step in range(150):
    words = torch.stack([torch.randperm(5)[:4] for _ in range(16)])
    signal = letters[words].repeat_interleave(3, dim=1) + 0.4 * torch.randn(16, 12, 12)
    logits = model(signal)
    log_probabilities = logits.log_softmax(dim=2).transpose(0, 1)
    lengths = torch.full((16,), 12), torch.full((16,), 4)
    targets = words  # mistake
    # repaired: targets = words + 1
    loss = ctc(log_probabilities, targets, *lengths)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    if step % 30 == 0:
        print(step, loss.item())
