"""What is advised where a training waits for its data never names what its loader already has."""

from __future__ import annotations

import pytest

from leadline.analysis.loader_advice import loader_advice
from leadline.analysis.suggestions import INPUT, suggestions


@pytest.mark.parametrize(
    ("workers", "cores", "expected"),
    [
        (None, 8, "more num_workers, if processors are free; else cheaper or cached preprocessing"),
        (2, None, "more num_workers, if processors are free; else cheaper or cached preprocessing"),
        (0, 8, "a num_workers of the DataLoader above 0, which loads in the training process itself; else "),
        (2, 8, "more num_workers than 2, if some of the 8 processors are free; else cheaper or cached preprocessing"),
        (8, 8, "cheaper or cached preprocessing: there are 8 loader workers for 8 processors already"),
        (12, 8, "cheaper or cached preprocessing: there are 12 loader workers for 8 processors already"),
    ],
)
def test_advice_by_what_is_known(workers: int | None, cores: int | None, expected: str) -> None:
    advice = loader_advice(workers, cores)
    assert advice.startswith(expected)
    assert advice.endswith("; usually decoding and augmenting take longer than the step")


def test_the_bottleneck_advises_the_same_without_the_usual_cause() -> None:
    assert suggestions("", (2, 2))[INPUT] == (
        "cheaper or cached preprocessing: there are 2 loader workers for 2 processors already"
    )
    assert suggestions("")[INPUT].startswith("more num_workers in the DataLoader")
