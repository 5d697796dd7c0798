"""Prints the facts about labels of a Keras loss, computed in a function and eagerly, and by numpy, as JSON."""

from __future__ import annotations

import json
import sys

import keras
import numpy as np

from leadline.frameworks.keras.loss_facts import KerasVerbs
from leadline.frameworks.kit.array_verbs import ArrayVerbs
from leadline.frameworks.kit.loss_facts import label_facts
from leadline.records.loss_facts import Activation, LossKind

generator = np.random.default_rng(4)
several = (generator.random((16, 4)) < 0.5).astype("float32")
LABELS = [several, np.eye(4)[generator.integers(0, 4, 16)], several[:7], generator.normal(size=(16, 1)) * 3]


def facts_of(verbs, labels, has_classes):
    return label_facts(verbs, labels, LossKind.SQUARED_ERROR, Activation.TANH, has_classes=has_classes)


def in_function(labels, has_classes):
    if keras.backend.backend() != "tensorflow":
        return facts_of(KerasVerbs(), labels, has_classes)
    import tensorflow as tf

    signature = [tf.TensorSpec((None, labels.shape[1]), labels.dtype)]
    return tf.function(lambda given: facts_of(KerasVerbs(), given, has_classes), input_signature=signature)(labels)


def numbers(found):
    return {fact: float(number) for fact, number in found.items() if float(number) == float(number)}


results = []
for values in LABELS:
    tensor, has_classes = keras.ops.convert_to_tensor(values), values.shape[1] > 1
    results.append(
        [
            numbers(facts_of(ArrayVerbs(), values, has_classes)),
            numbers(facts_of(KerasVerbs(), tensor, has_classes)),
            numbers(in_function(tensor, has_classes)),
        ]
    )
sys.stdout.write(json.dumps(results) + "\n")
