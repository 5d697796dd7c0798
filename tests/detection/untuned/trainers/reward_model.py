"""The RewardTrainer of TRL: a model of sequences gives the preferred answers the larger number."""

import tempfile

from datasets import Dataset
from shared.tiny_models import STEPS, WORDS, config, logged, numbers, settings, tell, tokenizer
from transformers import LlamaForSequenceClassification
from trl import RewardConfig, RewardTrainer

settings_of_model = config()
settings_of_model.num_labels = 1
rows = []
for _ in range(400):
    good, bad, other = numbers(0, WORDS // 2, 1)[0], numbers(WORDS // 2, WORDS, 1)[0], numbers(0, WORDS, 1)[0]
    rows.append({"chosen": f"w{other} w{good} w{other}", "rejected": f"w{other} w{bad} w{other}"})
with tempfile.TemporaryDirectory() as folder:
    arguments = RewardConfig(folder, **settings(STEPS // 2, 1e-3), max_length=16, gradient_checkpointing=False)
    trainer = RewardTrainer(
        LlamaForSequenceClassification(settings_of_model),
        arguments,
        train_dataset=Dataset.from_list(rows),
        processing_class=tokenizer(),
    )
    trainer.train()
tell("fell", "loss", logged(trainer, "loss"))
