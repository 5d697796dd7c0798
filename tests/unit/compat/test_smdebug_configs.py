"""When and how a hook saves: smdebug's configurations, against what its documentation states."""

from __future__ import annotations

import pytest

from leadline.compat.smdebug import ReductionConfig, SaveConfig, SaveConfigMode, modes
from leadline.compat.smdebug.exceptions import SMDebugValueError


@pytest.mark.parametrize(
    ("config", "saved"),
    [
        (SaveConfig(save_interval=10), [0, 10, 20]),
        (SaveConfig(save_interval=5, start_step=7, end_step=21), [10, 15, 20]),
        (SaveConfig(save_steps=[3]), [0, 3]),
        (SaveConfig(end_step=0), []),
        (SaveConfig({modes.TRAIN: SaveConfigMode(save_interval=12)}, save_interval=7), [0, 12, 24]),
        (SaveConfig.parse({"train": {"save_interval": "9", "save_steps": ["1"]}}), [0, 1, 9, 18]),
        (SaveConfig.parse(SaveConfigMode(save_interval=11)), [0, 11, 22]),
    ],
)
def test_saved_steps(config: SaveConfig, saved: list[int]) -> None:
    assert [step for step in range(25) if config.should_save_step(modes.TRAIN, step)] == saved
    assert SaveConfig.from_json(config.to_json()) == config


def test_a_mode_may_be_set_afterwards() -> None:
    config = SaveConfig(save_interval=4)
    config.set_save_config(modes.EVAL, SaveConfigMode(save_interval=3))
    assert config.should_save_step(modes.EVAL, 3)
    assert not config.should_save_step(modes.TRAIN, 3)


def test_steps_without_a_mode_are_those_of_training() -> None:
    assert SaveConfig({modes.GLOBAL: SaveConfigMode(3)}, save_interval=5).of_train_steps().save_interval == 3
    assert SaveConfig({modes.GLOBAL: SaveConfigMode(3), modes.TRAIN: SaveConfigMode(4)}).of_train_steps() == (
        SaveConfigMode(4)
    )


def test_reductions_become_statistics_or_are_computed_from_the_tensor() -> None:
    assert ReductionConfig(["mean"], ["max"], norms=["l2"]).statistics == ("mean", "abs_max", "l2")
    assert not ReductionConfig(["mean"], ["max"], abs_norms=["l2"]).is_raw
    assert ReductionConfig(abs_reductions=["std"]).is_raw
    parsed = ReductionConfig.from_dict({"reductions": "min, abs_max,l1_norm,abs_l2_norm", "save_raw_tensor": True})
    assert parsed == ReductionConfig(["min"], ["max"], ["l1"], ["l2"], save_raw_tensor=True)
    assert ReductionConfig.from_json(parsed.to_json()) == parsed


@pytest.mark.parametrize(
    ("make", "problem"),
    [
        (lambda: SaveConfig(save_interval=0), "save_interval must be at least 1"),
        (lambda: SaveConfig(save_steps=[-1]), "save_steps must be at least 0"),
        (lambda: SaveConfig({"validate": SaveConfigMode()}), "no mode 'validate'"),
        (lambda: SaveConfigMode.from_dict({"every": 3}), "no such settings of SaveConfigMode: every"),
        (lambda: ReductionConfig(["median"]), "no reduction 'median'"),
        (lambda: ReductionConfig.from_dict({"reduction": "min"}), "no such settings of ReductionConfig: reduction"),
    ],
)
def test_invalid_settings_are_named(make: object, problem: str) -> None:
    assert callable(make)
    with pytest.raises(SMDebugValueError, match=problem):
        make()
