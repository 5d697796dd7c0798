"""BERT of a small random configuration: masked language modelling of padded sentences."""

import torch
from transformers import BertConfig, BertForMaskedLM

torch.manual_seed(0)
PAD, MASK = 0, 1
model = BertForMaskedLM(
    BertConfig(
        vocab_size=40,
        hidden_size=32,
        num_hidden_layers=2,
        num_attention_heads=2,
        intermediate_size=64,
        initializer_range=0.1,
        max_position_embeddings=24,
        pad_token_id=PAD,
    )
)


def batch(size=16, longest=16):
    lengths = torch.randint(6, longest + 1, (size, 1))
    ids = (torch.randint(0, 38, (size, 1)) + torch.arange(longest)) % 38 + 2
    attention_mask = (torch.arange(longest) < lengths).long()
    chosen = (torch.rand(size, longest) < 0.2) & (attention_mask == 1)
    chosen[:, 2] = True
    labels = ids.masked_fill(~chosen, -100)
    input_ids = ids.masked_fill(chosen, MASK).masked_fill(attention_mask == 0, PAD)
    return {"input_ids": input_ids, "attention_mask": attention_mask, "labels": labels}


optimizer = torch.optim.AdamW(model.parameters(), lr=2e-3)
model.train()
for step in range(30):
    loss = model(**batch()).loss
    optimizer.zero_grad()
    loss.backward()
    torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
    optimizer.step()
    if step % 10 == 0:
        print(step, loss.item())
