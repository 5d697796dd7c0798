"""The configuration of a run, as it was requested: by options, keyword arguments, a form or ``leadline.toml``."""

from __future__ import annotations

import json
import os
import re
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from typing import Any, Final

from leadline.config.capture import capture_table, parse_capture
from leadline.config.options import ActionEntry, format_spec, parse_action, parse_rule, parse_triggered_action
from leadline.config.store_uri import is_uri, parse_place
from leadline.errors import ConfigurationError, closest
from leadline.records.json_object import JsonObject
from leadline.records.manifest import RuleSpec
from leadline.records.metric import INTERVALS_MS
from leadline.records.names import PRESETS, display_name
from leadline.records.plan import CaptureItem

DEFAULT_BUDGET: Final = "2%"
LIGHT_BUDGET: Final = "1%"
"""The default of the preset ``light``."""
_DEFAULT_ROOT: Final = "leadline-runs"
_BUILT_IN: Final = ("leadline.rules.", "leadline.actions.")


@dataclass(frozen=True, slots=True, kw_only=True)
class RunConfig:
    """Everything that can be configured of a run; None and empty: not given."""

    name: str | None = None
    """The name of the run; None: made from the command and the time."""
    at: str | None = None
    """The run directory, which other processes may be creating, too; overrides ``name`` and ``out``."""
    config: str | None = None
    """What this configuration is based on: a file, or a run by name or path; None: ``leadline.toml``."""
    out: str | None = None
    """The runs directory."""
    spool_max: str | None = None
    """The bound of the local copy of a run that is uploaded: ``2GB``."""
    max_disk: str | None = None
    """The bound of the run directory: ``20GB``."""
    report: bool | None = None
    """Whether the run gets a report at its end; None: if it took a minute."""
    preset: str | None = None
    """light, standard, full, sagemaker, or one of ``presets``."""
    interval_ms: int | None = None
    """Sampling interval of the system metrics."""
    budget: str | None = None
    """Overhead budget as a share of the step time: ``2%``, or ``off``; None: that of the preset."""
    default_rules: bool | None = None
    """Whether the preset's default rules are evaluated."""
    no_rules: tuple[str, ...] = ()
    """Rules to leave out."""
    capture: tuple[CaptureItem, ...] = ()
    rules: tuple[RuleSpec, ...] = ()
    """An empty alias stands for the name of the rule; if two rules share an alias, the last one wins."""
    on: tuple[ActionEntry, ...] = ()
    profile: tuple[str, ...] = ()
    """Profile windows, in the syntax of ``--profile``."""
    metrics: Mapping[str, str] = field(default_factory=dict)
    """Regular expressions with one group, by the name of the metric that they find in printed lines."""
    roles: Mapping[str, str] = field(default_factory=dict)
    """Roles of logged metrics by their names, in addition to those that are known."""
    targets: Mapping[str, str] = field(default_factory=dict)
    """Named targets, used as in ``notify:@team``."""
    presets: Mapping[str, RunConfig] = field(default_factory=dict)
    """User-defined presets; their ``preset`` is the built-in preset that they are based on."""
    source: str = ""
    """Prefix of error messages: the file, or the run; "" for options."""
    trusts_run: bool = False
    """Whether custom rules and actions of a run that ``config`` names are taken wherever it comes from."""
    left_out: tuple[str, ...] = ()
    """What was left out of a file or run that nobody on this machine has named or trusted."""

    @classmethod
    def from_options(
        cls,
        *,
        capture: Iterable[str] = (),
        rules: Iterable[object] = (),
        on: Sequence[object] | Mapping[str, object] = (),
        no_rules: Iterable[str] = (),
        profile: Iterable[str] = (),
        **settings: Any,
    ) -> RunConfig:
        """Create a configuration from command-line options or keyword arguments.

        Args:
            rules: Texts of ``--rule``, or instances of rules.
            on: Texts of ``--on``, instances of actions, or one or several of both by ``RULE[@status]``.
            settings: All other fields.
        Raises:
            ConfigurationError: An option is malformed, or another process cannot import the class of an instance.
        """
        folder = os.getcwd()
        return cls(
            capture=tuple(map(parse_capture, capture)),
            rules=tuple(
                parse_rule(rule, folder) if isinstance(rule, str) else rule_spec(rule, folder) for rule in rules
            ),
            on=tuple(action_entries(on, folder)),
            no_rules=tuple(no_rules),
            profile=tuple(profile),
            **settings,
        )

    @property
    def base(self) -> str:
        """The built-in preset that the preset is based on."""
        preset = self.preset or "standard"
        return self.presets[preset].base if preset in self.presets else preset

    def overridden_by(self, other: RunConfig) -> RunConfig:
        """Return this configuration with the settings of another one; captures, rules and actions are added."""
        given: dict[str, Any] = {key: getattr(other, key) for key in _FIELDS}
        given |= {key: (*getattr(self, key), *given[key]) for key in ("no_rules", "capture", "rules", "on")}
        return replace(self, **{key: value for key, value in given.items() if value not in (None, (), {}, "")})

    def with_preset(self, preset: str) -> RunConfig:
        """Return this configuration with a preset chosen; the keys of a user-defined preset take precedence."""
        custom = self.presets.get(preset)
        if custom is None:
            return replace(self, preset=preset, presets={})
        replaced = {(item.collection, item.custom) for item in custom.capture}
        kept = tuple(item for item in self.capture if (item.collection, item.custom) not in replaced)
        presets = {preset: RunConfig(preset=custom.base)}
        return replace(replace(self, capture=kept).overridden_by(custom), preset=preset, presets=presets)

    def to_table(self) -> JsonObject:
        """Return the configuration as in ``leadline.toml``."""
        table: JsonObject = {
            "preset": self.preset,
            "out": self.out,
            "interval_ms": self.interval_ms,
            "budget": self.budget,
            "max_disk": self.max_disk,
            "report": self.report,
            "default_rules": self.default_rules,
            "no_rules": list(self.no_rules),
            "profile": list(self.profile),
            "capture": _grouped(map(capture_table, self.capture)),
            "rules": dict(map(_rule_table, self.rules)),
            "on": _grouped((entry.trigger, _action_table(entry)) for entry in self.on),
            "metrics": dict(self.metrics),
            "roles": dict(self.roles),
            "targets": dict(self.targets),
            "presets": {name: {"base": preset.base} for name, preset in self.presets.items()},
        }
        return {key: value for key, value in table.items() if value not in (None, {}, [])}

    def to_options(self) -> list[str]:
        """Return the configuration as options of ``leadline run``, without those that are defaults."""
        arguments: list[str] = []
        budget = None if self.budget == default_budget(self.base) else self.budget
        for name, value in {"preset": self.preset, "interval_ms": self.interval_ms, "budget": budget}.items():
            arguments += (
                [f"--{name.replace('_', '-')}", str(value)] if value not in (None, getattr(DEFAULTS, name)) else []
            )
        arguments += [part for item in self.capture for part in ("--capture", format_spec(*capture_table(item)))]
        for rule in self.rules:
            alias = f"{rule.alias}=" if rule.alias not in ("", rule.rule) else ""
            arguments += ["--rule", alias + format_spec(rule.rule, rule.parameters)]
        arguments += [part for entry in self.on for part in ("--on", f"{entry.trigger}={_format_action(entry)}")]
        arguments += [part for rule in self.no_rules for part in ("--no-rule", rule)]
        arguments += [] if self.report is None else ["--report" if self.report else "--no-report"]
        return [*arguments, "--no-default-rules"] if self.default_rules is False else arguments


