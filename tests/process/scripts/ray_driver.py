"""A driver of Ray that logs the metrics of a policy trained by an actor, as verl does.

Arguments: ``falls`` if the reward falls after half of the rows.
"""

import os
import sys

os.environ |= {"RAY_USAGE_STATS_ENABLED": "0"}
import ray
import torch
from tensorboardX import SummaryWriter

ROWS, UPDATES = 90, 4
FALLS = sys.argv[1:] == ["falls"]


@ray.remote
class Policy:
    def __init__(self):
        torch.manual_seed(0)
        torch.set_num_threads(1)
        self.model = torch.nn.Linear(8, 1)
        self.optimizer = torch.optim.Adam(self.model.parameters(), 1e-2)

    def update(self, row):
        for _ in range(UPDATES):
            x = torch.randn(16, 8)
            self.optimizer.zero_grad()
            loss = torch.nn.functional.mse_loss(self.model(x), x.sum(1, keepdim=True))
            loss.backward()
            self.optimizer.step()
        reward = min(row, ROWS // 2) / ROWS if not FALLS or row < ROWS // 2 else 0.1
        return {"critic/score/mean": reward + 0.01 * (row % 3), "actor/pg_loss": loss.item(), "perf/time": 0.1}


if __name__ == "__main__":
    ray.init("local", num_cpus=2, include_dashboard=False, object_store_memory=100 << 20)
    policy = Policy.remote()
    with SummaryWriter("logs") as writer:
        for row in range(ROWS):
            for name, value in ray.get(policy.update.remote(row)).items():
                writer.add_scalar(name, value, row)
    ray.shutdown()
