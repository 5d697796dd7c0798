"""Embeddings of Transformers that got rows for new tokens."""

from __future__ import annotations

import weakref
from collections.abc import Callable
from types import ModuleType
from typing import Any, Final

import torch

from leadline.frameworks.import_watch import ImportWatch
from leadline.frameworks.patches import Patches
from leadline.instrumentation.guard import Fact, Guard

_MODULE: Final = "transformers.modeling_utils"
_FIRST_NEW_ROWS: Final[weakref.WeakKeyDictionary[Any, int]] = weakref.WeakKeyDictionary()


def first_new_row(embedding: torch.nn.Module) -> int | None:
    """Return from which row on an embedding was enlarged in this process; None: it was not."""
    return _FIRST_NEW_ROWS.get(embedding)


class ResizedEmbeddings:
    """Notes where models of Transformers enlarge their embeddings, as scripts do for tokens that they add."""

    def __init__(self, guard: Guard, fact: Fact) -> None:
        self._guard, self._fact = guard, fact
        self._patches = Patches()
        self._imports = ImportWatch([_MODULE], guard.wrap(self._on_import))

    def install(self) -> None:
        """Wait for the module of the models."""
        self._imports.install()

    def uninstall(self) -> None:
        """Restore what was replaced."""
        self._imports.uninstall()
        self._patches.restore()

    def _on_import(self, name: str, module: ModuleType) -> None:
        self._patches.replace(module.PreTrainedModel, "resize_token_embeddings", self._make_resize, is_optional=True)

    def _make_resize(self, original: Callable[..., Any]) -> Callable[..., Any]:
        guard, fact = self._guard, self._fact

        def resize_token_embeddings(model: Any, *args: Any, **kwargs: Any) -> Any:
            first = guard.run(fact.call, _first_row_to_add, model)
            result = original(model, *args, **kwargs)
            guard.run(fact.call, _note, model, first)
            return result

        return resize_token_embeddings


def _first_row_to_add(model: Any) -> int | None:
    """Return how many rows an embedding had before it was enlarged for the first time; None: it is of another kind."""
    embedding = model.get_input_embeddings()
    return _FIRST_NEW_ROWS.get(embedding, _rows_of(embedding)) if isinstance(embedding, torch.nn.Module) else None


def _note(model: Any, first: int | None) -> None:
    embedding = model.get_input_embeddings()
    rows = _rows_of(embedding)
    if first is not None and rows is not None and rows > first:
        _FIRST_NEW_ROWS[embedding] = first


def _rows_of(embedding: Any) -> int | None:
    weight = getattr(embedding, "weight", None)
    return len(weight) if isinstance(weight, torch.Tensor) and weight.dim() else None
