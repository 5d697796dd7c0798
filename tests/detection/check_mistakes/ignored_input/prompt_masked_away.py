# Asked as: my chat model ignores the question and always gives the same answer (Transformers forum, attention_mask)
import torch
from transformers import GPT2Config, GPT2LMHeadModel

torch.manual_seed(0)
model = GPT2LMHeadModel(
    GPT2Config(vocab_size=40, n_positions=16, n_embd=32, n_layer=2, n_head=2, bos_token_id=1, eos_token_id=2)
)
optimizer = torch.optim.AdamW(model.parameters(), lr=3e-3)
PROMPT = 6
for step in range(40):
    prompt = torch.randint(3, 40, (16, PROMPT))
    answer = prompt[:, :1].repeat(1, 4)
    ids = torch.cat([prompt, torch.full((16, 1), 1), answer], dim=1)
    labels = ids.clone()
    labels[:, : PROMPT + 1] = -100
    attention_mask = torch.ones_like(ids)
    attention_mask[:, :PROMPT] = 0  # mistake
    # repaired: attention_mask[:, :PROMPT] = 1
    loss = model(input_ids=ids, attention_mask=attention_mask, labels=labels).loss
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    if step % 10 == 0:
        print(step, loss.item())
