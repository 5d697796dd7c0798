"""The GRPOTrainer of TRL: completions are rewarded for repeating the word they are asked with."""

import tempfile

from datasets import Dataset
from shared.tiny_models import STEPS, llama, logged, settings, tell, tokenizer
from trl import GRPOConfig, GRPOTrainer


def reward(prompts, completions, **_):
    return [answer.split().count(prompt.split()[0]) / 6 for prompt, answer in zip(prompts, completions, strict=True)]


rows = [{"prompt": f"w{index % 4}"} for index in range(200)]
with tempfile.TemporaryDirectory() as folder:
    arguments = GRPOConfig(
        folder,
        **settings(STEPS // 4, 5e-3),
        num_generations=8,
        max_completion_length=6,
        temperature=1.0,
        gradient_checkpointing=False,
    )
    trainer = GRPOTrainer(
        llama(), reward, args=arguments, train_dataset=Dataset.from_list(rows), processing_class=tokenizer()
    )
    trainer.train()
tell("rose", "reward", logged(trainer, "reward"))
