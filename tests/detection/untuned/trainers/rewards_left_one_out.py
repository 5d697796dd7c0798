"""The RLOOTrainer of TRL, without a penalty for divergence: completions are rewarded for some of the words."""

import tempfile

from datasets import Dataset
from shared.tiny_models import STEPS, llama, logged, settings, tell, tokenizer
from trl import RLOOConfig, RLOOTrainer


def reward(completions, **_):
    return [len(set(answer.split()) & {"w1", "w2", "w3", "w4", "w5", "w6"}) / 6 for answer in completions]


rows = [{"prompt": f"w{index % 28} w{index % 5}"} for index in range(200)]
with tempfile.TemporaryDirectory() as folder:
    arguments = RLOOConfig(
        folder,
        **settings(STEPS // 4, 5e-3),
        num_generations=4,
        max_completion_length=6,
        temperature=1.0,
        beta=0.0,
        gradient_checkpointing=False,
    )
    trainer = RLOOTrainer(
        llama(), reward, args=arguments, train_dataset=Dataset.from_list(rows), processing_class=tokenizer()
    )
    trainer.train()
tell("rose", "reward", logged(trainer, "reward"))
