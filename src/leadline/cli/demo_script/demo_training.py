"""An ordinary training script without any use of Leadline; its learning rate schedule is wrong."""

import torch
from torch import nn

TEXT = (
    "The lead is a weight on a line. Whoever sails in unknown water throws it, reads the depth by the marks, and "
    "looks at the tallow in its foot for sand, shells or mud. It is the oldest instrument of the sea, and the "
    "cheapest; ships were lost that did not use it, because the water had looked the same as the day before. "
) * 8


class LanguageModel(nn.Module):
    def __init__(self, width: int = 64, context: int = 32) -> None:
        super().__init__()
        self.embedding = nn.Embedding(128, width)
        self.position = nn.Parameter(torch.zeros(context, width))
        layer = nn.TransformerEncoderLayer(width, 4, 4 * width, batch_first=True)
        self.encoder = nn.TransformerEncoder(layer, 2, enable_nested_tensor=False)
        self.head = nn.Linear(width, 128)

    def forward(self, tokens: torch.Tensor) -> torch.Tensor:
        length = tokens.shape[1]
        mask = nn.Transformer.generate_square_subsequent_mask(length)
        return self.head(self.encoder(self.embedding(tokens) + self.position[:length], mask=mask, is_causal=True))


def main() -> None:
    torch.manual_seed(0)
    data = torch.tensor([min(ord(letter), 127) for letter in TEXT])
    model = LanguageModel()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9)
    schedule = torch.optim.lr_scheduler.LambdaLR(optimizer, lambda step: 10.0 ** (max(0, step - 120) // 20))
    for step in range(2000):
        starts = torch.randint(len(data) - 33, (16,))
        batch = torch.stack([data[start : start + 33] for start in starts])
        logits = model(batch[:, :-1])
        loss = nn.functional.cross_entropy(logits.flatten(0, 1), batch[:, 1:].flatten())
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        schedule.step()
        if step % 20 == 0:
            print(f"step {step:4d}  loss {loss.item():.3f}", flush=True)


if __name__ == "__main__":
    main()
