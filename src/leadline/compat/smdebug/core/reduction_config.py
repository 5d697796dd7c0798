"""Which reductions of a tensor a hook saves, in smdebug's interface."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from typing import Any, Final

from leadline.compat.smdebug.exceptions import SMDebugTypeError, SMDebugValueError
from leadline.errors import LeadlineError
from leadline.statistics.definitions import BASIC, find_statistic

ALLOWED_REDUCTIONS: Final = ("min", "max", "mean", "std", "variance", "sum", "prod")
ALLOWED_NORMS: Final = ("l1", "l2")
_NORM_NAMES: Final = {"l1_norm": "l1", "l2_norm": "l2"}
_FIELDS: Final = ("reductions", "abs_reductions", "norms", "abs_norms", "save_raw_tensor", "save_shape")
_OF_ROW: Final = "nonfinite_count"
"""The statistic of a tensor of which only the shape is saved: a row of statistics has it."""


class ReductionConfig:
    """What is saved of a tensor.

    Norms are entrywise.

    Args:
        reductions, abs_reductions: Reductions of the tensor, and of its absolute values: ``min``, ``max``, ``mean``,
            ``std``, ``variance``, ``sum`` and ``prod``.
        norms, abs_norms: ``l1`` and ``l2``.
        save_raw_tensor: Whether the tensor itself is saved too.
        save_shape: Whether its shape is saved; it always is.
    Raises:
        SMDebugValueError: There is no such reduction or norm.
    """

    def __init__(
        self,
        reductions: Iterable[str] | None = None,
        abs_reductions: Iterable[str] | None = None,
        norms: Iterable[str] | None = None,
        abs_norms: Iterable[str] | None = None,
        save_raw_tensor: bool = False,
        save_shape: bool = False,
    ) -> None:
        self.reductions = _names(reductions, ALLOWED_REDUCTIONS, "reduction")
        self.abs_reductions = _names(abs_reductions, ALLOWED_REDUCTIONS, "reduction")
        self.norms = _names(norms, ALLOWED_NORMS, "norm")
        self.abs_norms = _names(abs_norms, ALLOWED_NORMS, "norm")
        self.save_raw_tensor, self.save_shape = bool(save_raw_tensor), bool(save_shape)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, ReductionConfig):
            return NotImplemented
        return all(getattr(self, field) == getattr(other, field) for field in _FIELDS)

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        return f"ReductionConfig({', '.join(f'{field}={getattr(self, field)!r}' for field in _FIELDS)})"

    @property
    def statistics(self) -> tuple[str, ...]:
        """The statistics of the capture plan; without reductions those that most rules read."""
        wanted = dict.fromkeys([*self._names(), *self.norms, *self.abs_norms])
        found = tuple(name for name in wanted if _is_statistic(name))
        return found or (BASIC if self.is_raw else (_OF_ROW,))

    @property
    def is_raw(self) -> bool:
        """Whether the tensor itself is captured; reductions that are no statistics are computed from it."""
        return self.save_raw_tensor or not all(map(_is_statistic, self._names()))

    def _names(self) -> list[str]:
        return [*self.reductions, *(f"abs_{name}" for name in self.abs_reductions)]

    def to_json_dict(self) -> dict[str, bool | str]:
        """Return it as in a configuration file."""
        norms = [f"{name}_norm" for name in self.norms] + [f"abs_{name}_norm" for name in self.abs_norms]
        return {
            "save_raw_tensor": self.save_raw_tensor,
            "reductions": ",".join([*self._names(), *norms]),
            "save_shape": self.save_shape,
        }

    def to_json(self) -> str:
        """Return it as in a configuration file, as JSON."""
        return json.dumps(self.to_json_dict())

    @classmethod
    def from_json(cls, json_str: str) -> ReductionConfig:
        """Create it from the text that ``to_json`` returns."""
        return cls.from_dict(json.loads(json_str))

    @classmethod
    def from_dict(cls, params: Mapping[str, Any]) -> ReductionConfig:
        """Create it from the form of a configuration file, or from its arguments by name.

        The text ``reductions`` mixes all kinds, as in ``"mean,abs_max,l2_norm"``.
        """
        unknown = set(params) - set(_FIELDS)
        if unknown:
            raise SMDebugValueError(f"no such settings of ReductionConfig: {', '.join(sorted(unknown))}")
        given = dict(params)
        if isinstance(given.get("reductions"), str):
            given |= _parse(given["reductions"])
        return cls(**given)

    @classmethod
    def parse(cls, given: ReductionConfig | Mapping[str, Any]) -> ReductionConfig:
        """Return what a script gave as ``reduction_config``.

        Raises:
            SMDebugTypeError, SMDebugValueError: It is none.
        """
        if isinstance(given, ReductionConfig):
            return given
        if isinstance(given, Mapping):
            return cls.from_dict(given)
        raise SMDebugTypeError(f"reduction_config must be a ReductionConfig, not {type(given).__name__}")


def _parse(text: str) -> dict[str, list[str]]:
    """Return the arguments that a list of names of all kinds stands for."""
    found: dict[str, list[str]] = {"reductions": [], "abs_reductions": [], "norms": [], "abs_norms": []}
    for name in (part.strip() for part in text.split(",") if part.strip()):
        prefix, plain = ("abs_", name[4:]) if name.startswith("abs_") else ("", name)
        norm = _NORM_NAMES.get(plain, plain)
        kind = "norms" if norm in ALLOWED_NORMS else "reductions"
        found[prefix + kind].append(norm)
    return found


def _names(given: Iterable[str] | None, allowed: tuple[str, ...], kind: str) -> list[str]:
    names = [given] if isinstance(given, str) else list(given or ())
    for name in names:
        if name not in allowed:
            raise SMDebugValueError(f"no {kind} {name!r}; there are {', '.join(allowed)}")
    return names


def _is_statistic(name: str) -> bool:
    try:
        find_statistic(name)
    except LeadlineError:
        return False
    return True
