"""The script's trackers are found as they are now, those on this machine first."""

from __future__ import annotations

from dataclasses import dataclass

from leadline.frameworks.loggers.trackers import ScriptTracker, Trackers


@dataclass
class Named:
    library: str
    title: str

    def log(self, name: str, value: float, step: int) -> None:
        raise AssertionError("nobody logs here")


def test_all_that_live_are_found_anew_each_time_and_those_over_a_network_last() -> None:
    trackers, live = Trackers(), list[ScriptTracker]()
    trackers.offer(lambda: [Named("mlflow", "MLflow run 1")])
    trackers.offer(lambda: live)
    assert [each.title for each in trackers.find()] == ["MLflow run 1"]
    live += [Named("wandb", "wandb run a"), Named("tensorboard", "TensorBoard /b")]
    assert [each.title for each in trackers.find()] == ["wandb run a", "TensorBoard /b", "MLflow run 1"]
    live.clear()
    assert [each.title for each in trackers.find()] == ["MLflow run 1"]
