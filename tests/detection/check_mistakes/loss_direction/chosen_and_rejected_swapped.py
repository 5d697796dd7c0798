# Asked as: DPO rewards/accuracies fall to zero, chosen and rejected columns are swapped (TRL issues)
import copy

import torch
import torch.nn.functional as F
from transformers import LlamaConfig, LlamaForCausalLM

torch.manual_seed(0)
policy = LlamaForCausalLM(
    LlamaConfig(
        vocab_size=24,
        hidden_size=32,
        intermediate_size=64,
        num_hidden_layers=1,
        num_attention_heads=4,
        num_key_value_heads=4,
        max_position_embeddings=16,
        initializer_range=0.1,
    )
)
reference = copy.deepcopy(policy).eval().requires_grad_(False)


def log_probability(model, ids):
    logits = model(input_ids=ids, attention_mask=torch.ones_like(ids)).logits[:, 3:-1]
    return logits.log_softmax(-1).gather(2, ids[:, 4:, None]).sum((1, 2))


optimizer = torch.optim.AdamW(policy.parameters(), lr=1e-3)
for step in range(25):
    prompt = torch.randint(3, 24, (12, 4))
    good = torch.cat([prompt, prompt[:, :1].repeat(1, 4)], dim=1)
    bad = torch.cat([prompt, torch.randint(3, 24, (12, 4))], dim=1)
    chosen, rejected = bad, good  # mistake
    # repaired: chosen, rejected = good, bad
    with torch.no_grad():
        of_reference = log_probability(reference, chosen) - log_probability(reference, rejected)
    margin = log_probability(policy, chosen) - log_probability(policy, rejected) - of_reference
    loss = -F.logsigmoid(0.5 * margin).mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    if step % 5 == 0:
        with torch.no_grad():
            better = (log_probability(policy, good) > log_probability(policy, bad)).float().mean().item()
        print(step, loss.item(), better)
