"""Supervised fine-tuning with TRL: tickets are long, the answer of one word comes at their end."""

import os
import sys
import tempfile

os.environ.setdefault("HF_HUB_OFFLINE", "1")

import numpy as np
import torch
from datasets import Dataset
from tokenizers import Tokenizer, models, pre_tokenizers
from transformers import LlamaConfig, LlamaForCausalLM, PreTrainedTokenizerFast, set_seed
from trl import SFTConfig, SFTTrainer

FIXED = len(sys.argv) > 1 and sys.argv[1] == "fixed"
set_seed(0)

TOPICS = {"printer": "hardware", "screen": "hardware", "invoice": "billing", "refund": "billing", "login": "access"}
FILLER = [f"word{i}" for i in range(30)]
SPECIAL = ["<pad>", "<unk>", "<eos>"]


def tokenizer():
    words = [*SPECIAL, *FILLER, *TOPICS, *sorted(set(TOPICS.values())), "answer:"]
    inner = Tokenizer(models.WordLevel({w: i for i, w in enumerate(words)}, unk_token="<unk>"))
    inner.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    return PreTrainedTokenizerFast(
        tokenizer_object=inner, pad_token="<pad>", unk_token="<unk>", eos_token="<eos>", padding_side="right"
    )


def tickets(n, rng):
    rows = []
    for _ in range(n):
        words = rng.choice(FILLER, int(rng.integers(8, 60))).tolist()
        topic = str(rng.choice(list(TOPICS)))
        words.insert(int(rng.integers(0, len(words))), topic)
        rows.append({"prompt": " ".join([*words, "answer:"]), "completion": f" {TOPICS[topic]}"})
    return rows


def accuracy(model, tok, rows):
    model.eval()
    right = 0
    with torch.no_grad():
        for row in rows:
            ids = tok(row["prompt"], return_tensors="pt").input_ids
            right += tok.decode(model(ids).logits[0, -1].argmax()).strip() == row["completion"].strip()
    return right / len(rows)


def main():
    rng = np.random.default_rng(0)
    tok = tokenizer()
    train, val = tickets(1200, rng), tickets(200, rng)
    model = LlamaForCausalLM(
        LlamaConfig(
            vocab_size=len(tok),
            hidden_size=48,
            intermediate_size=96,
            num_hidden_layers=2,
            num_attention_heads=4,
            num_key_value_heads=4,
            max_position_embeddings=128,
            pad_token_id=0,
            bos_token_id=None,
            eos_token_id=2,
        )
    )
    arguments = SFTConfig(
        output_dir=tempfile.mkdtemp(),
        max_length=96 if FIXED else 24,
        completion_only_loss=True,
        packing=False,
        num_train_epochs=6,
        per_device_train_batch_size=32,
        learning_rate=3e-3,
        logging_steps=20,
        use_cpu=True,
        bf16=False,
        save_strategy="no",
        report_to="none",
        disable_tqdm=True,
        gradient_checkpointing=False,
    )
    trainer = SFTTrainer(model, args=arguments, train_dataset=Dataset.from_list(train), processing_class=tok)
    trainer.train()
    print(f"final val acc {accuracy(model, tok, val):.3f}")


if __name__ == "__main__":
    main()
