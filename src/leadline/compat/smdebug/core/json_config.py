"""The configuration file of a hook, ``debughookconfig.json``, in which all values may be texts."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final, TypedDict

from leadline.compat.smdebug.core.collection import Collection, check_pattern
from leadline.compat.smdebug.core.collection_manager import CollectionManager
from leadline.compat.smdebug.core.modes import ModeKeys
from leadline.compat.smdebug.core.reduction_config import ReductionConfig
from leadline.compat.smdebug.core.sagemaker_utils import is_sagemaker_job
from leadline.compat.smdebug.core.save_config import DEFAULT_INTERVAL, SaveConfig, SaveConfigMode
from leadline.compat.smdebug.exceptions import SMDebugValueError
from leadline.records.json_object import JsonObject

CONFIG_FILE_PATH_ENV_STR: Final = "SMDEBUG_CONFIG_FILE_PATH"
DEFAULT_SAGEMAKER_CONFIG: Final = "/opt/ml/input/config/debughookconfig.json"
DEFAULT_SAGEMAKER_OUTDIR: Final = "/opt/ml/output/tensors"
TENSORBOARD_CONFIG_FILE_PATH_ENV_STR: Final = "TENSORBOARD_CONFIG_FILE_PATH"
DEFAULT_SAGEMAKER_TENSORBOARD_PATH: Final = "/opt/ml/input/config/tensorboardoutputconfig.json"
DEFAULT_RESOURCE_CONFIG_FILE: Final = "/opt/ml/input/config/resourceconfig.json"
_NUMBERS: Final = ("save_interval", "start_step", "end_step")
_REDUCTION: Final = ("reductions", "save_raw_tensor", "save_shape")
_REGEX: Final = "include_regex"
_STEPS: Final = (*_NUMBERS, "save_steps")
_OF_COLLECTION: Final = {*_REDUCTION, _REGEX, "save_histogram"}
_OF_HOOK: Final = {
    *_REDUCTION,
    *(_REGEX, "save_all", "include_workers", "export_tensorboard", "tensorboard_dir"),
}
_PREFIXED: Final = {*_STEPS, *(f"{mode.name.lower()}.{key}" for mode in ModeKeys for key in _STEPS)}
HOOK_PARAMETERS: Final = frozenset(_OF_HOOK | _PREFIXED)
"""What ``HookParameters`` can contain; others are ignored in a file, and refused in a request."""
COLLECTION_PARAMETERS: Final = frozenset(_OF_COLLECTION | _PREFIXED)
"""What ``CollectionParameters`` can contain."""
_TRUTH: Final = {"true": True, "false": False}


@dataclass(frozen=True, slots=True)
class CollectionSettings:
    """A collection of a configuration file; None: what the hook has."""

    name: str
    include_regex: tuple[str, ...] = ()
    save_config: SaveConfig | None = None
    reduction_config: ReductionConfig | None = None
    save_histogram: bool = True

    def apply(self, collection: Collection) -> None:
        """Give a collection these settings."""
        collection.include(list(self.include_regex))
        collection.save_config, collection.reduction_config = self.save_config, self.reduction_config
        collection.save_histogram = self.save_histogram


class HookArguments(TypedDict):
    """The arguments of a hook that a configuration file describes."""

    out_dir: str
    save_config: SaveConfig
    reduction_config: ReductionConfig | None
    include_regex: list[str] | None
    save_all: bool
    include_workers: str
    export_tensorboard: bool
    tensorboard_dir: str | None


@dataclass(frozen=True, slots=True)
class HookSettings:
    """A configuration file: arguments of the hook, and its collections."""

    hook: HookArguments
    collections: tuple[CollectionSettings, ...] = field(default_factory=tuple)


def config_path(given: str | None = None) -> str:
    """Return the path of the configuration file: the one given, ``SMDEBUG_CONFIG_FILE_PATH``, or SageMaker's."""
    return given or os.environ.get(CONFIG_FILE_PATH_ENV_STR) or DEFAULT_SAGEMAKER_CONFIG


def read_settings(given: str | None, interval: int) -> HookSettings:
    """Read a configuration file.

    Args:
        given: Its path; None: see ``config_path``.
        interval: The interval at which the hook saves by default.
    Raises:
        FileNotFoundError: There is no such file.
        SMDebugValueError: It is no JSON, or a value in it is not allowed.
    """
    path = config_path(given)
    with open(path, encoding="utf-8") as file:
        try:
            document = json.load(file)
        except ValueError as error:
            raise SMDebugValueError(f"{path} is not JSON: {error}") from None
    try:
        return parse_settings(document, interval)
    except SMDebugValueError as error:
        raise SMDebugValueError(f"{path}: {error}") from None


def parse_settings(document: Any, interval: int) -> HookSettings:
    """Return the settings of a configuration file that was read; see ``read_settings``."""
    if not isinstance(document, Mapping):
        raise SMDebugValueError("an object is expected")
    given = _table(document.get("HookParameters"), "HookParameters")
    default = SaveConfig(save_interval=interval)
    save_config = _save_config(given, default) or default
    hook: HookArguments = {
        "out_dir": document.get("LocalPath") or DEFAULT_SAGEMAKER_OUTDIR,
        "save_config": save_config,
        "reduction_config": _reduction_config(given),
        "include_regex": _patterns(given) or None,
        "save_all": _flag(given, "save_all", default=False),
        "include_workers": str(given.get("include_workers", "one")),
        "export_tensorboard": _flag(given, "export_tensorboard", default=False),
        "tensorboard_dir": given.get("tensorboard_dir"),
    }
    if is_sagemaker_job():
        folder = _tensorboard_folder()
        hook["export_tensorboard"], hook["tensorboard_dir"] = folder is not None, folder
    entries = document.get("CollectionConfigurations") or ()
    return HookSettings(hook, tuple(_collection(entry, save_config) for entry in entries))


