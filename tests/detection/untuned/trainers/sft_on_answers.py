"""The SFTTrainer of TRL on questions and answers: the loss leaves out the questions, and a cosine ends the schedule."""

import tempfile

from datasets import Dataset
from shared.tiny_models import BEGIN, END, STEPS, llama, logged, numbers, settings, tell, tokenizer
from trl import SFTConfig, SFTTrainer

rows = []
for _ in range(400):
    question, answer = [BEGIN, *numbers(4, 32, 4)], []
    answer = [*reversed(question[1:]), END]
    rows.append({"input_ids": question + answer, "completion_mask": [0] * len(question) + [1] * len(answer)})
with tempfile.TemporaryDirectory() as folder:
    arguments = SFTConfig(
        folder,
        **settings(STEPS, 5e-3, lr_scheduler_type="cosine", warmup_steps=10),
        max_length=32,
        completion_only_loss=True,
        gradient_checkpointing=False,
    )
    trainer = SFTTrainer(llama(), arguments, train_dataset=Dataset.from_list(rows), processing_class=tokenizer())
    trainer.train()
tell("fell", "loss", logged(trainer, "loss"))
