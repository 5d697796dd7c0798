"""A character model on a short text, whose perplexity on another part of it goes to a log file and the terminal.

Mistake: the text is so short that the model learns it by heart, and training goes on for hundreds of steps.
"""

import logging
import math
import sys

import torch
from torch import nn

logging.basicConfig(level=logging.INFO, format="%(asctime)s %(levelname)s %(message)s", stream=sys.stderr)
log = logging.getLogger("train")
length = 150  # mistake
# repaired: length = 30000
follows = torch.softmax(1.2 * torch.randn(24, 24), 1)


def text(n):
    letters = [0]
    for _ in range(n):
        letters.append(int(torch.multinomial(follows[letters[-1]], 1)))
    return torch.tensor(letters)


train, valid = text(length), text(600)
model = nn.Sequential(nn.Embedding(24, 32), nn.Flatten(), nn.Linear(64, 128), nn.ReLU(), nn.Linear(128, 24))
criterion = nn.CrossEntropyLoss()
optimizer = torch.optim.AdamW(model.parameters(), lr=3e-3)


def pairs(letters):
    return torch.stack([letters[:-2], letters[1:-1]], 1), letters[2:]


inputs, targets = pairs(train)
for epoch in range(1, 41):
    model.train()
    for _ in range(12):
        index = torch.randint(len(inputs), (32,))
        loss = criterion(model(inputs[index]), targets[index])
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    model.eval()
    with torch.no_grad():
        held_out, next_letter = pairs(valid)
        log_likelihood = torch.log_softmax(model(held_out), 1).gather(1, next_letter[:, None]).mean()
    log.info("end of epoch %d | time: %5.2fs | valid ppl %8.2f", epoch, 0.12, math.exp(-log_likelihood))
