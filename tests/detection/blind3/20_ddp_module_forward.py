"""Two processes train one classifier with DistributedDataParallel on the CPU."""

import os
import socket
import sys

import torch
import torch.distributed as dist
import torch.multiprocessing as mp
import torch.nn.functional as F
from torch import nn
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader, DistributedSampler, TensorDataset

FIXED = len(sys.argv) > 1 and sys.argv[1] == "fixed"
WORLD = 2


def spirals(n, seed):
    generator = torch.Generator().manual_seed(seed)
    y = torch.randint(0, 3, (n,), generator=generator)
    radius = torch.rand(n, generator=generator)
    angle = 4 * radius + y * 2.0944 + 0.25 * torch.randn(n, generator=generator)
    return torch.stack([radius * angle.cos(), radius * angle.sin()], 1), y


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.body = nn.Sequential(nn.Linear(2, 48), nn.ReLU(), nn.Linear(48, 48), nn.ReLU(), nn.Linear(48, 3))

    def forward(self, x):
        return self.body(x)

    def training_loss(self, x, y):
        return F.cross_entropy(self(x), y)


def train(rank, port):
    os.environ.update(MASTER_ADDR="127.0.0.1", MASTER_PORT=str(port))
    dist.init_process_group("gloo", rank=rank, world_size=WORLD)
    torch.set_num_threads(1)
    torch.manual_seed(0)
    data = TensorDataset(*spirals(600, 0))
    sampler = DistributedSampler(data, WORLD, rank, shuffle=True, seed=0)
    loader = DataLoader(data, batch_size=20, sampler=sampler)
    test_x, test_y = spirals(600, 1)
    model = DistributedDataParallel(Net())
    optimizer = torch.optim.AdamW(model.parameters(), lr=5e-3)
    for epoch in range(30):
        sampler.set_epoch(epoch)
        model.train()
        total = 0.0
        for x, y in loader:
            if FIXED:
                loss = F.cross_entropy(model(x), y)
            else:
                loss = model.module.training_loss(x, y)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            total += loss.item()
        if epoch % 5 == 4:
            model.eval()
            with torch.no_grad():
                accuracy = (model.module(test_x).argmax(1) == test_y).float().mean().item()
            if rank == 0:
                print(f"epoch {epoch}  loss {total / len(loader):.3f}  test acc {accuracy:.3f}", flush=True)
    dist.destroy_process_group()


def main():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    mp.spawn(train, args=(port,), nprocs=WORLD)


if __name__ == "__main__":
    main()
