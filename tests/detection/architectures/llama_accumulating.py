"""Llama of a small random configuration with grouped queries: micro-batches weighted by their number of tokens."""

import torch
import torch.nn.functional as F
from transformers import LlamaConfig, LlamaForCausalLM

torch.manual_seed(0)
model = LlamaForCausalLM(
    LlamaConfig(
        vocab_size=40,
        hidden_size=32,
        intermediate_size=64,
        num_hidden_layers=2,
        num_attention_heads=4,
        num_key_value_heads=2,
        max_position_embeddings=32,
        pad_token_id=0,
        bos_token_id=1,
        eos_token_id=2,
    )
)


def batch(size=6, longest=16):
    lengths = torch.randint(3, longest + 1, (size, 1))
    ids = (torch.randint(0, 37, (size, 1)) + 5 * torch.arange(longest)) % 37 + 3
    mask = (torch.arange(longest) < lengths).long()
    return ids * mask, mask, ids.masked_fill(mask == 0, -100)


optimizer = torch.optim.AdamW(model.parameters(), lr=2e-3)
model.train()
for step in range(20):
    parts = [batch() for _ in range(3)]
    tokens = sum((labels[:, 1:] != -100).sum() for _, _, labels in parts)
    total = 0.0
    for ids, mask, labels in parts:
        logits = model(input_ids=ids, attention_mask=mask).logits
        loss = F.cross_entropy(logits[:, :-1].reshape(-1, 40), labels[:, 1:].reshape(-1), reduction="sum") / tokens
        loss.backward()
        total += loss.item()
    torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
    optimizer.step()
    optimizer.zero_grad()
    if step % 5 == 0:
        print(step, total)
