"""Fine-tune a small GPT-2 with the Trainer to repeat a word as often as it is told, and to stop."""

import sys
import tempfile

import torch
from tokenizers import Tokenizer, models, pre_tokenizers
from transformers import (
    DataCollatorForLanguageModeling,
    GPT2Config,
    GPT2LMHeadModel,
    PreTrainedTokenizerFast,
    Trainer,
    TrainingArguments,
    set_seed,
)

FIXED = len(sys.argv) > 1 and sys.argv[1] == "fixed"
set_seed(0)
WORDS = ["red", "green", "blue", "black"]


def build_tokenizer():
    words = ["<eos>", "<pad>", ":", *WORDS, *[str(n) for n in range(1, 7)]]
    backend = Tokenizer(models.WordLevel({word: i for i, word in enumerate(words)}, unk_token="<eos>"))
    backend.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    tokenizer = PreTrainedTokenizerFast(tokenizer_object=backend, eos_token="<eos>")
    if FIXED:
        tokenizer.pad_token = "<pad>"
    else:
        tokenizer.pad_token = tokenizer.eos_token
    return tokenizer


def main():
    tokenizer = build_tokenizer()
    generator = torch.Generator().manual_seed(0)
    texts = []
    for _ in range(1200):
        word = WORDS[torch.randint(4, (), generator=generator).item()]
        count = torch.randint(1, 7, (), generator=generator).item()
        texts.append(f"{count} {word} : " + " ".join([word] * count) + " <eos>")
    train = [dict(tokenizer(text, return_token_type_ids=False)) for text in texts]
    config = GPT2Config(
        vocab_size=len(tokenizer),
        n_positions=16,
        n_embd=48,
        n_layer=2,
        n_head=4,
        bos_token_id=tokenizer.eos_token_id,
        eos_token_id=tokenizer.eos_token_id,
        pad_token_id=tokenizer.pad_token_id,
    )
    model = GPT2LMHeadModel(config)
    with tempfile.TemporaryDirectory() as folder:
        arguments = TrainingArguments(
            output_dir=folder,
            per_device_train_batch_size=32,
            num_train_epochs=5,
            learning_rate=2e-3,
            logging_steps=20,
            save_strategy="no",
            report_to=[],
            use_cpu=True,
            disable_tqdm=True,
        )
        collator = DataCollatorForLanguageModeling(tokenizer, mlm=False)
        Trainer(model=model, args=arguments, train_dataset=train, data_collator=collator).train()
    model.eval()
    right = 0
    for count in range(1, 7):
        for word in WORDS:
            prompt = tokenizer(f"{count} {word} :", return_tensors="pt", return_token_type_ids=False)
            output = model.generate(**prompt, max_new_tokens=10, do_sample=False)[0, 3:]
            answer = tokenizer.decode(output)
            right += answer.split("<eos>")[0].split() == [word] * count
    print("last answer:", answer)
    print(f"exact answers {right} of 24")


if __name__ == "__main__":
    main()
