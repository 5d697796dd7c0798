"""Live trackers of the script: found at each call, local ones first."""

from __future__ import annotations

from dataclasses import dataclass

from leadline.frameworks.loggers.interceptor import ScriptTracker, Trackers


@dataclass
class Named:
    library: str
    title: str

    def log(self, name: str, value: float, step: int) -> None:
        raise AssertionError("not called")


def test_live_trackers_are_found_at_each_call_and_remote_ones_last() -> None:
    trackers, live = Trackers(), list[ScriptTracker]()
    trackers.register(lambda: [Named("mlflow", "MLflow run 1")])
    trackers.register(lambda: live)
    assert [tracker.title for tracker in trackers.find()] == ["MLflow run 1"]
    live += [Named("wandb", "wandb run a"), Named("tensorboard", "TensorBoard /b")]
    assert [tracker.title for tracker in trackers.find()] == ["wandb run a", "TensorBoard /b", "MLflow run 1"]
    live.clear()
    assert [tracker.title for tracker in trackers.find()] == ["MLflow run 1"]
