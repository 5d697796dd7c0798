"""Advice in the terms of the framework that trains.

Rules know what was captured, not by which framework, and name functions of PyTorch in their suggestions. A finding of a
run of another framework is recorded with that framework's names for them.
"""

from __future__ import annotations

import os
import re
from typing import Final

from leadline.records.documents import WorkerDocument
from leadline.store import layout
from leadline.store.documents import read_document
from leadline.store.folder_watch import names_in

KERAS, JAX, MXNET = "keras", "jax", "mxnet"
_TERMS: Final[dict[str, dict[str, str]]] = {
    # losses
    "BCEWithLogitsLoss": {
        KERAS: "BinaryCrossentropy(from_logits=True)",
        JAX: "optax.sigmoid_binary_cross_entropy",
        MXNET: "SigmoidBCELoss",
    },
    "BCELoss in place of BCEWithLogitsLoss": {KERAS: "from_logits=False", MXNET: "from_sigmoid=True"},
    "BCELoss": {
        KERAS: "BinaryCrossentropy",
        JAX: "binary cross entropy of probabilities",
        MXNET: "SigmoidBCELoss(from_sigmoid=True)",
    },
    "class indices (CrossEntropyLoss)": {
        KERAS: "class indices (SparseCategoricalCrossentropy)",
        JAX: "class indices (optax.softmax_cross_entropy_with_integer_labels)",
    },
    "CrossEntropyLoss": {
        KERAS: "CategoricalCrossentropy(from_logits=True)",
        JAX: "optax.softmax_cross_entropy",
        MXNET: "SoftmaxCELoss",
    },
    "NLLLoss on its log_softmax": {
        KERAS: "from_logits=False",
        JAX: "the negative logarithm of its output for the true class",
        MXNET: "SoftmaxCELoss(from_logits=True) on its log_softmax",
    },
    "loss(predictions, labels)": {KERAS: "loss(labels, predictions)"},
    "kl_div(log_target=True) for log-probabilities": {
        KERAS: "exp of log-probabilities",
        JAX: "exp of log-probabilities",
        MXNET: "exp of log-probabilities",
    },
    # shapes
    "predictions.squeeze(1), or labels.unsqueeze(1)": {
        KERAS: "labels of shape (N, 1)",
        JAX: "predictions.squeeze(1), or labels[:, None]",
        MXNET: "labels.expand_dims(1)",
    },
    "softmax(dim=1), or dim=-1": dict.fromkeys((KERAS, JAX, MXNET), "softmax(axis=1), or axis=-1"),
    "usually dim is 0": dict.fromkeys((KERAS, JAX, MXNET), "usually axis is 0"),
    # parameters and gradients
    "passing model.parameters() to the optimizer": {
        KERAS: "compile()",
        JAX: "optimizer.init() on the parameters",
        MXNET: "a Trainer with net.collect_params()",
    },
    "requires_grad_(False)": {KERAS: "trainable=False", JAX: "optax.set_to_zero", MXNET: 'grad_req="null"'},
    "requires_grad is set": {KERAS: "trainable is True", JAX: "it is not frozen", MXNET: 'grad_req is not "null"'},
    "detach(), .data, item(), no_grad(), a new tensor with requires_grad=True": {
        KERAS: "stop_gradient(), numpy(), a new tensor",
        JAX: "stop_gradient(), a new array",
        MXNET: "detach(), asnumpy(), asscalar(), a new array",
    },
    "detach(), .data, no_grad() or": {
        KERAS: "stop_gradient(), numpy() or",
        JAX: "stop_gradient() or",
        MXNET: "detach(), asnumpy() or",
    },
    "a detach()": {KERAS: "a stop_gradient()", JAX: "a stop_gradient()"},
    "clip_grad_norm_(model.parameters(), 1.0) before optimizer.step()": {
        KERAS: "clipnorm=1.0 in the optimizer",
        JAX: "optax.clip_by_global_norm(1.0) before the optimizer",
        MXNET: "gluon.utils.clip_global_norm to 1.0 before trainer.step()",
    },
    "clip_grad_norm_ to": {
        KERAS: "clipnorm of",
        JAX: "optax.clip_by_global_norm to",
        MXNET: "gluon.utils.clip_global_norm to",
    },
    # schedules and data
    "eta_min, min_lr": {KERAS: "alpha, min_lr", JAX: "end_value, alpha", MXNET: "final_lr"},
    "scheduler.step() is called after each batch, though the schedule counts epochs": dict.fromkeys(
        (KERAS, JAX, MXNET), "the schedule was given a number of epochs, though it counts batches"
    ),
    "more num_workers (0 loads in the training process itself), persistent_workers": {
        KERAS: "prefetch() of the data set, num_parallel_calls in its map()",
        JAX: "loading in threads or processes of their own",
    },
    "shuffle=True in the DataLoader": {
        KERAS: "shuffle=True in fit(), shuffle() of the data set",
        JAX: "a permutation of the examples",
    },
}
"""The names that PyTorch has for something, with those of other frameworks; without one, PyTorch's stays."""
_KNOWN: Final = re.compile(
    "|".join(rf"(?<!\w){re.escape(term)}(?!\w)" for term in sorted(_TERMS, key=len, reverse=True))
)


def in_terms_of(library: str, advice: str) -> str:
    """Return advice with a library's names in place of PyTorch's.

    Args:
        library: As ``library_of`` returns it.
    """
    return _KNOWN.sub(lambda found: _TERMS[found[0]].get(library, found[0]), advice)


def library_of(frameworks: str) -> str:
    """Return the library whose names a script uses: ``keras``, ``jax``, ``mxnet``, or empty: PyTorch's or unknown.

    Args:
        frameworks: As a worker document has them, ``tensorflow 2.21.0 (Keras 3.15.1)``.
    """
    names = frameworks.lower()
    if KERAS in names or "tensorflow" in names:
        return KERAS
    return next((name for name in (JAX, MXNET) if names.startswith(name)), "")


def library_of_run(run: str) -> str:
    """Return the library that the first worker of a run uses; empty: PyTorch, or unknown."""
    names = names_in(os.path.join(run, layout.WORKERS))
    for name in sorted(name for name in names if name.endswith(".json")):
        document = WorkerDocument.from_dict(read_document(os.path.join(run, layout.WORKERS, name)) or {})
        return library_of(document.framework)
    return ""
