"""An encoder with a classifier is fine-tuned with low-rank adapters.

Mistake: the optimizer is made before the adapters are added, so that it holds the classifier, and not one of them.
"""

import torch
from peft import LoraConfig, inject_adapter_in_model
from torch import nn


class Encoder(nn.Module):
    def __init__(self):
        super().__init__()
        self.embedding = nn.Embedding(40, 32)
        self.up, self.down = nn.Linear(32, 64), nn.Linear(64, 32)
        self.classifier = nn.Linear(32, 2)

    def forward(self, tokens):
        x = self.embedding(tokens).mean(dim=1)
        return self.classifier(x + self.down(torch.tanh(self.up(x))))


model = Encoder()
optimizer = torch.optim.AdamW(model.parameters(), lr=3e-3)  # mistake
inject_adapter_in_model(LoraConfig(r=4, target_modules=["up", "down"]), model)
model.classifier.requires_grad_()
# repaired: optimizer = torch.optim.AdamW((p for p in model.parameters() if p.requires_grad), lr=3e-3)
for step in range(120):
    tokens = torch.randint(40, (32, 12))
    labels = ((tokens < 20).float().mean(dim=1) > 0.5).long()
    optimizer.zero_grad()
    loss = nn.functional.cross_entropy(model(tokens), labels)
    loss.backward()
    optimizer.step()
    if step % 40 == 0:
        print(step, loss.item())
