"""The KTOTrainer of TRL on single answers, each of which is called good or bad."""

import copy
import tempfile

from datasets import Dataset
from shared.tiny_models import STEPS, WORDS, llama, logged, numbers, settings, tell, tokenizer
from trl import KTOConfig, KTOTrainer

rows = []
for index in range(400):
    first, second = numbers(0, WORDS // 2, 2)
    answer = f" w{first} w{second}" if index % 2 else f" w{WORDS // 2 + first} w{WORDS // 2 + second}"
    rows.append({"prompt": f"w{first} w{second}", "completion": answer, "label": bool(index % 2)})
with tempfile.TemporaryDirectory() as folder:
    arguments = KTOConfig(folder, **settings(STEPS // 2, 1e-3), beta=0.3, max_length=16, gradient_checkpointing=False)
    model = llama()
    trainer = KTOTrainer(
        model,
        copy.deepcopy(model),
        arguments,
        train_dataset=Dataset.from_list(rows),
        processing_class=tokenizer(),
    )
    trainer.train()
tell("fell", "loss", logged(trainer, "loss"))
