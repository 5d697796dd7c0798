"""A bidirectional GRU over spectra of unequal lengths, with connectionist temporal classification."""

import torch
from torch import nn
from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence, pad_sequence

torch.manual_seed(0)
LETTERS, FEATURES = 8, 6
sounds = torch.randn(LETTERS, FEATURES)


class Recognizer(nn.Module):
    def __init__(self):
        super().__init__()
        self.rnn = nn.GRU(FEATURES, 32, batch_first=True, bidirectional=True)
        self.fc = nn.Linear(64, LETTERS)

    def forward(self, x, lengths):
        packed = pack_padded_sequence(x, lengths, batch_first=True, enforce_sorted=False)
        h, _ = pad_packed_sequence(self.rnn(packed)[0], batch_first=True)
        return self.fc(h).log_softmax(-1)


def utterances(size=12):
    spectra, words = [], []
    for _ in range(size):
        word = torch.randint(1, LETTERS, (int(torch.randint(2, 5, (1,))),))
        frames = word.repeat_interleave(torch.randint(3, 5, (len(word),)))
        spectra.append(sounds[frames] + 0.3 * torch.randn(len(frames), FEATURES))
        words.append(word)
    lengths = torch.tensor([len(s) for s in spectra])
    return pad_sequence(spectra, batch_first=True), lengths, words


model = Recognizer()
criterion = nn.CTCLoss(blank=0, zero_infinity=True)
optimizer = torch.optim.AdamW(model.parameters(), lr=5e-3)
for step in range(40):
    x, lengths, words = utterances()
    log_probabilities = model(x, lengths).transpose(0, 1)
    loss = criterion(log_probabilities, torch.cat(words), lengths, torch.tensor([len(w) for w in words]))
    optimizer.zero_grad()
    loss.backward()
    nn.utils.clip_grad_norm_(model.parameters(), 5.0)
    optimizer.step()
    if step % 10 == 0:
        print(step, loss.item())
