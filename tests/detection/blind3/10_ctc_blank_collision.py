"""Recognize short spoken codes with a recurrent network and CTC."""

import sys

import torch
import torch.nn.functional as F
from torch import nn
from torch.nn.utils.rnn import pad_sequence

FIXED = len(sys.argv) > 1 and sys.argv[1] == "fixed"
torch.manual_seed(0)
CHARACTERS = "abcdefgh"
OFFSET = 1 if FIXED else 0
INDEX = {character: i + OFFSET for i, character in enumerate(CHARACTERS)}
NAMES = {i: character for character, i in INDEX.items()}
TONES = torch.randn(len(CHARACTERS), 12, generator=torch.Generator().manual_seed(7))


def utterance(generator):
    """Each letter sounds for three to five frames, with silence between."""
    letters = torch.randint(0, 8, (torch.randint(3, 7, (), generator=generator).item(),), generator=generator)
    frames = []
    for letter in letters.tolist():
        frames.append(TONES[letter].expand(torch.randint(3, 6, (), generator=generator).item(), -1))
        frames.append(torch.zeros(2, 12))
    audio = torch.cat(frames)
    audio = audio + 0.4 * torch.randn(audio.shape, generator=generator)
    return audio, "".join(CHARACTERS[letter] for letter in letters.tolist())


def collate(batch):
    audio = pad_sequence([item[0] for item in batch], batch_first=True)
    frames = torch.tensor([len(item[0]) for item in batch])
    targets = torch.tensor([INDEX[c] for item in batch for c in item[1]])
    lengths = torch.tensor([len(item[1]) for item in batch])
    return audio, frames, targets, lengths


class Recognizer(nn.Module):
    def __init__(self):
        super().__init__()
        self.lstm = nn.LSTM(12, 48, bidirectional=True, batch_first=True)
        self.head = nn.Linear(96, len(CHARACTERS) + 1)

    def forward(self, audio):
        return F.log_softmax(self.head(self.lstm(audio)[0]), -1)


def decode(path):
    """Greedy decoding: merge repeats, drop blanks."""
    kept = [k for i, k in enumerate(path) if (i == 0 or k != path[i - 1]) and k != 0]
    return "".join(NAMES.get(k, "?") for k in kept)


def main():
    generator = torch.Generator().manual_seed(0)
    train = [utterance(generator) for _ in range(600)]
    test = [utterance(generator) for _ in range(100)]
    model = Recognizer()
    criterion = nn.CTCLoss(blank=0, zero_infinity=True)
    optimizer = torch.optim.Adam(model.parameters(), lr=5e-3)
    for epoch in range(8):
        order = torch.randperm(len(train)).tolist()
        total = 0.0
        for start in range(0, len(order), 20):
            audio, frames, targets, lengths = collate([train[i] for i in order[start : start + 20]])
            loss = criterion(model(audio).transpose(0, 1), targets, frames, lengths)
            optimizer.zero_grad()
            loss.backward()
            nn.utils.clip_grad_norm_(model.parameters(), 5.0)
            optimizer.step()
            total += loss.item()
        print(f"epoch {epoch}  ctc loss {total / 30:.3f}")
    right = 0
    with torch.no_grad():
        for audio, text in test:
            guess = decode(model(audio[None])[0].argmax(-1).tolist())
            right += guess == text
    print("example:", text, "->", guess)
    print(f"exact transcripts {right} of 100")


if __name__ == "__main__":
    main()
