"""A Module of MXNet, captured through a Hook: losses, weights and gradients, judged live.

leadline run --on loss_not_decreasing=stop_training mxnet_module.py
"""

from __future__ import annotations

import mxnet as mx
import numpy as np

import leadline

BATCH, EPOCHS = 32, 4
mx.random.seed(0)
generator = np.random.default_rng(0)
samples = generator.normal(size=(BATCH * 20, 12)).astype("float32")
labels = samples[:, :3].argmax(1).astype("float32")

data, label = mx.sym.var("data"), mx.sym.var("softmax_label")
hidden = mx.sym.Activation(mx.sym.FullyConnected(data, num_hidden=16, name="fc1"), act_type="relu")
output = mx.sym.SoftmaxOutput(mx.sym.FullyConnected(hidden, num_hidden=3, name="fc2"), label, name="softmax")

module = mx.mod.Module(output, data_names=["data"], label_names=["softmax_label"])
batches = mx.io.NDArrayIter(samples, labels, BATCH)
module.bind(batches.provide_data, batches.provide_label)
module.init_params(mx.init.Xavier())
module.init_optimizer(optimizer="adam", optimizer_params={"learning_rate": 0.01})

with leadline.Hook() as hook:
    for _ in range(EPOCHS):
        batches.reset()
        for batch in batches:
            module.forward(batch, is_train=True)
            module.backward()
            probabilities, truth = module.get_outputs()[0].asnumpy(), batch.label[0].asnumpy().astype(int)
            hook.log(cross_entropy_loss=float(-np.log(probabilities[np.arange(BATCH), truth]).mean()))
            executors = module._exec_group
            for name, weights, gradients in zip(
                executors.param_names, executors.param_arrays, executors.grad_arrays, strict=True
            ):
                kind = "biases" if name.endswith("bias") else "weights"
                hook.save_tensor(name, weights[0].asnumpy(), collections=kind)
                hook.save_tensor(f"gradient/{name}", gradients[0].asnumpy() / BATCH, collections="gradients")
            module.update()
            hook.step()

print(f"accuracy {dict(module.score(batches, 'acc'))['accuracy']:.2f}")
