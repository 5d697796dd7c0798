"""An encoder with low-rank adapters from an earlier training is trained further, with a new classifier.

Mistake: PEFT loads an adapter for inference, with frozen weights, unless it is asked for a trainable one. The new
classifier learns, and the adapter stays as it was.
"""

import tempfile

import torch
from peft import LoraConfig, PeftModel, get_peft_model
from torch import nn


class Encoder(nn.Module):
    def __init__(self):
        super().__init__()
        self.embedding = nn.Embedding(40, 32)
        self.up, self.down = nn.Linear(32, 64), nn.Linear(64, 32)

    def forward(self, tokens):
        x = self.embedding(tokens).mean(dim=1)
        return x + self.down(torch.tanh(self.up(x)))


encoder = Encoder()
with tempfile.TemporaryDirectory() as folder:
    get_peft_model(encoder, LoraConfig(r=4, target_modules=["up", "down"])).save_pretrained(folder)
    torch.manual_seed(1)
    encoder = PeftModel.from_pretrained(Encoder(), folder)  # mistake
    # repaired: encoder = PeftModel.from_pretrained(Encoder(), folder, is_trainable=True)
model = nn.Sequential(encoder, nn.Linear(32, 2))
optimizer = torch.optim.AdamW((p for p in model.parameters() if p.requires_grad), lr=3e-3)
for step in range(120):
    tokens = torch.randint(40, (32, 12))
    labels = ((tokens < 20).float().mean(dim=1) > 0.5).long()
    optimizer.zero_grad()
    loss = nn.functional.cross_entropy(model(tokens), labels)
    loss.backward()
    optimizer.step()
    if step % 40 == 0:
        print(step, loss.item())
