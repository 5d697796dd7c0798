# Asked as: my GPT returns the loss itself and it goes to minus infinity (nanoGPT issues, own log_softmax and gather)
import torch
from torch import nn


class Language(nn.Module):
    def __init__(self):
        super().__init__()
        self.tokens, self.recurrent, self.head = (
            nn.Embedding(20, 24),
            nn.GRU(24, 32, batch_first=True),
            nn.Linear(32, 20),
        )

    def forward(self, ids, targets=None):
        logits = self.head(self.recurrent(self.tokens(ids))[0])
        loss = None
        if targets is not None:
            likelihood = logits.log_softmax(-1).gather(-1, targets[..., None])
            loss = likelihood.mean()  # mistake
            # repaired: loss = -likelihood.mean()
        return logits, loss


torch.manual_seed(0)
text = torch.cumsum(torch.randint(1, 3, (4000,)), 0) % 20
model = Language()
optimizer = torch.optim.AdamW(model.parameters(), lr=2e-3)
for step in range(60):
    starts = torch.randint(len(text) - 17, (16,)).tolist()
    ids = torch.stack([text[start : start + 16] for start in starts])
    targets = torch.stack([text[start + 1 : start + 17] for start in starts])
    _, loss = model(ids, targets)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    if step % 20 == 0:
        print(step, loss.item())
