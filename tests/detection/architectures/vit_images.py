"""ViT of a small random configuration: images of four classes."""

import torch
from transformers import ViTConfig, ViTForImageClassification

torch.manual_seed(0)
model = ViTForImageClassification(
    ViTConfig(
        image_size=16,
        patch_size=4,
        num_channels=3,
        hidden_size=32,
        num_hidden_layers=2,
        num_attention_heads=4,
        intermediate_size=64,
        num_labels=4,
    )
)
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3, weight_decay=0.05)
templates = torch.randn(4, 3, 16, 16)
model.train()
for step in range(30):
    labels = torch.randint(0, 4, (16,))
    pixel_values = (templates[labels] + torch.randn(16, 3, 16, 16)) / 1.4
    loss = model(pixel_values=pixel_values, labels=labels).loss
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    if step % 10 == 0:
        print(step, loss.item())
