"""GRPO with TRL: a small model learns to answer with the number asked for."""

import sys
import tempfile

import torch
from datasets import Dataset
from tokenizers import Tokenizer, models, pre_tokenizers
from transformers import LlamaConfig, LlamaForCausalLM, PreTrainedTokenizerFast, set_seed
from trl import GRPOConfig, GRPOTrainer

FIXED = len(sys.argv) > 1 and sys.argv[1] == "fixed"
set_seed(0)
DIGITS = [str(n) for n in range(6)]


def build_tokenizer():
    words = ["<pad>", "<eos>", "successor", "=", *DIGITS]
    backend = Tokenizer(models.WordLevel({word: i for i, word in enumerate(words)}, unk_token="<pad>"))
    backend.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    return PreTrainedTokenizerFast(tokenizer_object=backend, eos_token="<eos>", pad_token="<pad>", padding_side="left")


def correct(prompts, completions, answer, **kwargs):
    """One for the right number, else zero."""
    answers = [str(value) for value in answer] if FIXED else answer
    return [1.0 if completion.strip() == value else 0.0 for completion, value in zip(completions, answers)]


def main():
    tokenizer = build_tokenizer()
    rows = [{"prompt": f"successor {n % 6} =", "answer": (n + 1) % 6} for n in range(480)]
    config = LlamaConfig(
        vocab_size=len(tokenizer),
        hidden_size=32,
        intermediate_size=64,
        num_hidden_layers=2,
        num_attention_heads=4,
        num_key_value_heads=4,
        max_position_embeddings=16,
        bos_token_id=1,
        eos_token_id=1,
        pad_token_id=0,
    )
    model = LlamaForCausalLM(config)
    with tempfile.TemporaryDirectory() as folder:
        arguments = GRPOConfig(
            output_dir=folder,
            per_device_train_batch_size=48,
            num_generations=8,
            max_completion_length=1,
            learning_rate=5e-3,
            max_steps=60,
            beta=0.0,
            logging_steps=10,
            save_strategy="no",
            report_to=[],
            use_cpu=True,
            bf16=False,
            disable_tqdm=True,
        )
        trainer = GRPOTrainer(
            model=model,
            reward_funcs=correct,
            args=arguments,
            train_dataset=Dataset.from_list(rows),
            processing_class=tokenizer,
        )
        trainer.train()
    model.eval()
    prompts = tokenizer([f"successor {n} =" for n in range(6)], return_tensors="pt", return_token_type_ids=False)
    with torch.no_grad():
        answers = model(**prompts).logits[:, -1].argmax(-1)
    right = sum(tokenizer.decode([token]) == str((n + 1) % 6) for n, token in enumerate(answers.tolist()))
    print(f"right answers {right} of 6")


if __name__ == "__main__":
    main()