def _tensorboard_folder() -> str | None:
    """Return where a job of SageMaker wants TensorBoard's files; None: it does not want them.

    Raises:
        SMDebugValueError: The file that says so is no JSON, or names no folder.
    """
    path = os.environ.get(TENSORBOARD_CONFIG_FILE_PATH_ENV_STR) or DEFAULT_SAGEMAKER_TENSORBOARD_PATH
    try:
        with open(path, encoding="utf-8") as file:
            return str(json.load(file)["LocalPath"])
    except FileNotFoundError:
        return None
    except (ValueError, KeyError, TypeError) as error:
        raise SMDebugValueError(f"{path}: an object with LocalPath is expected: {error}") from None


def _collection(entry: Any, default: SaveConfig) -> CollectionSettings:
    if not isinstance(entry, Mapping) or not entry.get("CollectionName"):
        raise SMDebugValueError(f"CollectionConfigurations: an entry has no CollectionName: {entry!r}")
    name = str(entry["CollectionName"])
    try:
        given = _table(entry.get("CollectionParameters"), "CollectionParameters")
        return CollectionSettings(
            name,
            tuple(_patterns(given)),
            _save_config(given, default),
            _reduction_config(given),
            _flag(given, "save_histogram", default=True),
        )
    except SMDebugValueError as error:
        raise SMDebugValueError(f"collection {name}: {error}") from None


def _save_config(given: Mapping[str, Any], default: SaveConfig) -> SaveConfig | None:
    """Return the steps; a setting of one mode comes before that of all, and both before the defaults.

    Returns:
        None if there is no setting of them.
    """
    shared = _steps(given, "")
    of_modes = {mode: _steps(given, f"{mode.name.lower()}.") for mode in ModeKeys}
    if not shared and not any(of_modes.values()):
        return None
    named = {
        mode: SaveConfigMode.from_dict(shared | of_modes[mode], default.get_save_config(mode).to_json_dict())
        for mode in ModeKeys
        if of_modes[mode] or mode in default.given
    }
    return SaveConfig(named, **SaveConfigMode.from_dict(shared, default.other.to_json_dict()).to_json_dict())


def _steps(given: Mapping[str, Any], prefix: str) -> JsonObject:
    found = {key: given[prefix + key] for key in _NUMBERS if given.get(prefix + key) not in (None, "")}
    steps = _list(given.get(f"{prefix}save_steps"))
    return found | {"save_steps": steps} if steps else found


def _reduction_config(given: Mapping[str, Any]) -> ReductionConfig | None:
    """Return the reductions; None if there is no setting of them."""
    if not any(key in given for key in _REDUCTION):
        return None
    return ReductionConfig.from_dict(
        {
            "reductions": str(given.get("reductions") or ""),
            "save_raw_tensor": _flag(given, "save_raw_tensor", default=not given.get("reductions")),
            "save_shape": _flag(given, "save_shape", default=False),
        }
    )


def _flag(given: Mapping[str, Any], key: str, *, default: bool) -> bool:
    value = given.get(key)
    if value is None:
        return default
    if isinstance(value, bool):
        return value
    if str(value).lower() not in _TRUTH:
        raise SMDebugValueError(f"{key} must be true or false, not {value!r}")
    return _TRUTH[str(value).lower()]


def _patterns(given: Mapping[str, Any]) -> list[str]:
    """Return the regular expressions that select tensors."""
    patterns = _list(given.get(_REGEX))
    try:
        for pattern in patterns:
            check_pattern(pattern)
    except SMDebugValueError as error:
        raise SMDebugValueError(f"{_REGEX} {error}") from None
    return patterns


def _list(value: Any) -> list[str]:
    """Return a list, or the parts of a text between commas outside brackets: a regular expression may have some."""
    if value is None:
        return []
    if not isinstance(value, str):
        return [str(part) for part in value]
    parts, depth = [""], 0
    for character in value:
        depth += (character in "([{") - (character in ")]}")
        if character == "," and depth <= 0:
            parts.append("")
        else:
            parts[-1] += character
    return [part.strip() for part in parts if part.strip()]


def _table(value: Any, name: str) -> Mapping[str, Any]:
    if value is None:
        return {}
    if not isinstance(value, Mapping):
        raise SMDebugValueError(f"{name} must be an object, not {value!r}")
    return value


# --- the parts of which rule containers and scripts compose a hook -------------------------------------------


def get_json_config_as_dict(json_config_path: str | None = None) -> JsonObject:
    """Return a configuration file as it is; see ``read_settings`` for its path and errors."""
    path = config_path(json_config_path)
    with open(path, encoding="utf-8") as file:
        try:
            return dict(json.load(file))
        except (ValueError, TypeError) as error:
            raise SMDebugValueError(f"{path} is not a JSON object: {error}") from None


def collect_hook_config_params(params_dict: Mapping[str, Any]) -> JsonObject:
    """Return the arguments of the hook that a configuration file describes."""
    return dict(parse_settings(params_dict, DEFAULT_INTERVAL).hook)


def get_include_collections(params_dict: Mapping[str, Any]) -> set[str]:
    """Return the names of the collections that a configuration file lists."""
    return {entry.name for entry in parse_settings(params_dict, DEFAULT_INTERVAL).collections}


def add_collections_to_manager(
    collection_manager: CollectionManager, params_dict: Mapping[str, Any], hook_params: Mapping[str, Any] | None = None
) -> None:
    """Give the collections of a manager what a configuration file says of them."""
    for entry in parse_settings(params_dict, DEFAULT_INTERVAL).collections:
        entry.apply(collection_manager.get(entry.name))
