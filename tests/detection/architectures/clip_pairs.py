"""CLIP of a small random configuration: pictures and padded texts, contrasted within the batch."""

import torch
from transformers import CLIPConfig, CLIPModel

torch.manual_seed(0)
text = {
    "vocab_size": 40,
    "hidden_size": 32,
    "intermediate_size": 64,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "max_position_embeddings": 12,
    "bos_token_id": 1,
    "eos_token_id": 39,
    "pad_token_id": 0,
}
vision = {
    "hidden_size": 32,
    "intermediate_size": 64,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "image_size": 12,
    "patch_size": 4,
}
model = CLIPModel(CLIPConfig(text_config=text, vision_config=vision, projection_dim=16))
pictures = torch.randn(30, 3, 12, 12)
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
model.train()
for step in range(25):
    which = torch.randperm(30)[:12]
    lengths = torch.randint(4, 11, (12,))
    ids = torch.randint(2, 5, (12, 10))
    ids[:, 0], ids[:, 1] = 1, 6 + which
    ids[torch.arange(12), lengths - 1] = 39
    mask = (torch.arange(10) < lengths[:, None]).long()
    pixels = pictures[which] + 0.3 * torch.randn(12, 3, 12, 12)
    loss = model(input_ids=ids * mask, attention_mask=mask, pixel_values=pixels, return_loss=True).loss
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    if step % 5 == 0:
        print(step, loss.item())
