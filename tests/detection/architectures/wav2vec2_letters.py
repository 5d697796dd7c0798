"""Wav2Vec2 of a small random configuration: CTC over waves of unequal lengths, layer norm in the feature encoder."""

import torch
from transformers import Wav2Vec2Config, Wav2Vec2ForCTC

torch.manual_seed(0)
model = Wav2Vec2ForCTC(
    Wav2Vec2Config(
        vocab_size=8,
        hidden_size=32,
        num_hidden_layers=2,
        num_attention_heads=4,
        intermediate_size=64,
        conv_dim=(16, 16),
        conv_stride=(4, 4),
        conv_kernel=(8, 4),
        feat_extract_norm="layer",
        do_stable_layer_norm=True,
        conv_bias=True,
        num_conv_pos_embeddings=8,
        num_conv_pos_embedding_groups=4,
        mask_time_prob=0.1,
        mask_time_length=2,
        layerdrop=0.0,
        pad_token_id=0,
        ctc_zero_infinity=True,
        ctc_loss_reduction="mean",
    )
)
model.freeze_feature_encoder()
optimizer = torch.optim.AdamW([p for p in model.parameters() if p.requires_grad], lr=2e-3)
model.train()
for step in range(25):
    labels = torch.full((8, 4), -100)
    waves, mask = torch.zeros(8, 640), torch.zeros(8, 640, dtype=torch.long)
    for row in range(8):
        letters = torch.randint(1, 8, (int(torch.randint(2, 5, (1,))),))
        labels[row, : len(letters)] = letters
        pitch = letters.repeat_interleave(160) * 0.15
        wave = torch.sin(pitch.cumsum(0)) + 0.05 * torch.randn(len(pitch))
        waves[row, : len(wave)], mask[row, : len(wave)] = (wave - wave.mean()) / wave.std(), 1
    loss = model(input_values=waves, attention_mask=mask, labels=labels).loss
    optimizer.zero_grad()
    loss.backward()
    torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
    optimizer.step()
    if step % 5 == 0:
        print(step, loss.item())