_FIELDS: Final = tuple(field.name for field in fields(RunConfig))
DEFAULTS: Final = RunConfig(preset="standard", interval_ms=500, default_rules=True)


def _grouped(entries: Iterable[tuple[str, Any]]) -> dict[str, list[Any]]:
    groups: dict[str, list[Any]] = {}
    for key, value in entries:
        groups.setdefault(key, []).append(value)
    return groups


def _rule_table(spec: RuleSpec) -> tuple[str, JsonObject]:
    return spec.alias or spec.rule, {"rule": _absolute(spec.rule, spec.folder), **spec.parameters}


def _action_table(entry: ActionEntry) -> str | JsonObject:
    name = _absolute(entry.action, entry.folder)
    if isinstance(entry.arguments, str):
        return f"{name}:{entry.arguments}"
    return {"action": name, **(entry.arguments or {})}


def _format_action(entry: ActionEntry) -> str:
    if isinstance(entry.arguments, str):
        return f"{entry.action}:{entry.arguments}"
    return format_spec(entry.action, entry.arguments or {})


def _absolute(name: str, folder: str) -> str:
    """Return a class in a file with the absolute path of the file; any other name unchanged."""
    file, colon, kind = name.rpartition(":")
    return f"{os.path.abspath(os.path.join(folder, file))}:{kind}" if colon and file.endswith(".py") else name


def runs_root(out: str | None, *, can_be_remote: bool = False) -> str:
    """Return the runs directory, which may be the URI of an object store.

    Raises:
        ConfigurationError: It is a URI that cannot be used here.
    """
    root = parse_place(out or os.environ.get("LEADLINE_ROOT") or _DEFAULT_ROOT)
    if is_uri(root) and not can_be_remote:
        raise ConfigurationError(f"{root}: only leadline run writes to an object store; give a local folder here")
    return root


def spool_root() -> str:
    """Return the local runs directory of runs that are uploaded: ``$LEADLINE_SPOOL``, or ``./leadline-runs``."""
    return os.path.abspath(os.path.expanduser(os.environ.get("LEADLINE_SPOOL") or _DEFAULT_ROOT))


def check_preset(preset: str, where: str, custom: Iterable[str] = ()) -> None:
    """Raise an error for an unknown preset.

    Args:
        custom: The names of the presets of the configuration file.
    """
    known = (*PRESETS, *custom)
    if preset not in known:
        nearest = closest(preset, known)
        hint = f"did you mean {nearest!r}?" if nearest else f"known: {', '.join(known)}"
        raise ConfigurationError(f"{where}: no preset named {preset!r}; {hint}")


