"""Trains data-parallel in two processes; each prints the hash of its parameters, and the gradient of the whole batch.

Arguments: port, and the index of the process; without an index both are started.
"""

import hashlib
import json
import os
import subprocess
import sys

os.environ.pop("XLA_FLAGS", None)  # compiled as users have it
import jax
import jax.numpy as jnp
import numpy as np
import optax
from jax.sharding import Mesh, NamedSharding, PartitionSpec

STEPS = 120

if len(sys.argv) == 2:
    processes = [subprocess.Popen([sys.executable, __file__, sys.argv[1], str(index)]) for index in range(2)]
    sys.exit(max(process.wait() for process in processes))

port, index = int(sys.argv[1]), int(sys.argv[2])
jax.distributed.initialize(f"localhost:{port}", num_processes=2, process_id=index)

mesh = Mesh(np.array(jax.devices()), ("data",))
generator = np.random.default_rng(0)
x = generator.normal(size=(64, 8)).astype("f4")
y = (x @ generator.normal(size=(8, 1))).astype("f4")
start = {"w1": generator.normal(size=(8, 16)) * 0.3, "w2": generator.normal(size=(16, 1)) * 0.3}
start = {name: value.astype("f4") for name, value in start.items()}
mine = slice(32 * index, 32 * index + 32)
divided, whole = NamedSharding(mesh, PartitionSpec("data")), NamedSharding(mesh, PartitionSpec())
batch = [jax.make_array_from_process_local_data(divided, values[mine]) for values in (x, y)]
parameters = {name: jax.device_put(value, whole) for name, value in start.items()}
optimizer = optax.adam(1e-2)
state = jax.jit(optimizer.init)(parameters)


def loss_of(parameters, x, y):
    return jnp.mean((jnp.tanh(x @ parameters["w1"]) @ parameters["w2"] - y) ** 2)


@jax.jit
def step(parameters, state, x, y):
    loss, gradients = jax.value_and_grad(loss_of)(parameters, x, y)
    updates, state = optimizer.update(gradients, state, parameters)
    return optax.apply_updates(parameters, updates), state, loss


for _ in range(STEPS):
    parameters, state, loss = step(parameters, state, *batch)

values = [np.asarray(parameters[name].addressable_data(0)) for name in sorted(parameters)]
first = jax.grad(loss_of)(start, x, y)  # of arrays of this process alone
result = {
    "index": index,
    "hash": hashlib.sha256(b"".join(value.tobytes() for value in values)).hexdigest(),
    "first_gradient": float(np.linalg.norm(np.asarray(first["w1"], np.float64))),
}
sys.stdout.write("\n" + json.dumps(result) + "\n")
