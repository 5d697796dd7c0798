"""The configuration file."""

from __future__ import annotations

from pathlib import Path

import pytest

from leadline.config.run_config import RunConfig
from leadline.config.toml_file import from_toml
from leadline.errors import ConfigurationError


def write(folder: Path, text: str) -> None:
    (folder / "leadline.toml").write_text(text)


def test_no_file_is_all_defaults(tmp_path: Path) -> None:
    assert from_toml(None, str(tmp_path)) == RunConfig()


def test_every_key(tmp_path: Path) -> None:
    write(
        tmp_path,
        """
        preset = "full"
        out = "runs"
        interval_ms = 1000
        default_rules = false
        [capture.gradients]
        every = 5
        statistics = ["l2"]
        [rules.vanishing_gradient]
        threshold = 1e-8
        [rules.soon]
        rule = "stalled_training"
        threshold = 60
        [on]
        "soon@IssuesFound" = "stop_training:grace=5"
        """,
    )
    config = from_toml(None, str(tmp_path))
    assert (config.preset, config.out, config.interval_ms, config.default_rules) == ("full", "runs", 1000, False)
    assert config.capture[0].statistics == ("l2",)
    assert [(spec.alias, spec.rule) for spec in config.rules] == [
        ("vanishing_gradient", "vanishing_gradient"),
        ("soon", "stalled_training"),
    ]
    assert config.on[0].arguments == "grace=5"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ('interval_ms = "fast"', "interval_ms: expected int, got str"),
        ("interval_ms = 7", "interval_ms must be one of 100, 200, 500"),
        ("intervalms = 500", "no key named 'intervalms'; did you mean 'interval_ms'?"),
        ('preset = "standrad"', "no preset named 'standrad'; did you mean 'standard'?"),
        ("preset =", "is not valid TOML"),
        ("[capture]\ngradients = 5", "capture"),
        ("[metrics]\nacc = '('", "metrics.acc: '(' cannot be used: missing )"),
        ("[metrics]\nacc = 'acc=[0-9]+'", "it has 0 groups; one group encloses the number"),
        ("[metrics]\nacc = '(?:a+)+=([0-9.]+)'", "it repeats what repeats itself"),
        ("[roles]\nscore = 'rewrd'", "roles.score: no role named 'rewrd'; did you mean 'reward'?"),
        ("[metrics]\nacc = 3", "metrics: expected str"),
    ],
)
def test_an_invalid_file_is_reported_in_one_line(tmp_path: Path, text: str, message: str) -> None:
    write(tmp_path, text)
    with pytest.raises(ConfigurationError) as caught:
        from_toml(None, str(tmp_path))
    assert message in str(caught.value)
    assert "leadline.toml" in str(caught.value)
    assert "\n" not in str(caught.value)


def test_a_missing_file(tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError, match=r"cannot read the configuration .*: No such file"):
        from_toml(str(tmp_path / "other.toml"), str(tmp_path))


def test_expressions_of_metrics_are_kept(tmp_path: Path) -> None:
    write(tmp_path, "[metrics]\n'test accuracy' = 'test images: ([0-9.]+) %'\nloss = '(?:[0-9]+ )?L(\\d+)'")
    config = from_toml(None, str(tmp_path))
    assert config.metrics == {"test accuracy": "test images: ([0-9.]+) %", "loss": "(?:[0-9]+ )?L(\\d+)"}
    assert config.to_table()["metrics"] == config.metrics


def test_roles_of_metrics_are_kept(tmp_path: Path) -> None:
    write(tmp_path, "[roles]\n'rollout/mean_score' = 'reward'")
    config = from_toml(None, str(tmp_path))
    assert config.roles == config.to_table()["roles"] == {"rollout/mean_score": "reward"}
