# Asked as: padding the labels of a causal model with pad_token_id instead of -100 (Transformers issues)
import torch
from transformers import GPT2Config, GPT2LMHeadModel

torch.manual_seed(0)
PAD = 0
config = GPT2Config(
    vocab_size=40, n_positions=24, n_embd=32, n_layer=2, n_head=2, bos_token_id=1, eos_token_id=2, pad_token_id=PAD
)
model = GPT2LMHeadModel(config)


def collate(size=12, longest=20):
    lengths = torch.randint(6, longest + 1, (size, 1))
    ids = (torch.randint(3, 40, (size, 1)) + torch.arange(longest) * 3) % 37 + 3
    mask = (torch.arange(longest) < lengths).long()
    ids = torch.where(mask == 1, ids, PAD)
    labels = ids.clone()  # mistake
    # repaired: labels = ids.masked_fill(mask == 0, -100)
    return ids, mask, labels


optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3, weight_decay=0.01)
for step in range(30):
    ids, mask, labels = collate()
    loss = model(input_ids=ids, attention_mask=mask, labels=labels).loss
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    if step % 5 == 0:
        print(f"step {step}: loss {loss.item():.3f}")
