"""The batches that models are given, over all of their inputs."""

from __future__ import annotations

from collections.abc import Iterable

from leadline.rules import TensorVector

ALL_INPUTS = r"_input_\d+$"
"""The names of the inputs of a model."""
_FIRST = "_input_0"


def inputs_by_model(vectors: Iterable[TensorVector]) -> dict[tuple[str, str], list[TensorVector]]:
    """Return the fingerprints of the inputs of each model, in the order of their names.

    Returns:
        By worker and name of the first input. A model whose first input has none is left out.
    """
    models: dict[tuple[str, str], list[TensorVector]] = {}
    for vector in sorted(vectors, key=lambda vector: vector.tensor):
        first = vector.tensor.rpartition("_input_")[0] + _FIRST
        models.setdefault((vector.worker, first), []).append(vector)
    return {key: inputs for key, inputs in models.items() if inputs[0].tensor == key[1]}
