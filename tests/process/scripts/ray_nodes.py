"""A Ray cluster of two nodes with one CPU each on this machine; prints its address and runs until stdin is closed."""

import logging
import os
import sys

os.environ["RAY_USAGE_STATS_ENABLED"] = "0"

from ray.cluster_utils import Cluster

cluster = Cluster(
    initialize_head=True,
    head_node_args={"num_cpus": 1, "include_dashboard": False, "object_store_memory": 100 << 20},
)
cluster.add_node(num_cpus=1, object_store_memory=100 << 20)
logging.disable(logging.ERROR)
print(cluster.address, flush=True)
sys.stdin.read()
cluster.shutdown()
