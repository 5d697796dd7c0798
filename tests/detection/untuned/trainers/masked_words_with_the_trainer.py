"""DistilBERT fills in masked words with the Trainer of Transformers and a warm-up."""

import tempfile

from shared.tiny_models import STEPS, logged, numbers, settings, tell, tokenizer
from transformers import (
    DataCollatorForLanguageModeling,
    DistilBertConfig,
    DistilBertForMaskedLM,
    Trainer,
    TrainingArguments,
)

words = tokenizer()
words.add_special_tokens({"mask_token": "<mask>"})
rows = []
for _ in range(600):
    start, stride = numbers(0, 28, 1)[0], numbers(1, 3, 1)[0]
    rows.append({"input_ids": [4 + (start + at * stride) % 28 for at in range(12)]})
model = DistilBertForMaskedLM(
    DistilBertConfig(vocab_size=len(words), dim=32, hidden_dim=64, n_layers=2, n_heads=2, max_position_embeddings=16)
)
with tempfile.TemporaryDirectory() as folder:
    arguments = TrainingArguments(folder, **settings(STEPS, 5e-3, warmup_steps=5))
    trainer = Trainer(model, arguments, DataCollatorForLanguageModeling(words, mlm_probability=0.2), rows)
    trainer.train()
tell("fell", "loss", logged(trainer, "loss"))
