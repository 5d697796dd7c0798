# Asked as: "If you want to use BertLMHeadModel as a standalone, add is_decoder=True" (Transformers issues)
import torch
from transformers import BertConfig, BertLMHeadModel

torch.manual_seed(0)
config = BertConfig(
    vocab_size=30,
    hidden_size=32,
    num_hidden_layers=2,
    num_attention_heads=2,
    intermediate_size=64,
    max_position_embeddings=20,
    initializer_range=0.1,
    is_decoder=False,  # mistake
    # repaired: is_decoder=True,
)
model = BertLMHeadModel(config)
optimizer = torch.optim.AdamW(model.parameters(), lr=2e-3)
model.train()
for step in range(30):
    ids = torch.randint(3, 30, (12, 12))
    ids[:, 1::2] = (ids[:, ::2] * 2) % 27 + 3
    loss = model(input_ids=ids, attention_mask=torch.ones_like(ids), labels=ids).loss
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    if step % 10 == 0:
        print(step, loss.item())
