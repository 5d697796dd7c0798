"""The presets, compared with their description in the design (section 6)."""

from __future__ import annotations

import pytest

from leadline.config.presets import preset_items
from leadline.config.run_config import DEFAULTS, INTERVALS_MS, RunConfig
from leadline.hook import Hook
from leadline.launch.prepare import prepare
from leadline.reader.find_runs import read_manifest
from leadline.records.plan import CaptureItem
from leadline.statistics.definitions import BASIC, CORE

SCALARS = ("losses", "metrics")
PARAMETERS = ("gradients", "weights", "biases")


def captured_steps(
    preset: str, collection: str, *, raw: bool = False, mode: str = "train", last: int = 1001
) -> set[int]:
    """The steps at which a collection is captured; items for accuracies are left out."""
    items = [
        item
        for item in preset_items(preset)
        if item.collection == collection
        and item.raw == raw
        and mode in item.modes
        and item.regex is None
        and item.family is None
    ]
    return {step for step in range(last) if any(item.schedule.should_capture(step) for item in items)}


def every(interval: int, last: int = 1001) -> set[int]:
    return set(range(0, last, interval))


def front_loaded(interval: int) -> set[int]:
    return every(interval) | {1, 2, 3, 4, 5, 10, 20, 50, 100}


@pytest.mark.parametrize("preset", ["light", "standard", "full"])
@pytest.mark.parametrize("mode", ["train", "eval", "predict"])
@pytest.mark.parametrize("collection", SCALARS)
def test_losses_and_metrics_of_every_step(preset: str, mode: str, collection: str) -> None:
    assert captured_steps(preset, collection, mode=mode) == every(1)


@pytest.mark.parametrize(("preset", "interval"), [("light", 100), ("standard", 50), ("full", 10)])
@pytest.mark.parametrize("collection", PARAMETERS)
def test_basic_statistics_of_gradients_and_weights(preset: str, interval: int, collection: str) -> None:
    assert captured_steps(preset, collection) == front_loaded(interval)
    for item in preset_items(preset):
        if item.collection == collection and not item.raw:
            assert set(CORE) < set(BASIC) <= set(item.statistics)


def test_activations() -> None:
    assert captured_steps("light", "layers") == set()
    assert captured_steps("standard", "layers") == front_loaded(500)


def test_raw_tensors() -> None:
    assert [item for preset in ("light", "standard", "sagemaker") for item in preset_items(preset) if item.raw] == []
    assert captured_steps("full", "weights", raw=True) == captured_steps("full", "gradients", raw=True) == every(500)


def test_no_preset_stores_inputs_labels_or_outputs_raw() -> None:
    raw = {
        item.collection
        for preset in ("light", "standard", "full", "sagemaker")
        for item in preset_items(preset)
        if item.raw
    }
    assert raw == set(PARAMETERS)


def test_sagemaker_is_what_debugger_captured(tmp_path, monkeypatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert captured_steps("sagemaker", "losses") == captured_steps("sagemaker", "metrics") == every(500)
    assert all(is_scalar(item) for item in preset_items("sagemaker") if item.family is None)
    manifest = read_manifest(prepare(RunConfig(preset="sagemaker"), ["python", "train.py"]))
    assert manifest.interval_ms == 500
    assert [rule.rule for rule in manifest.rules if rule.rule != "profiler_report"] == []


def is_scalar(item: CaptureItem) -> bool:
    return item.statistics == ("value",) and not item.raw


def test_standard_is_the_default_with_a_budget_of_two_percent(tmp_path, monkeypatch) -> None:
    monkeypatch.chdir(tmp_path)
    manifest = read_manifest(prepare(RunConfig(), ["python", "train.py"]))
    assert (manifest.preset, manifest.plan.budget) == ("standard", 0.02)
    assert (DEFAULTS.preset, DEFAULTS.interval_ms) == ("standard", 500)
    assert 500 in INTERVALS_MS


def test_light_has_half_the_budget_also_as_the_base_of_a_preset(tmp_path, monkeypatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "leadline.toml").write_text('[presets.mine]\nbase = "light"\n')
    light = prepare(RunConfig(name="light", preset="light"), ["train"])
    assert read_manifest(light).plan.budget == 0.01
    assert read_manifest(prepare(RunConfig(name="mine", preset="mine"), ["train"])).plan.budget == 0.01
    standard = RunConfig(name="again", preset="standard", config=light)
    assert read_manifest(prepare(standard, ["train"])).plan.budget == 0.02
    hook = Hook(out=str(tmp_path), preset="light")
    assert hook.run is not None
    assert read_manifest(hook.run).plan.budget == 0.01
    hook.close()
    assert RunConfig(preset="light", budget="1%").to_options() == ["--preset", "light"]
    assert RunConfig(budget="1%").to_options() == ["--budget", "1%"]


def test_the_budget_is_taken_from_option_or_file(tmp_path, monkeypatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "leadline.toml").write_text('budget = "0.5%"\n')
    assert read_manifest(prepare(RunConfig(name="file"), ["train"])).plan.budget == 0.005
    assert read_manifest(prepare(RunConfig(name="option", budget="off"), ["train"])).plan.budget is None
