"""The DPOTrainer of TRL: of two answers the one that repeats the question is preferred."""

import copy
import tempfile

from datasets import Dataset
from shared.tiny_models import STEPS, WORDS, llama, logged, numbers, settings, tell, tokenizer
from trl import DPOConfig, DPOTrainer

rows = []
for _ in range(300):
    first, second, other = numbers(0, WORDS, 3)
    rows.append({"prompt": f"w{first} w{second}", "chosen": f" w{first} w{second}", "rejected": f" w{second} w{other}"})
with tempfile.TemporaryDirectory() as folder:
    arguments = DPOConfig(folder, **settings(STEPS // 2, 5e-4), beta=0.2, max_length=16, gradient_checkpointing=False)
    model = llama()
    trainer = DPOTrainer(
        model,
        copy.deepcopy(model),
        arguments,
        train_dataset=Dataset.from_list(rows),
        processing_class=tokenizer(),
    )
    trainer.train()
tell("fell", "loss", logged(trainer, "loss"))
