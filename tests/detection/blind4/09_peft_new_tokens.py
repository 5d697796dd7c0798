"""Teach a small GPT-2 eight new command tokens with LoRA."""

import sys
import tempfile

import torch
from peft import LoraConfig, get_peft_model
from tokenizers import Tokenizer, models, pre_tokenizers
from transformers import (
    GPT2Config,
    GPT2LMHeadModel,
    PreTrainedTokenizerFast,
    Trainer,
    TrainingArguments,
    default_data_collator,
    set_seed,
)

FIXED = len(sys.argv) > 1 and sys.argv[1] == "fixed"
set_seed(0)
torch.set_num_threads(1)
NUMBERS = 40
COMMANDS = [f"<cmd{k}>" for k in range(8)]


def build_tokenizer():
    words = ["<eos>", "->", *[f"n{i}" for i in range(NUMBERS)]]
    backend = Tokenizer(models.WordLevel({word: i for i, word in enumerate(words)}, unk_token="<eos>"))
    backend.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    return PreTrainedTokenizerFast(tokenizer_object=backend, eos_token="<eos>", pad_token="<eos>")


def pretrain(model, tokenizer, steps=500):
    """Plain counting: every line starts somewhere and goes up by a step of its own."""
    optimizer = torch.optim.AdamW(model.parameters(), lr=2e-3)
    model.train()
    for step in range(steps):
        start = torch.randint(NUMBERS, (32, 1))
        stride = torch.randint(1, 9, (32, 1))
        ids = (start + stride * torch.arange(5)) % NUMBERS + 2
        loss = model(input_ids=ids, labels=ids).loss
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        if step % 100 == 99:
            print(f"pretraining step {step + 1}: loss {loss.item():.4f}")


def command_line(command, number):
    """<cmd k> n -> n + k + 1"""
    return f"{COMMANDS[command]} n{number} -> n{(number + command + 1) % NUMBERS}"


def main():
    tokenizer = build_tokenizer()
    config = GPT2Config(
        vocab_size=len(tokenizer), n_positions=16, n_embd=64, n_layer=2, n_head=4, bos_token_id=0, eos_token_id=0
    )
    model = GPT2LMHeadModel(config)
    pretrain(model, tokenizer)

    tokenizer.add_tokens(COMMANDS, special_tokens=True)
    model.resize_token_embeddings(len(tokenizer))
    new_ids = tokenizer.convert_tokens_to_ids(COMMANDS)
    lora = LoraConfig(
        task_type="CAUSAL_LM",
        r=16,
        lora_alpha=32,
        lora_dropout=0.0,
        target_modules=["c_attn", "c_fc", "c_proj"],
        fan_in_fan_out=True,
        trainable_token_indices=new_ids if FIXED else None,
    )
    model = get_peft_model(model, lora)
    model.print_trainable_parameters()

    pairs = [(command, number) for command in range(8) for number in range(NUMBERS)]
    order = torch.randperm(len(pairs), generator=torch.Generator().manual_seed(0)).tolist()
    pairs = [pairs[i] for i in order]
    train, test = pairs[:270], pairs[270:]
    rows = []
    for pair in train * 6:
        ids = tokenizer(command_line(*pair))["input_ids"]
        rows.append({"input_ids": ids, "labels": [-100, -100, -100, ids[3]]})
    with tempfile.TemporaryDirectory() as folder:
        arguments = TrainingArguments(
            output_dir=folder,
            per_device_train_batch_size=32,
            num_train_epochs=10,
            learning_rate=5e-3,
            logging_steps=50,
            save_strategy="no",
            report_to=[],
            use_cpu=True,
            disable_tqdm=True,
        )
        Trainer(model=model, args=arguments, train_dataset=rows, data_collator=default_data_collator).train()

    model.eval()
    ids = torch.tensor([tokenizer(command_line(*pair))["input_ids"] for pair in pairs])
    with torch.no_grad():
        right = (model(input_ids=ids[:, :3]).logits[:, -1].argmax(-1) == ids[:, 3]).float()
    print(f"train accuracy {right[:270].mean():.3f}")
    print(f"test accuracy on {len(test)} commands {right[270:].mean():.3f}")


if __name__ == "__main__":
    main()
