"""A small convolutional network in Flax NNX with an Optax optimizer."""

import sys

import jax
import jax.numpy as jnp
import numpy as np
import optax
from flax import nnx

FIXED = len(sys.argv) > 1 and sys.argv[1] == "fixed"
CLASSES = 5
SIDE = 14


def make_images(count, seed):
    """Noisy bars at five angles."""
    rng = np.random.default_rng(seed)
    labels = rng.integers(0, CLASSES, count)
    images = rng.normal(0, 0.5, (count, SIDE, SIDE, 1))
    angles = np.pi * labels / CLASSES
    centers = rng.integers(5, 9, (count, 2))
    for step in range(-5, 6):
        rows = np.clip(np.rint(centers[:, 0] + step * np.sin(angles)), 0, SIDE - 1).astype(int)
        columns = np.clip(np.rint(centers[:, 1] + step * np.cos(angles)), 0, SIDE - 1).astype(int)
        images[np.arange(count), rows, columns, 0] += 1.2
    return images.astype("float32"), labels


class ConvNet(nnx.Module):
    def __init__(self, rngs):
        self.conv1 = nnx.Conv(1, 12, (3, 3), rngs=rngs)
        self.conv2 = nnx.Conv(12, 24, (3, 3), rngs=rngs)
        self.dense = nnx.Linear(24 * 9, 32, rngs=rngs)
        self.head = nnx.Linear(32, CLASSES, rngs=rngs)

    def __call__(self, x):
        x = nnx.max_pool(nnx.relu(self.conv1(x)), (2, 2), (2, 2))
        x = nnx.max_pool(nnx.relu(self.conv2(x)), (2, 2), (2, 2))
        x = nnx.relu(self.dense(x.reshape(len(x), -1)))
        return self.head(x)


def loss_fn(model, x, y):
    logits = model(x)
    loss = optax.softmax_cross_entropy_with_integer_labels(logits, y).mean()
    return loss, logits


def train_step(model, optimizer, x, y):
    (loss, logits), grads = nnx.value_and_grad(loss_fn, has_aux=True)(model, x, y)
    optimizer.update(model, grads)
    return loss, (logits.argmax(1) == y).mean()


def main():
    train_x, train_y = make_images(3000, 0)
    test_x, test_y = make_images(600, 1)
    model = ConvNet(nnx.Rngs(0))
    optimizer = nnx.Optimizer(model, optax.adamw(2e-3), wrt=nnx.Param)
    step = nnx.jit(train_step) if FIXED else jax.jit(train_step)
    rng = np.random.default_rng(0)
    for epoch in range(8):
        losses, accuracies = [], []
        for batch in np.split(rng.permutation(len(train_x)), 60):
            loss, accuracy = step(model, optimizer, jnp.asarray(train_x[batch]), jnp.asarray(train_y[batch]))
            losses.append(loss)
            accuracies.append(accuracy)
        print(f"epoch {epoch + 1}: loss {np.mean(losses):.4f} accuracy {np.mean(accuracies):.3f}")
    right = (model(jnp.asarray(test_x)).argmax(1) == test_y).mean()
    print(f"test accuracy {right:.3f}")


if __name__ == "__main__":
    main()
