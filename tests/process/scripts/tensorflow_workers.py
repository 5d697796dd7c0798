"""Trains in two workers of MultiWorkerMirroredStrategy, in a loop of its own; each prints the hash of its weights.

Arguments: the ports of the workers, and the index of this one; without an index both are started.
"""

import hashlib
import json
import os
import subprocess
import sys

if len(sys.argv) == 3:
    workers = []
    for index in range(2):
        addresses = [f"localhost:{port}" for port in sys.argv[1:]]
        config = {"cluster": {"worker": addresses}, "task": {"type": "worker", "index": index}}
        environment = {**os.environ, "TF_CONFIG": json.dumps(config)}
        workers.append(subprocess.Popen([sys.executable, *sys.argv, str(index)], env=environment))
    sys.exit(max(worker.wait() for worker in workers))

import numpy as np
import tensorflow as tf

STEPS = 120

strategy = tf.distribute.MultiWorkerMirroredStrategy()
generator = np.random.default_rng(0)
x = generator.normal(size=(512, 8)).astype("f4")
y = 2 * x[:, :1]
data = strategy.experimental_distribute_dataset(tf.data.Dataset.from_tensor_slices((x, y)).repeat().batch(32))
with strategy.scope():
    weights = tf.Variable(tf.zeros((8, 1)), name="weights")


def train(x, y):
    with tf.GradientTape() as tape:
        loss = tf.reduce_mean((x @ weights - y) ** 2)
    gradient = tf.distribute.get_replica_context().all_reduce("mean", tape.gradient(loss, weights))
    weights.assign_sub(0.05 * gradient)
    return loss


@tf.function
def step(batch):
    return strategy.reduce("mean", strategy.run(train, args=batch), axis=None)


batches = iter(data)
for _ in range(STEPS):
    step(next(batches))
result = {"index": sys.argv[-1], "hash": hashlib.sha256(weights.numpy().tobytes()).hexdigest()}
sys.stdout.write("\n" + json.dumps(result) + "\n")