def check_interval(interval_ms: int, where: str) -> None:
    """Raise an error for an interval that the monitor does not support.

    Args:
        where: The name of the setting, for the error.
    """
    if interval_ms not in INTERVALS_MS:
        known = ", ".join(map(str, INTERVALS_MS))
        raise ConfigurationError(f"{where} must be one of {known}, not {interval_ms}")


def default_budget(preset: str | None) -> str:
    """Return the overhead budget of a built-in preset, as it is written."""
    return LIGHT_BUDGET if preset == "light" else DEFAULT_BUDGET


def parse_budget(text: str, where: str) -> float | None:
    """Parse a budget as a share of the step time.

    Units:
        A ratio: ``2%`` gives 0.02; ``off`` gives None.
    Raises:
        ConfigurationError: It is neither a percentage above 0 and at most 100, nor ``off``.
    """
    if text == "off":
        return None
    number, percent, rest = text.partition("%")
    try:
        share = float(number) / 100
    except ValueError:
        share = -1.0
    if not percent or rest or not 0 < share <= 1:
        hint = f"; did you mean {text}%?" if not percent and 0 < share <= 1 else ""
        raise ConfigurationError(f"{where} must be a percentage of the step time like 2%, or off, not {text!r}{hint}")
    return share


def parse_size(text: str, where: str) -> int:
    """Parse a number of bytes in decimal units: ``2GB``, ``500 MB``.

    Raises:
        ConfigurationError: It is none above 0.
    """
    match = re.fullmatch(r"(\d+(?:\.\d+)?) ?([kMGT])B", text.strip())
    nbytes = int(float(match[1]) * 1000 ** (1 + "kMGT".index(match[2]))) if match else 0
    if nbytes <= 0:
        raise ConfigurationError(f"{where} must be a size like 2GB or 500MB, not {text!r}")
    return nbytes


def rule_spec(rule: Any, folder: str) -> RuleSpec:
    """Return the specification of an instance of a rule.

    Raises:
        ConfigurationError: It is none, or another process cannot import its class.
    """
    if not hasattr(type(rule), "__struct_fields__") or not hasattr(rule, "evaluate"):
        raise ConfigurationError(f"{rule!r} is not a rule: pass a name, or an instance of leadline.rules.Rule")
    return RuleSpec("", _class_path(rule), _parameters(rule), folder, "option")


def action_entries(on: Sequence[object] | Mapping[str, object], folder: str) -> Iterator[ActionEntry]:
    """Yield the actions of ``watch(on=…)``.

    Args:
        on: Texts, instances of actions (which then apply to every rule), or one or several of both by
            ``RULE[@status]``.
        folder: Base of relative files in texts.
    Raises:
        ConfigurationError: An item is neither, or another process cannot import its class.
    """
    if isinstance(on, str):
        yield parse_action(on, folder)
    elif isinstance(on, Mapping):
        for trigger, given in on.items():
            for action in given if isinstance(given, (list, tuple)) else (given,):
                yield _action_entry(str(trigger), action, folder)
    else:
        for item in on:
            yield from action_entries(item if isinstance(item, (str, Mapping)) else {"*": item}, folder)


def _action_entry(trigger: str, action: Any, folder: str) -> ActionEntry:
    if isinstance(action, str):
        return parse_action(f"{trigger}={action}", folder)
    if not isinstance(action, Mapping):
        if not hasattr(type(action), "__struct_fields__") or not hasattr(action, "describe"):
            raise ConfigurationError(
                f"{action!r} is not an action: pass a text, or an instance of leadline.actions.Action"
            )
        action = {**_parameters(action), "action": _class_path(action)}
    return parse_triggered_action(trigger, action, folder, "option", f"on={trigger}")


def _parameters(instance: Any) -> JsonObject:
    """Return the parameters that are not defaults."""
    kind = type(instance)
    values = {name: getattr(instance, name) for name in kind.__struct_fields__}
    given = {name: value for name, value in values.items() if value != _default(kind, name)}
    try:
        json.dumps(given)
    except TypeError as error:
        raise ConfigurationError(f"{kind.__name__}: a parameter cannot be passed to another process: {error}") from None
    return given


def _default(kind: type, name: str) -> Any:
    fields: tuple[str, ...] = kind.__struct_fields__  # type: ignore[attr-defined]
    defaults: tuple[Any, ...] = kind.__struct_defaults__  # type: ignore[attr-defined]
    position = fields.index(name) - (len(fields) - len(defaults))
    return defaults[position] if position >= 0 else object()


def _class_path(instance: Any) -> str:
    """Return the path by which the judge finds the class: a built-in name, a module, or a file."""
    module, name = type(instance).__module__, type(instance).__qualname__
    if module.startswith(_BUILT_IN):
        return display_name(type(instance))
    file = getattr(sys.modules.get(module), "__file__", None)
    if module == "__main__" or file is None or "." in name:
        raise ConfigurationError(
            f"{name} is defined in {'the script itself' if module == '__main__' else 'no file'}, which the judge "
            "cannot import without running it; move the class to the top level of a separate file and import it"
        )
    return f"{module}:{name}" if "." in module else f"{os.path.abspath(file)}:{name}"
