"""Two stages of supervised fine-tuning with TRL: the adapter of the first is loaded and trained on."""

import os
import sys
import tempfile

import torch
from datasets import Dataset
from peft import LoraConfig, PeftModel
from tokenizers import Tokenizer, models, pre_tokenizers
from transformers import LlamaConfig, LlamaForCausalLM, PreTrainedTokenizerFast, set_seed
from trl import SFTConfig, SFTTrainer

FIXED = len(sys.argv) > 1 and sys.argv[1] == "fixed"
set_seed(0)
torch.set_num_threads(1)
WORDS = 24


def build_tokenizer():
    words = ["<pad>", "<eos>", "next", "back", "is", *[f"w{i}" for i in range(WORDS)]]
    backend = Tokenizer(models.WordLevel({word: i for i, word in enumerate(words)}, unk_token="<pad>"))
    backend.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    return PreTrainedTokenizerFast(tokenizer_object=backend, pad_token="<pad>", eos_token="<eos>")


def pretrain(model):
    """The base model has seen the words in their order, upwards and downwards."""
    optimizer = torch.optim.AdamW(model.parameters(), lr=3e-3)
    for _ in range(300):
        start = torch.randint(WORDS, (32, 1))
        stride = torch.randint(0, 2, (32, 1)) * 2 - 1
        ids = (start + stride * torch.arange(6)) % WORDS + 5
        loss = model(input_ids=ids, labels=ids).loss
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    print(f"base model: loss {loss.item():.4f}")


def questions(kind):
    offset = 1 if kind == "next" else -1
    rows = [{"prompt": f"{kind} w{i} is", "completion": f" w{(i + offset) % WORDS}"} for i in range(WORDS)]
    return Dataset.from_list(rows * 20)


def accuracy(model, tokenizer, kind):
    model.eval()
    rows = questions(kind)[:WORDS]
    prompts = tokenizer(rows["prompt"], return_tensors="pt", return_token_type_ids=False)
    with torch.no_grad():
        answers = model(**prompts).logits[:, -1].argmax(-1)
    words = tokenizer.convert_ids_to_tokens(answers.tolist())
    return sum(word == row.strip() for word, row in zip(words, rows["completion"], strict=True)) / WORDS


def train(model, tokenizer, kind, folder, peft_config=None):
    arguments = SFTConfig(
        output_dir=folder,
        per_device_train_batch_size=16,
        num_train_epochs=4,
        learning_rate=1e-2,
        max_length=16,
        logging_steps=20,
        save_strategy="no",
        report_to=[],
        use_cpu=True,
        bf16=False,
        disable_tqdm=True,
    )
    trainer = SFTTrainer(
        model=model,
        args=arguments,
        train_dataset=questions(kind),
        processing_class=tokenizer,
        peft_config=peft_config,
    )
    trainer.train()
    return trainer.model


def main():
    tokenizer = build_tokenizer()
    config = LlamaConfig(
        vocab_size=len(tokenizer),
        hidden_size=48,
        intermediate_size=96,
        num_hidden_layers=2,
        num_attention_heads=4,
        max_position_embeddings=32,
        pad_token_id=0,
        bos_token_id=1,
        eos_token_id=1,
    )
    base = LlamaForCausalLM(config)
    pretrain(base)
    with tempfile.TemporaryDirectory() as folder:
        base.save_pretrained(os.path.join(folder, "base"))
        lora = LoraConfig(task_type="CAUSAL_LM", r=16, lora_alpha=32, target_modules="all-linear")
        model = train(base, tokenizer, "next", folder, lora)
        print(f"after stage 1: next {accuracy(model, tokenizer, 'next'):.3f}")
        model.save_pretrained(os.path.join(folder, "stage1"))

        base = LlamaForCausalLM.from_pretrained(os.path.join(folder, "base"))
        options = {"is_trainable": True} if FIXED else {}
        model = PeftModel.from_pretrained(base, os.path.join(folder, "stage1"), **options)
        model = train(model, tokenizer, "back", folder)
    print(f"after stage 2: back {accuracy(model, tokenizer, 'back'):.3f}")


if __name__ == "__main__":
    main()
