"""Sharded 'streaming' training on two gloo ranks."""

import os
import socket

import torch
import torch.distributed as dist
import torch.multiprocessing as mp
import torch.nn as nn
from torch.nn.parallel import DistributedDataParallel as DDP
from torch.utils.data import DataLoader, IterableDataset


class Shards(IterableDataset):
    def __init__(self, rank, world, n_shards=8, per_shard=160):
        self.files = list(range(n_shards))  # mistake
        # repaired: self.files = list(range(n_shards))[rank::world]
        self.per = per_shard
        self.epoch = 0

    def read(self, shard):
        g = torch.Generator().manual_seed(1000 + shard)
        x = torch.randn(self.per, 16, generator=g)
        y = torch.sin(x[:, :4]).sum(1, keepdim=True) + 0.3 * torch.randn(self.per, 1, generator=g)
        return x, y

    def __iter__(self):
        g = torch.Generator().manual_seed(self.epoch)
        for k in torch.randperm(len(self.files), generator=g).tolist():
            x, y = self.read(self.files[k])
            for i in torch.randperm(len(x), generator=g).tolist():
                yield x[i], y[i]


def main(rank, world, port):
    os.environ.update(MASTER_ADDR="127.0.0.1", MASTER_PORT=str(port))
    torch.set_num_threads(1)
    dist.init_process_group("gloo", rank=rank, world_size=world)
    torch.manual_seed(7)
    ds = Shards(rank, world)
    loader = DataLoader(ds, batch_size=16)
    net = DDP(nn.Sequential(nn.Linear(16, 64), nn.SiLU(), nn.Linear(64, 1)))
    opt = torch.optim.AdamW(net.parameters(), lr=3e-3)
    xv = torch.randn(500, 16)
    yv = torch.sin(xv[:, :4]).sum(1, keepdim=True)
    for epoch in range(6):
        ds.epoch = epoch
        seen, tot = 0, 0.0
        for x, y in loader:
            loss = nn.functional.mse_loss(net(x), y)
            opt.zero_grad()
            loss.backward()
            opt.step()
            seen += 1
            tot += loss.item()
        with torch.no_grad():
            v = nn.functional.mse_loss(net.module(xv), yv).item()
        if rank == 0:
            print(f"epoch {epoch}: steps {seen} train {tot / seen:.4f} val {v:.4f}", flush=True)
    dist.destroy_process_group()


if __name__ == "__main__":
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        port = s.getsockname()[1]
    mp.spawn(main, args=(2, port), nprocs=2)
