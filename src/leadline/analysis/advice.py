"""Advice in the terms of the framework that trains."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from string import Formatter
from typing import Any, Final

from leadline.analysis.advice_terms import DEFAULT, TERMS
from leadline.errors import UnknownNameError
from leadline.records.documents import WorkerDocument
from leadline.store import layout
from leadline.store.documents import read_document
from leadline.store.folder_watch import names_in

FRAMEWORKS: Final = ("torch", "keras", "tensorflow", "jax", "mxnet", "xgboost", "lightgbm")
"""The columns of the table of terms."""
PYTORCH: Final = ("torch",)
_FALLBACKS: Final = {"tensorflow": ("keras",)}
"""A framework whose terms are used where one has no term of its own."""


class Advice(str):
    """What to try first, then the usual cause.

    As a text it is in PyTorch's terms; ``in_terms_of`` returns it in those of other frameworks::

        CLIP = Advice("clip gradients ({clip_norm_to} {limit}); usually the rate is too high", "limit")
        CLIP.given(limit="1.0").in_terms_of(("keras",))

    Args:
        template: The text, with terms of ``advice_terms.TERMS`` and the names of values in braces.
        values: The names of the values that ``given`` sets.
    Raises:
        UnknownNameError: The template has a name that is neither a term nor a value.
    """

    template: str
    _values: Mapping[str, str]

    def __new__(cls, template: str, *values: str) -> Advice:
        for name in _fields(template):
            if name not in TERMS and name not in values:
                raise UnknownNameError("term of advice", name, TERMS)
        return cls._rendered(template, {value: f"{{{value}}}" for value in values})

    @classmethod
    def _rendered(cls, template: str, values: Mapping[str, str]) -> Advice:
        advice = super().__new__(cls, _render(template, values, PYTORCH))
        advice.template, advice._values = template, values
        return advice

    def given(self, **values: object) -> Advice:
        """Return the advice with values.

        Raises:
            UnknownNameError: The template has no value of this name.
        """
        for name in values.keys() - self._values.keys():
            raise UnknownNameError("value of advice", name, self._values)
        return self._rendered(self.template, {**self._values, **{name: str(value) for name, value in values.items()}})

    def in_terms_of(self, frameworks: Sequence[str]) -> str:
        """Return the text in the terms of the first framework that has its own, or else in words that fit every one.

        Args:
            frameworks: As ``frameworks_of`` returns them.
        """
        return _render(self.template, self._values, frameworks)

    def __reduce__(self) -> tuple[Any, ...]:
        return self._rendered, (self.template, dict(self._values))


def _render(template: str, values: Mapping[str, str], frameworks: Sequence[str]) -> str:
    return template.format(
        **{name: values[name] if name in values else _term(name, frameworks) for name in _fields(template)}
    )


def _fields(template: str) -> set[str]:
    return {name for _, name, _, _ in Formatter().parse(template) if name is not None}


def _term(name: str, frameworks: Sequence[str]) -> str:
    columns = TERMS[name]
    return next((columns[framework] for framework in frameworks if framework in columns), columns[DEFAULT])


def in_terms_of(value: Any, frameworks: Sequence[str]) -> Any:
    """Return a JSON value, in which each advice is the text in the terms of the frameworks."""
    match value:
        case Advice():
            return value.in_terms_of(frameworks)
        case dict():
            return {key: in_terms_of(item, frameworks) for key, item in value.items()}
        case list() | tuple():
            return [in_terms_of(item, frameworks) for item in value]
        case _:
            return value


def frameworks_of(label: str) -> tuple[str, ...]:
    """Return the frameworks whose terms a script uses, its own first; empty: another one.

    Args:
        label: As a worker document has it, ``tensorflow 2.21.0 (Keras 3.15.1)``; empty: taken for PyTorch.
    """
    label = label.lower()
    if not label:
        return PYTORCH
    if "keras" in label:
        return "keras", next((name for name in ("tensorflow", "jax") if name in label), "torch")
    return next(((name, *_FALLBACKS.get(name, ())) for name in FRAMEWORKS if label.startswith(name)), ())


def frameworks_of_run(run: str) -> tuple[str, ...]:
    """Return the frameworks that the first worker of a run uses."""
    return frameworks_of(label_of_run(run))


def label_of_run(run: str) -> str:
    """Return the label of the frameworks that the first worker of a run uses, ``torch 2.13.0``; empty: not known."""
    names = names_in(os.path.join(run, layout.WORKERS))
    first = next((name for name in sorted(names) if name.endswith(".json")), None)
    if first is None:
        return ""
    return WorkerDocument.from_dict(read_document(os.path.join(run, layout.WORKERS, first)) or {}).framework
