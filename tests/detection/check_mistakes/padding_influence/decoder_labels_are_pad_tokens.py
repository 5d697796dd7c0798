# Asked as: T5 fine-tuning, loss very low, labels padded with 0 instead of -100 (Transformers forum)
import torch
from transformers import T5Config, T5ForConditionalGeneration

torch.manual_seed(0)
model = T5ForConditionalGeneration(
    T5Config(
        vocab_size=32,
        d_model=32,
        d_kv=8,
        d_ff=64,
        num_layers=1,
        num_heads=4,
        pad_token_id=0,
        eos_token_id=1,
        decoder_start_token_id=0,
    )
)
optimizer = torch.optim.AdamW(model.parameters(), lr=3e-3)
model.train()
for step in range(30):
    lengths = torch.randint(2, 11, (16, 1))
    mask = (torch.arange(10) < lengths).long()
    source = torch.randint(2, 32, (16, 10)) * mask
    labels = torch.where(mask == 1, (source + 3) % 30 + 2, 0)  # mistake
    # repaired: labels = torch.where(mask == 1, (source + 3) % 30 + 2, -100)
    loss = model(input_ids=source, attention_mask=mask, labels=labels).loss
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    if step % 10 == 0:
        print(step, loss.item())
