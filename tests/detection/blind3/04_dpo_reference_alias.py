"""Direct preference optimization in an own loop: short answers are preferred to long ones."""

import copy
import sys

import torch
import torch.nn.functional as F
from transformers import GPT2Config, GPT2LMHeadModel

FIXED = len(sys.argv) > 1 and sys.argv[1] == "fixed"
torch.manual_seed(0)
EOS, PROMPT, LENGTH = 1, 4, 12


def answers(n, generator, short):
    """A prompt of four tokens, then its first token repeated three or seven times, then the end."""
    prompt = torch.randint(2, 20, (n, PROMPT), generator=generator)
    repeats = 3 if short else 7
    tail = torch.full((n, LENGTH - PROMPT), EOS)
    tail[:, :repeats] = prompt[:, :1]
    mask = torch.zeros(n, LENGTH, dtype=torch.bool)
    mask[:, PROMPT : PROMPT + repeats + 1] = True
    return prompt, tail, mask


def sequence_logprob(model, tokens, mask):
    logprobs = F.log_softmax(model(tokens).logits[:, :-1], -1)
    picked = logprobs.gather(-1, tokens[:, 1:, None])[..., 0]
    return (picked * mask[:, 1:]).sum(-1)


def main():
    generator = torch.Generator().manual_seed(0)
    config = GPT2Config(
        vocab_size=20, n_positions=LENGTH, n_embd=48, n_layer=2, n_head=4, resid_pdrop=0, embd_pdrop=0, attn_pdrop=0
    )
    model = GPT2LMHeadModel(config)
    optimizer = torch.optim.AdamW(model.parameters(), lr=2e-3)
    for step in range(150):
        prompt, tail, mask = answers(32, generator, short=step % 2 == 0)
        tokens = torch.cat([prompt, tail], 1)
        loss = -sequence_logprob(model, tokens, mask).mean() / 6
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    print(f"sft loss {loss.item():.3f}")

    if FIXED:
        ref_model = copy.deepcopy(model)
        ref_model.requires_grad_(False)
    else:
        ref_model = model
    ref_model.eval()
    optimizer = torch.optim.AdamW(model.parameters(), lr=2e-4)
    beta = 0.1
    for step in range(150):
        prompt, short, short_mask = answers(16, generator, short=True)
        _, _, long_mask = answers(16, generator, short=False)
        long = torch.full_like(short, EOS)
        long[:, :7] = prompt[:, :1]
        chosen, rejected = torch.cat([prompt, short], 1), torch.cat([prompt, long], 1)
        model.train()
        chosen_logp = sequence_logprob(model, chosen, short_mask)
        rejected_logp = sequence_logprob(model, rejected, long_mask)
        with torch.no_grad():
            ref_chosen = sequence_logprob(ref_model, chosen, short_mask)
            ref_rejected = sequence_logprob(ref_model, rejected, long_mask)
        margin = (chosen_logp - ref_chosen) - (rejected_logp - ref_rejected)
        loss = -F.logsigmoid(beta * margin).mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        if step % 25 == 0:
            accuracy = (margin > 0).float().mean().item()
            print(
                f"step {step}  loss {loss.item():.4f}  reward accuracy {accuracy:.2f}"
                f"  margin {beta * margin.mean().item():.3f}  chosen logp {chosen_logp.mean().item():.2f}"
            )
    print(f"final loss {loss.item():.4f}  chosen logp {chosen_logp.mean().item():.2f}")


if __name__ == "__main__":
    main()
