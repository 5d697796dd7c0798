"""Steps, samples and FLOPs per second; unknown values are absent."""

from __future__ import annotations

import pytest
from timelines import WORKER, training

from leadline.analysis.time_breakdown import peak_of, read_time_breakdown
from leadline.testing.runs import RunWriter

STEP = {"data": 10.0, "forward": 30.0, "backward": 60.0}


def values(tmp_path, *, gpus: list[dict[str, str]] | None = None, **facts: object) -> dict[str, float]:
    writer = RunWriter(tmp_path / "run").write_all(training([STEP] * 21))
    writer.end()
    writer.write_worker(WORKER, state="ended", facts=facts)
    writer.write_node("node", gpus=gpus or [])
    return read_time_breakdown(writer.path).throughput.to_dict()


def test_throughput_excludes_the_first_step(tmp_path) -> None:
    found = values(tmp_path)
    assert found["steps_per_second"] == pytest.approx(10.0)
    assert found["input_wait_share"] == pytest.approx(0.1)
    assert found["step_ms"] == pytest.approx({"mean": 100.0, "median": 100.0, "p95": 100.0})
    assert {"samples_per_second", "flops_per_second", "mfu"}.isdisjoint(found)


def test_samples_flops_and_mfu_are_computed_from_facts(tmp_path) -> None:
    gpus = [{"device": "gpu0", "name": "NVIDIA A100-SXM4-80GB"}] * 2
    found = values(tmp_path, gpus=gpus, batch_size=32, flops_per_step=3.12e12, device="cuda:0")
    assert found["samples_per_second"] == pytest.approx(320.0)
    assert found["flops_per_second"] == pytest.approx(3.12e13)
    assert found["mfu"] == pytest.approx(0.1)


@pytest.mark.parametrize(
    ("gpus", "device"),
    [
        ([{"name": "NVIDIA A100-SXM4-80GB"}, {"name": "Tesla T4"}], "cuda:0"),
        ([{"name": "GeForce 256"}], "cuda:0"),
        ([{"name": "NVIDIA A100-SXM4-80GB"}], "cpu"),
        ([], "cuda:0"),
    ],
)
def test_without_a_known_peak_there_is_no_mfu(tmp_path, gpus: list[dict[str, str]], device: str) -> None:
    found = values(tmp_path, gpus=gpus, flops_per_step=1e12, device=device)
    assert "flops_per_second" in found
    assert "mfu" not in found


def test_the_most_specific_device_name_is_used() -> None:
    assert peak_of("NVIDIA H100 PCIe") == 756e12
    assert peak_of("NVIDIA H100 80GB HBM3") == 989e12
    assert peak_of("NVIDIA A10G") != peak_of("NVIDIA A10")
    assert peak_of("") is None
