"""LoRA on a small model that was trained before; the chat format brings two new tokens."""

import os
import sys

os.environ.setdefault("HF_HUB_OFFLINE", "1")

import torch
from peft import LoraConfig, get_peft_model
from transformers import GPT2Config, GPT2LMHeadModel, set_seed

FIXED = len(sys.argv) > 1 and sys.argv[1] == "fixed"
set_seed(0)

WORDS, LENGTH = 24, 16


def text(n, generator):
    """Each word is the one before plus the step of its line."""
    start = torch.randint(0, WORDS, (n, 1), generator=generator)
    step = torch.randint(1, 4, (n, 1), generator=generator)
    return (start + step * torch.arange(LENGTH)) % WORDS


def chats(n, generator, end_of_turn, assistant):
    """Three words of the user, the assistant goes on for 2 to 5 words and ends its turn."""
    words = text(n, generator)
    rows = torch.full((n, 10), end_of_turn)
    labels = torch.full((n, 10), -100)
    count = torch.randint(2, 6, (n,), generator=generator)
    for i in range(n):
        more = int((words[i, 0] + words[i, 1]) % 4) + 2 if count[i] else 2
        rows[i, :3], rows[i, 3] = words[i, :3], assistant
        rows[i, 4 : 4 + more] = words[i, 3 : 3 + more]
        labels[i, 4 : 5 + more] = rows[i, 4 : 5 + more]
    return rows, labels


def pretrain(model, generator):
    optimizer = torch.optim.AdamW(model.parameters(), lr=3e-3)
    for step in range(150):
        batch = text(32, generator)
        loss = model(input_ids=batch, labels=batch).loss
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    print(f"base model: loss {loss.item():.3f}")


def main():
    generator = torch.Generator().manual_seed(0)
    model = GPT2LMHeadModel(
        GPT2Config(
            vocab_size=WORDS,
            n_positions=LENGTH,
            n_embd=48,
            n_layer=2,
            n_head=4,
            bos_token_id=None,
            eos_token_id=None,
            resid_pdrop=0.0,
            embd_pdrop=0.0,
            attn_pdrop=0.0,
        )
    )
    pretrain(model, generator)

    end_of_turn, assistant = WORDS, WORDS + 1
    model.resize_token_embeddings(WORDS + 2)
    config = LoraConfig(
        task_type="CAUSAL_LM",
        r=8,
        lora_alpha=16,
        target_modules=["c_attn"],
        fan_in_fan_out=True,
        modules_to_save=["wte", "lm_head"] if FIXED else None,
    )
    model = get_peft_model(model, config)
    model.print_trainable_parameters()

    rows, labels = chats(1500, generator, end_of_turn, assistant)
    val_rows, val_labels = chats(300, generator, end_of_turn, assistant)
    optimizer = torch.optim.AdamW([p for p in model.parameters() if p.requires_grad], lr=3e-3)
    for step in range(150):
        model.train()
        batch = torch.randint(0, len(rows), (32,), generator=generator)
        loss = model(input_ids=rows[batch], labels=labels[batch]).loss
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        if step % 40 == 0:
            print(f"step {step}  loss {loss.item():.3f}")
    model.eval()
    with torch.no_grad():
        out = model(input_ids=val_rows, labels=val_labels)
        predicted = out.logits[:, :-1].argmax(-1)
    counted = val_labels[:, 1:] != -100
    ends = val_labels[:, 1:] == end_of_turn
    right = predicted == val_labels[:, 1:]
    print(
        f"final val loss {out.loss.item():.3f}  words right {right[counted & ~ends].float().mean():.3f}"
        f"  ends of turns right {right[ends].float().mean():.3f}"
    )


if __name__ == "__main__":
    main()
