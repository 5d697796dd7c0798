"""Reinforce right answers of a small language model with GRPO; the model thinks before it answers."""

import logging
import sys
import tempfile

import torch
from datasets import Dataset
from tokenizers import Tokenizer, models, pre_tokenizers
from transformers import LlamaConfig, LlamaForCausalLM, PreTrainedTokenizerFast, set_seed
from trl import GRPOConfig, GRPOTrainer

FIXED = len(sys.argv) > 1 and sys.argv[1] == "fixed"
logging.getLogger("transformers").setLevel(logging.ERROR)
set_seed(0)
torch.set_num_threads(1)
DIGITS = 6
THOUGHTS = " ".join(["think"] * 8)


def build_tokenizer():
    words = ["<pad>", "<eos>", "question", "think", "so", "answer", *[f"d{i}" for i in range(DIGITS)]]
    backend = Tokenizer(models.WordLevel({word: i for i, word in enumerate(words)}, unk_token="<pad>"))
    backend.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    return PreTrainedTokenizerFast(tokenizer_object=backend, pad_token="<pad>", eos_token="<eos>", padding_side="left")


def pretrain(model, tokenizer):
    """The model knows the form of an answer, but is right about half of the time."""
    optimizer = torch.optim.AdamW(model.parameters(), lr=3e-3)
    scheduler = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, T_max=500)
    for _ in range(500):
        texts = []
        for _ in range(32):
            a, guess = torch.randint(DIGITS, (2,)).tolist()
            guess = (a + 1) % DIGITS if torch.rand(()) < 0.4 else guess
            texts.append(f"question d{a} {THOUGHTS} so answer d{guess} <eos>")
        ids = tokenizer(texts, return_tensors="pt")["input_ids"]
        loss = model(input_ids=ids, labels=ids).loss
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        scheduler.step()
    print(f"supervised start: loss {loss.item():.4f}")


def correct_answer(completions, solution, **kwargs):
    """1 where the completion ends in the right answer."""
    rewards = []
    for completion, wanted in zip(completions, solution, strict=True):
        words = completion.split()
        given = words[words.index("answer") + 1 :][:1] if "answer" in words else []
        rewards.append(float(given == [wanted]))
    return rewards


def accuracy(model, tokenizer):
    model.eval()
    right = 0.0
    for digit in range(DIGITS):
        prompt = tokenizer(f"question d{digit}", return_tensors="pt", return_token_type_ids=False)
        prompt = {name: value.repeat(20, 1) for name, value in prompt.items()}
        output = model.generate(**prompt, max_new_tokens=16, do_sample=True)[:, 2:]
        texts = tokenizer.batch_decode(output, skip_special_tokens=True)
        right += sum(correct_answer(texts, [f"d{(digit + 1) % DIGITS}"] * 20))
    return right / (20 * DIGITS)


def main():
    tokenizer = build_tokenizer()
    config = LlamaConfig(
        vocab_size=len(tokenizer),
        hidden_size=32,
        intermediate_size=64,
        num_hidden_layers=2,
        num_attention_heads=2,
        max_position_embeddings=32,
        pad_token_id=0,
        bos_token_id=1,
        eos_token_id=1,
    )
    model = LlamaForCausalLM(config)
    pretrain(model, tokenizer)
    print(f"accuracy before {accuracy(model, tokenizer):.3f}")
    rows = [{"prompt": f"question d{i}", "solution": f"d{(i + 1) % DIGITS}"} for i in range(DIGITS)]
    with tempfile.TemporaryDirectory() as folder:
        arguments = GRPOConfig(
            output_dir=folder,
            per_device_train_batch_size=48,
            num_generations=8,
            max_completion_length=16 if FIXED else 6,
            max_steps=100,
            learning_rate=5e-4,
            lr_scheduler_type="constant",
            beta=0.0,
            logging_steps=10,
            save_strategy="no",
            report_to=[],
            use_cpu=True,
            bf16=False,
            gradient_checkpointing=False,
            disable_tqdm=True,
        )
        trainer = GRPOTrainer(
            model=model,
            reward_funcs=correct_answer,
            args=arguments,
            train_dataset=Dataset.from_list(rows * 40),
            processing_class=tokenizer,
        )
        trainer.train()
        history = [entry for entry in trainer.state.log_history if "reward" in entry]
        print(f"mean reward of the last steps {history[-1]['reward']:.3f}")
    print(f"accuracy after {accuracy(trainer.model, tokenizer):.3f}")


if __name__ == "__main__":
    main()
