"""The default rules find mistakes in programs with Keras, and are silent on repaired and healthy ones.

A sample: ``python tests/detection/keras_recall.py`` runs all programs.
"""

from __future__ import annotations

import re
import subprocess

import pytest
from keras_recall import CAUSES, run_healthy, run_mistakes
from launching import ON_TENSORFLOW, PATIENCE, environment
from programs import KERAS_HEALTHY, KERAS_MISTAKES, KERAS_PYTHON, mistaken, repaired, run
from recall import alarms

SAMPLE = {
    "tensorflow": (
        "accuracy_of_regression",
        "diverging_regression",
        "dropout_on_output",
        "flatten_forgotten",
        "no_activations",
        "pixels_as_read",
        "root_at_zero",
    ),
    "torch": (
        "one_unit_categorical",
        "sequences_returned",
        "softmax_of_logits_loss",
    ),
}
"""Mistakes by backend."""
HEALTHY = {"tensorflow": ("two_outputs", "rescales_its_images"), "torch": ("multi_label", "normalizes_its_input")}


def test_every_program_has_a_cause_and_a_twin() -> None:
    assert set(CAUSES) == set(KERAS_MISTAKES)
    assert len(KERAS_MISTAKES) >= 35
    assert len(KERAS_HEALTHY) >= 8
    for path in KERAS_MISTAKES.values():
        text, twin = path.read_text(), repaired(path).source
        assert re.search("^Mistake: .*$", text, re.MULTILINE)
        assert twin != text
        assert not re.search("# (mistake|repaired)", twin)
        compile(twin, str(path), "exec")


@pytest.mark.slow
@pytest.mark.parametrize("backend", SAMPLE)
def test_mistakes_are_found_and_twins_and_healthy_trainings_are_silent(backend: str) -> None:
    outcomes, healthy = run_mistakes(backend, SAMPLE[backend]), run_healthy(backend, HEALTHY[backend])
    assert [name for name, outcome in outcomes.items() if not outcome.found] == []
    quiet = {**{f"{name}-repaired": outcome.repaired for name, outcome in outcomes.items()}, **healthy}
    assert {name: result.error for name, result in quiet.items() if result.error} == {}
    assert alarms(quiet) == {}


_TAKEN_BACK = """
import keras, numpy as np, tensorflow as tf
logits, labels = tf.constant(np.random.randn(8, 5).astype("float32")), tf.constant(np.arange(8) % 5)
measure = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
given = tf.function(lambda: measure(labels, keras.activations.softmax(logits)))
assert abs(float(given()) - float(measure(labels, logits))) < 1e-6
"""


@pytest.mark.slow
def test_a_softmax_that_keras_takes_back_is_no_mistake() -> None:
    """On TensorFlow the loss is computed from the input of the softmax, as Keras says in a warning."""
    variables = environment(**ON_TENSORFLOW)
    subprocess.run([KERAS_PYTHON, "-c", _TAKEN_BACK], env=variables, check=True, timeout=PATIENCE)
    results = run([mistaken(KERAS_MISTAKES["softmax_of_logits_loss"])], backend="tensorflow")
    assert {name: result.error for name, result in results.items() if result.error} == {}
    assert alarms(results) == {}
