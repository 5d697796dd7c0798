"""Mistral of a small random configuration: a sliding window, padding on the left, bfloat16 autocast."""

import torch
from transformers import MistralConfig, MistralForCausalLM

torch.manual_seed(0)
model = MistralForCausalLM(
    MistralConfig(
        vocab_size=40,
        hidden_size=32,
        intermediate_size=64,
        num_hidden_layers=2,
        num_attention_heads=4,
        num_key_value_heads=2,
        max_position_embeddings=32,
        sliding_window=8,
        pad_token_id=0,
    )
)
optimizer = torch.optim.AdamW(model.parameters(), lr=2e-3)
model.train()
for step in range(25):
    lengths = torch.randint(6, 17, (12, 1))
    attention_mask = (torch.arange(16) >= 16 - lengths).long()
    ids = (torch.randint(0, 37, (12, 1)) + 2 * torch.arange(16)) % 37 + 3
    labels = ids.masked_fill(attention_mask == 0, -100)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        loss = model(input_ids=ids * attention_mask, attention_mask=attention_mask, labels=labels).loss
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    if step % 5 == 0:
        print(step, loss.item())
