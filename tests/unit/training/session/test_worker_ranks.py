"""The rank of a worker, as launchers tell it."""

from __future__ import annotations

import pytest

from leadline.training.session.worker_names import RANKS, rank_number


@pytest.mark.parametrize(
    ("variables", "known", "expected"),
    [
        ({}, None, 0),
        ({"RANK": "3", "SLURM_PROCID": "1"}, None, 3),
        ({"OMPI_COMM_WORLD_RANK": "5"}, None, 5),
        ({"PMI_RANK": "2"}, None, 2),
        ({"HOROVOD_RANK": "1", "SLURM_PROCID": "0"}, None, 1),  # horovodrun in a job of one task
        ({"SLURM_PROCID": "4"}, None, 4),
        ({"JOB_COMPLETION_INDEX": "6"}, None, 6),
        ({"RANK": "3"}, 7, 7),
        ({"RANK": "first"}, None, 0),
    ],
)
def test_the_rank_is_that_of_the_framework_or_the_launcher(
    monkeypatch: pytest.MonkeyPatch, variables: dict[str, str], known: int | None, expected: int
) -> None:
    for name in RANKS:
        monkeypatch.delenv(name, raising=False)
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    assert rank_number(known) == expected
