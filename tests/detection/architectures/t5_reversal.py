"""T5 of a small random configuration: encoder and decoder, padded on both sides, Adafactor."""

import torch
from transformers import Adafactor, T5Config, T5ForConditionalGeneration

torch.manual_seed(0)
model = T5ForConditionalGeneration(
    T5Config(
        vocab_size=32,
        d_model=32,
        d_kv=8,
        d_ff=64,
        num_layers=2,
        num_heads=4,
        dropout_rate=0.1,
        pad_token_id=0,
        eos_token_id=1,
        decoder_start_token_id=0,
    )
)
optimizer = Adafactor(model.parameters(), lr=5e-3, relative_step=False, scale_parameter=False)
model.train()
for step in range(25):
    lengths = torch.randint(3, 9, (16, 1))
    mask = (torch.arange(8) < lengths).long()
    source = torch.randint(2, 32, (16, 8)) * mask
    labels = torch.where(mask == 1, (source + 3) % 30 + 2, -100)
    loss = model(input_ids=source, attention_mask=mask, labels=labels).loss
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    if step % 5 == 0:
        print(step, loss.item())
