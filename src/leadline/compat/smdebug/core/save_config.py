"""At which steps a hook saves, in smdebug's interface."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Final

from leadline.compat.smdebug.core.modes import ModeKeys
from leadline.compat.smdebug.exceptions import SMDebugTypeError, SMDebugValueError
from leadline.records.json_object import JsonObject
from leadline.records.plan import Schedule

DEFAULT_INTERVAL: Final = 500
_FIELDS: Final = ("save_interval", "start_step", "end_step", "save_steps")


@dataclass
class SaveConfigMode:
    """The steps of one mode: every ``save_interval`` from ``start_step`` to before ``end_step``, and ``save_steps``.

    The interval counts from step 0, wherever it starts.

    Raises:
        SMDebugValueError: A number is negative, or the interval is 0.
    """

    save_interval: int = DEFAULT_INTERVAL
    start_step: int = 0
    end_step: int | None = None
    save_steps: Iterable[int] | None = None

    def __post_init__(self) -> None:
        self.save_interval = _number("save_interval", self.save_interval, DEFAULT_INTERVAL, least=1)
        self.start_step = _number("start_step", self.start_step, 0)
        self.end_step = None if self.end_step is None else _number("end_step", self.end_step, 0)
        self.save_steps = [_number("save_steps", step, 0) for step in self.save_steps or ()]

    def should_save_step(self, step_num: int) -> bool:
        """Return whether a step of the mode is saved."""
        return self.schedule().should_capture(step_num)

    def schedule(self) -> Schedule:
        """Return the steps as a schedule of the capture plan."""
        steps = tuple(self.save_steps or ())
        return Schedule(self.save_interval, None, self.start_step, self.end_step, steps, has_last_round=False)

    def to_json_dict(self) -> JsonObject:
        """Return the fields by name."""
        return {field: getattr(self, field) for field in _FIELDS}

    @classmethod
    def from_dict(cls, params: Mapping[str, Any], default_values: Mapping[str, Any] | None = None) -> SaveConfigMode:
        """Create it from fields by name.

        Args:
            default_values: The fields that ``params`` lacks.
        """
        unknown = set(params) - set(_FIELDS)
        if unknown:
            raise SMDebugValueError(f"no such settings of SaveConfigMode: {', '.join(sorted(unknown))}")
        return cls(**{**(default_values or {}), **params})


class SaveConfig:
    """The steps of each mode that are saved.

    Args:
        mode_save_configs: The steps of single modes: ``SaveConfigMode`` or its fields, by mode.
        save_interval, start_step, end_step, save_steps: Those of all other modes, see ``SaveConfigMode``.
    Raises:
        SMDebugTypeError, SMDebugValueError: A mode or its configuration is none.
    """

    def __init__(
        self,
        mode_save_configs: Mapping[ModeKeys, SaveConfigMode | Mapping[str, Any]] | None = None,
        save_interval: int = DEFAULT_INTERVAL,
        start_step: int = 0,
        end_step: int | None = None,
        save_steps: Iterable[int] | None = None,
    ) -> None:
        steps = list(save_steps or ())
        self.other = SaveConfigMode(save_interval, start_step, end_step, steps)
        """The steps of the modes that were not named."""
        self.given = {_mode(mode): _mode_config(config) for mode, config in (mode_save_configs or {}).items()}
        """The modes that were named."""
        self.mode_save_configs = {mode: self.given.get(mode, self.other) for mode in ModeKeys}

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, SaveConfig):
            return NotImplemented
        return self.mode_save_configs == other.mode_save_configs

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        return f"SaveConfig({self.to_json_dict()})"

    def get_save_config(self, mode: ModeKeys) -> SaveConfigMode:
        """Return the steps of a mode."""
        return self.mode_save_configs[mode]

    def set_save_config(self, mode: ModeKeys, save_config_mode: SaveConfigMode) -> None:
        """Set the steps of a mode."""
        self.mode_save_configs[mode] = self.given[mode] = _mode_config(save_config_mode)

    def should_save_step(self, mode: ModeKeys, step_num: int) -> bool:
        """Return whether a step of a mode is saved."""
        return self.mode_save_configs[mode].should_save_step(step_num)

    def to_json_dict(self) -> JsonObject:
        """Return the fields of each mode by the mode's name."""
        return {mode.name: config.to_json_dict() for mode, config in self.mode_save_configs.items()}

    def to_json(self) -> str:
        """Return the fields of each mode by the mode's name, as JSON."""
        return json.dumps(self.to_json_dict())

    @classmethod
    def from_json(cls, json_str: str) -> SaveConfig:
        """Create it from the text that ``to_json`` returns."""
        return cls.from_dict(json.loads(json_str))

    @classmethod
    def from_dict(
        cls, params: Mapping[Any, Any], default_values: Mapping[ModeKeys, SaveConfigMode] | None = None
    ) -> SaveConfig:
        """Create it from ``SaveConfigMode`` or its fields by mode; modes are ``ModeKeys`` or their names.

        Args:
            default_values: The modes that ``params`` lacks, and for those it has the fields that they lack.
        """
        configs = {_mode(mode): config for mode, config in params.items()}
        known = dict(default_values or {})
        for mode, config in configs.items():
            if isinstance(config, Mapping) and mode in known:
                configs[mode] = SaveConfigMode.from_dict(config, known[mode].to_json_dict())
        return cls({**known, **configs})

    @classmethod
    def parse(cls, given: SaveConfig | SaveConfigMode | Mapping[Any, Any]) -> SaveConfig:
        """Return what a script gave as ``save_config``.

        Raises:
            SMDebugTypeError, SMDebugValueError: It is none.
        """
        if isinstance(given, SaveConfig):
            return given
        if isinstance(given, SaveConfigMode):
            return cls(dict.fromkeys(ModeKeys, given))
        if isinstance(given, Mapping):
            return cls.from_dict(given)
        raise SMDebugTypeError(f"save_config must be a SaveConfig, not {type(given).__name__}")

    def of_train_steps(self) -> SaveConfigMode:
        """Return the steps of the training: those of ``TRAIN``, or of ``GLOBAL`` where only that was named."""
        if ModeKeys.TRAIN not in self.given and ModeKeys.GLOBAL in self.given:
            return self.given[ModeKeys.GLOBAL]
        return self.mode_save_configs[ModeKeys.TRAIN]


def _mode(mode: object) -> ModeKeys:
    if isinstance(mode, ModeKeys):
        return mode
    if isinstance(mode, str) and mode.upper() in ModeKeys.__members__:
        return ModeKeys[mode.upper()]
    raise SMDebugValueError(f"no mode {mode!r}; there are {', '.join(f'modes.{mode.name}' for mode in ModeKeys)}")


def _mode_config(config: object) -> SaveConfigMode:
    if isinstance(config, SaveConfigMode):
        return config
    if isinstance(config, Mapping):
        return SaveConfigMode.from_dict(config)
    raise SMDebugTypeError(f"the steps of a mode are a SaveConfigMode, not {type(config).__name__}")


def _number(name: str, value: object, default: int, least: int = 0) -> int:
    if value is None:
        return default
    try:
        number = int(value)  # type: ignore[call-overload]
    except (TypeError, ValueError):
        raise SMDebugValueError(f"{name} must be a number, not {value!r}") from None
    if number < least:
        raise SMDebugValueError(f"{name} must be at least {least}, not {number}")
    return int(number)
