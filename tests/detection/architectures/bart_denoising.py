"""BART of a small random configuration: restores deleted words, with label smoothing over the logits."""

import torch
import torch.nn.functional as F
from transformers import BartConfig, BartForConditionalGeneration

torch.manual_seed(0)
PAD = 1
model = BartForConditionalGeneration(
    BartConfig(
        vocab_size=32,
        d_model=32,
        encoder_layers=1,
        decoder_layers=1,
        encoder_attention_heads=4,
        decoder_attention_heads=4,
        encoder_ffn_dim=64,
        decoder_ffn_dim=64,
        max_position_embeddings=24,
        pad_token_id=PAD,
        bos_token_id=0,
        eos_token_id=2,
        decoder_start_token_id=2,
        forced_eos_token_id=2,
    )
)
optimizer = torch.optim.AdamW(model.parameters(), lr=2e-3)
model.train()
for step in range(25):
    lengths = torch.randint(5, 11, (12, 1))
    mask = (torch.arange(10) < lengths).long()
    text = (torch.randint(0, 27, (12, 1)) + torch.arange(10)) % 27 + 5
    noisy = text.masked_fill(torch.rand(12, 10) < 0.2, 4).masked_fill(mask == 0, PAD)
    labels = text.masked_fill(mask == 0, -100)
    logits = model(input_ids=noisy, attention_mask=mask, labels=labels).logits
    loss = F.cross_entropy(logits.view(-1, 32), labels.view(-1), ignore_index=-100, label_smoothing=0.1)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    if step % 5 == 0:
        print(step, loss.item())
