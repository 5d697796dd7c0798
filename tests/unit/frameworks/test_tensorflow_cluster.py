"""The processes of a TensorFlow job, as the environment describes them."""

from __future__ import annotations

import json

import pytest

from leadline.frameworks.tensorflow import cluster

TWO_AND_A_CHIEF = {"chief": ["a:1"], "worker": ["b:1", "c:1"], "ps": ["d:1"]}


@pytest.mark.parametrize(
    ("variables", "processes", "rank"),
    [
        ({}, 1, None),
        ({"TF_CONFIG": "not JSON"}, 1, None),
        ({"TF_CONFIG": json.dumps({"cluster": {"worker": ["a:1"]}, "task": {"type": "worker", "index": 0}})}, 1, None),
        ({"TF_CONFIG": json.dumps({"cluster": TWO_AND_A_CHIEF, "task": {"type": "chief", "index": 0}})}, 3, 0),
        ({"TF_CONFIG": json.dumps({"cluster": TWO_AND_A_CHIEF, "task": {"type": "worker", "index": 1}})}, 3, 2),
        ({"TF_CONFIG": json.dumps({"cluster": TWO_AND_A_CHIEF, "task": {"type": "ps", "index": 0}})}, 3, None),
        ({"HOROVOD_SIZE": "4", "HOROVOD_RANK": "3"}, 4, 3),
    ],
)
def test_the_processes_and_the_rank(
    monkeypatch: pytest.MonkeyPatch, variables: dict[str, str], processes: int, rank: int | None
) -> None:
    for name in ("TF_CONFIG", "HOROVOD_SIZE", "HOROVOD_RANK"):
        monkeypatch.delenv(name, raising=False)
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    assert (cluster.processes(), cluster.rank()) == (processes, rank)
