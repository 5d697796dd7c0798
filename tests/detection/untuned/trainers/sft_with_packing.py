"""The SFTTrainer of TRL on texts that are packed into rows of one length, with accumulated gradients."""

import tempfile

from datasets import Dataset
from shared.tiny_models import BEGIN, END, STEPS, llama, logged, numbers, settings, tell, tokenizer
from trl import SFTConfig, SFTTrainer

rows = []
for _ in range(600):
    start, stride, length = (numbers(low, high, 1)[0] for low, high in ((0, 28), (1, 4), (4, 12)))
    rows.append({"input_ids": [BEGIN, *(4 + (start + at * stride) % 28 for at in range(length)), END]})
with tempfile.TemporaryDirectory() as folder:
    arguments = SFTConfig(
        folder,
        **settings(STEPS // 2, 5e-3, gradient_accumulation_steps=2),
        max_length=32,
        packing=True,
        packing_strategy="wrapped",
        gradient_checkpointing=False,
    )
    trainer = SFTTrainer(llama(), arguments, train_dataset=Dataset.from_list(rows), processing_class=tokenizer())
    trainer.train()
tell("fell", "loss", logged(trainer, "loss"))
