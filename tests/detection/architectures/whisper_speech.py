"""Whisper of a small random configuration: spectra into words, with labels -100 at padding."""

import torch
from transformers import WhisperConfig, WhisperForConditionalGeneration

torch.manual_seed(0)
model = WhisperForConditionalGeneration(
    WhisperConfig(
        vocab_size=24,
        num_mel_bins=8,
        d_model=32,
        encoder_layers=1,
        decoder_layers=1,
        encoder_attention_heads=4,
        decoder_attention_heads=4,
        encoder_ffn_dim=64,
        decoder_ffn_dim=64,
        max_source_positions=20,
        max_target_positions=12,
        pad_token_id=0,
        bos_token_id=1,
        eos_token_id=2,
        decoder_start_token_id=1,
        suppress_tokens=[],
        begin_suppress_tokens=[],
    )
)
optimizer = torch.optim.AdamW(model.parameters(), lr=2e-3)
sounds = torch.randn(24, 8)
model.train()
for step in range(25):
    labels = torch.full((12, 6), -100)
    spectra = 0.1 * torch.randn(12, 8, 40)
    for row in range(12):
        words = torch.randint(3, 24, (int(torch.randint(2, 6, (1,))),))
        labels[row, : len(words) + 1] = torch.cat([words, torch.tensor([2])])
        spectra[row, :, : 8 * len(words)] += sounds[words.repeat_interleave(8)].T
    loss = model(input_features=spectra, labels=labels).loss
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    if step % 5 == 0:
        print(step, loss.item())
