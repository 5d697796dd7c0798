# Asked as: I shift labels in my collator, does the model shift them again? (Transformers issues, over and over)
import torch
from transformers import GPT2Config, GPT2LMHeadModel

torch.manual_seed(0)
model = GPT2LMHeadModel(
    GPT2Config(vocab_size=32, n_positions=20, n_embd=32, n_layer=2, n_head=2, bos_token_id=1, eos_token_id=2)
)


def collate(size=12):
    text = torch.randint(3, 32, (size, 16))
    text[:, 1::2] = (text[:, ::2] * 3) % 29 + 3
    inputs, labels = text[:, :-1], text[:, 1:]  # mistake
    # repaired: inputs, labels = text, text
    return {"input_ids": inputs, "labels": labels, "attention_mask": torch.ones_like(inputs)}


optimizer = torch.optim.AdamW(model.parameters(), lr=2e-3)
model.train()
for step in range(30):
    loss = model(**collate()).loss
    loss.backward()
    optimizer.step()
    optimizer.zero_grad()
    if step % 10 == 0:
        print(step, loss.item())
