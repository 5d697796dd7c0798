"""GPT-2 of a small random configuration: padded on the right, labels -100 at padding."""

import torch
from transformers import GPT2Config, GPT2LMHeadModel

torch.manual_seed(0)
PAD = 0
model = GPT2LMHeadModel(
    GPT2Config(
        vocab_size=40, n_positions=24, n_embd=32, n_layer=2, n_head=2, bos_token_id=1, eos_token_id=2, pad_token_id=PAD
    )
)


def batch(size=12, longest=18):
    lengths = torch.randint(6, longest + 1, (size, 1))
    ids = (torch.randint(0, 37, (size, 1)) + 3 * torch.arange(longest)) % 37 + 3
    attention_mask = (torch.arange(longest) < lengths).long()
    labels = ids.masked_fill(attention_mask == 0, -100)
    return {"input_ids": ids * attention_mask, "attention_mask": attention_mask, "labels": labels}


optimizer = torch.optim.AdamW(model.parameters(), lr=2e-3, weight_decay=0.1)
model.train()
for step in range(30):
    loss = model(**batch()).loss
    optimizer.zero_grad(set_to_none=True)
    loss.backward()
    optimizer.step()
    if step % 10 == 0:
        print(step, loss.item())
