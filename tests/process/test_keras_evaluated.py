"""What Keras evaluates is compared with what it trains on, on each of its backends."""

from __future__ import annotations

from pathlib import Path

import pytest
from launching import ON_JAX, ON_TENSORFLOW, script, watched

VENVS = Path(__file__).parents[2] / ".venvs"
BACKENDS = {
    "tensorflow": ("tensorflow", ON_TENSORFLOW),
    "jax": ("jax", ON_JAX),
    "torch": ("tensorflow", ON_TENSORFLOW),
}
RULES = ("--no-default-rules", "--rule", "shared_samples", "--rule", "validation_mismatch")
EPOCHS, BATCH = 5, 16

pytestmark = pytest.mark.slow


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("healthy", [(), ("healthy",)])
def test_shared_samples_and_classes_that_are_not_trained_are_named(
    backend: str, healthy: tuple[str, ...], tmp_path: Path
) -> None:
    environment, variables = BACKENDS[backend]
    python = str(VENVS / environment / "bin" / "python")
    variables = {**variables, "KERAS_BACKEND": backend}
    ended = watched(RULES, python, script("keras_evaluated.py"), *healthy, folder=tmp_path, **variables)
    assert ended.status == 0, ended.err
    evaluated, *losses = map(float, ended.lines[-1].split())
    found = {finding["rule"]: finding["message"] for finding in ended.run.findings().to_pylist()}
    if healthy:
        assert found == {}
    else:
        assert set(found) == {"shared_samples", "validation_mismatch"}
        assert "samples that were evaluated are training samples" in found["shared_samples"]
        assert (
            f"of {evaluated:.0f} labels of the validation are of class 4, and none of" in found["validation_mismatch"]
        )
    if backend == "jax":
        batches = -(-int(evaluated) // BATCH)
        assert ended.run.steps(mode="eval") == list(range(EPOCHS * batches))
        assert mean_losses(ended.run, int(evaluated), batches) == pytest.approx(losses, rel=1e-5)


def mean_losses(run: object, evaluated: int, batches: int) -> list[float]:
    """Return the mean loss of each evaluation, of the losses of its batches."""
    sizes = [BATCH] * (batches - 1) + [evaluated - BATCH * (batches - 1)]
    loss = run.tensor("loss")  # type: ignore[attr-defined]
    values = [float(loss.value(step, mode="eval")) for step in range(EPOCHS * batches)]
    parts = [values[at : at + batches] for at in range(0, len(values), batches)]
    return [sum(s * v for s, v in zip(sizes, part, strict=True)) / evaluated for part in parts]
