"""Collections, in smdebug's interface: of hooks, which select what is saved, and of trials."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Self

from leadline.compat.smdebug.core.reduction_config import ReductionConfig
from leadline.compat.smdebug.core.save_config import SaveConfig
from leadline.compat.smdebug.exceptions import SMDebugValueError
from leadline.formats.smdebug_json import CollectionEntry
from leadline.records.patterns import pattern_error


class CollectionKeys:
    """The names of the collections that frameworks have."""

    DEFAULT = "default"
    ALL = "all"
    INPUTS = "inputs"
    OUTPUTS = "outputs"
    WEIGHTS = "weights"
    GRADIENTS = "gradients"
    LOSSES = "losses"
    BIASES = "biases"
    LAYERS = "layers"
    SM_METRICS = "sm_metrics"
    OPTIMIZER_VARIABLES = "optimizer_variables"
    TENSORFLOW_SUMMARIES = "tensorflow_summaries"
    METRICS = "metrics"
    HYPERPARAMETERS = "hyperparameters"
    PREDICTIONS = "predictions"
    LABELS = "labels"
    FEATURE_IMPORTANCE = "feature_importance"
    AVERAGE_SHAP = "average_shap"
    FULL_SHAP = "full_shap"
    TREES = "trees"


def check_pattern(pattern: str) -> None:
    """Reject an invalid regular expression.

    Raises:
        SMDebugValueError: The pattern is invalid.
    """
    error = pattern_error(pattern)
    if error is not None:
        raise SMDebugValueError(f"{pattern!r} is not a valid regular expression: {error}")


def patterns_of(name: str, *, inputs: bool, outputs: bool, begin: str = "^") -> list[str]:
    """Return the regular expressions of the inputs or outputs of a module, block or layer; none without either.

    Args:
        begin: What must come before the name.
    """
    sides = "|".join(["input"] * inputs + ["output"] * outputs)
    return [rf"{begin}{re.escape(name)}_(?:{sides})_\d+$"] if sides else []


@dataclass(eq=False)
class Collection:
    """A named group of tensors: names, and regular expressions that a name must contain (``re.search``)."""

    name: str
    include_regex: list[str] = field(default_factory=list)
    tensor_names: set[str] = field(default_factory=set)
    reduction_config: Any = None
    """What is saved of its tensors: a ``ReductionConfig``; of a trial, the entry of the collections file."""
    save_config: Any = None
    """When they are saved: a ``SaveConfig``; of a trial, the entry of the collections file, by the name of the mode."""
    save_histogram: bool = True

    def __post_init__(self) -> None:
        self.include_regex = list(self.include_regex or ())
        self.tensor_names = set(self.tensor_names or ())

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Collection):
            return NotImplemented
        return self.to_json_dict() == other.to_json_dict()

    __hash__ = object.__hash__

    def include(self, t: str | list[str]) -> None:
        """Add regular expressions."""
        self.include_regex += [t] if isinstance(t, str) else t

    def add_tensor_name(self, tname: str) -> None:
        """Add a tensor."""
        self.tensor_names.add(tname)

    def remove_tensor_name(self, tname: str) -> None:
        """Remove a tensor; nothing if it is no member."""
        self.tensor_names.discard(tname)

    def has_tensor_name(self, tname: str) -> bool:
        """Return whether a tensor is named as a member."""
        return tname in self.tensor_names

    def matches(self, name: str) -> bool:
        """Return whether a tensor is a member, by its name or by a regular expression."""
        return name in self.tensor_names or any(re.search(pattern, name) for pattern in self.include_regex)

    def patterns(self) -> list[str]:
        """Return the regular expressions of its members, those named included."""
        return [*self.include_regex, *(f"^{re.escape(name)}$" for name in sorted(self.tensor_names))]

    def to_json_dict(self) -> CollectionEntry:
        """Return it as in a collections file."""
        reductions, steps = self.reduction_config, self.save_config
        return {
            "name": self.name,
            "include_regex": list(self.include_regex),
            "tensor_names": sorted(self.tensor_names),
            "reduction_config": reductions.to_json_dict() if hasattr(reductions, "to_json_dict") else reductions,
            "save_config": steps.to_json_dict() if hasattr(steps, "to_json_dict") else steps,
            "save_histogram": self.save_histogram,
        }

    def to_json(self) -> str:
        """Return it as in a collections file, as JSON."""
        return json.dumps(self.to_json_dict())

    @classmethod
    def from_dict(cls, params: Mapping[str, Any]) -> Self:
        """Create it from an entry of a collections file."""
        reductions, steps = params.get("reduction_config"), params.get("save_config")
        return cls(
            str(params["name"]),
            list(params.get("include_regex") or ()),
            set(params.get("tensor_names") or ()),
            ReductionConfig.parse(reductions) if reductions else None,
            SaveConfig.parse(steps) if steps else None,
            bool(params.get("save_histogram", True)),
        )

    @classmethod
    def from_json(cls, json_str: str) -> Self:
        """Create it from the text that ``to_json`` returns."""
        return cls.from_dict(json.loads(json_str))
