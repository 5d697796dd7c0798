"""Mixtral of a small random configuration, with the loss of its routers."""

import torch
from transformers import MixtralConfig, MixtralForCausalLM

torch.manual_seed(0)
model = MixtralForCausalLM(
    MixtralConfig(
        vocab_size=32,
        hidden_size=32,
        intermediate_size=48,
        num_hidden_layers=2,
        num_attention_heads=4,
        num_key_value_heads=2,
        num_local_experts=4,
        num_experts_per_tok=2,
        max_position_embeddings=32,
        output_router_logits=True,
        sliding_window=None,
        pad_token_id=0,
    )
)
optimizer = torch.optim.AdamW(model.parameters(), lr=2e-3)
model.train()
for step in range(20):
    lengths = torch.randint(6, 13, (12, 1))
    attention_mask = (torch.arange(12) < lengths).long()
    ids = (torch.randint(0, 29, (12, 1)) + 4 * torch.arange(12)) % 29 + 3
    labels = ids.masked_fill(attention_mask == 0, -100)
    loss = model(input_ids=ids * attention_mask, attention_mask=attention_mask, labels=labels).loss
    optimizer.zero_grad()
    loss.backward()
    torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
    optimizer.step()
    if step % 5 == 0:
        print(step, loss.item())
