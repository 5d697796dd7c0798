"""States that models were loaded from without being strict, and of which nothing, or next to nothing, fits."""

from __future__ import annotations

import weakref
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Final

import torch
from torch.nn.parameter import is_lazy

from leadline.frameworks.torch.naming.model_names import unwrap
from leadline.instrumentation.guard import Fact
from leadline.records.names import FITTING_ENTRIES, UNFIT_STATE

_WITHOUT, _BEHIND, _WITHIN = FITTING_ENTRIES
_MAX_MODELS: Final = 16
_Shapes = Mapping[str, torch.Size]


class UnfitStates:
    """Counts the entries of a state that a module has, where ``Module.load_state_dict`` skips the others.

    A state is unfit if it has entries and no parameter was loaded from them; or if most of them were left out, and one
    prefix in their names is the only difference between all of these and what the module was not given. A later state
    that does load a parameter of the module withdraws it; after an earlier one a prefix has to explain all, as of the
    files of a model in parts some may be of another one.
    """

    def __init__(self, fact: Fact) -> None:
        self.fact = fact
        self._unfit: weakref.WeakKeyDictionary[torch.nn.Module, dict[str, float]] = weakref.WeakKeyDictionary()
        """The checks of such modules."""
        self._loaded: weakref.WeakSet[torch.nn.Module] = weakref.WeakSet()
        """Modules of which parameters were loaded."""

    def note(self, module: torch.nn.Module, state: object, result: Any) -> None:
        """Note that a module was loaded from a state.

        Args:
            result: What ``load_state_dict`` returned.
        """
        unexpected, missing = set(result.unexpected_keys), set(result.missing_keys)
        if not unexpected and not self._unfit:
            self._loaded.add(module)
            return
        own = dict(module.named_parameters(remove_duplicate=False))
        loaded = {id(parameter) for name, parameter in own.items() if name not in missing}
        for other in [other for other in self._unfit if any(id(one) in loaded for one in other.parameters())]:
            del self._unfit[other]
        if not unexpected or not own or not isinstance(state, Mapping) or len(self._unfit) >= _MAX_MODELS:
            return
        if module not in self._unfit:
            hint = next(iter(Counter(dict(_hints(module, state, unexpected, missing))).most_common(1)), None)
            fitting, given = (hint[1] if hint else 0), len(state)
            explains_all = fitting >= len(unexpected)
            is_unfit = explains_all if loaded or module in self._loaded else len(unexpected) == given
            if is_unfit and 2 * len(unexpected) > given:
                counts = dict(zip(UNFIT_STATE, (given, given - len(unexpected)), strict=True))
                counts |= {hint[0]: fitting} if hint and 2 * fitting >= len(unexpected) else {}
                self._unfit[module] = {check: float(count) for check, count in counts.items()}
        if loaded:
            self._loaded.add(module)

    def results(self, trained: Iterable[torch.nn.Module]) -> dict[str, float]:
        """Return the checks of such modules that are trained, or part of what is; empty: there is none.

        Args:
            trained: The outermost modules of trained models.
        """
        return self.of(parameter for root in trained for parameter in root.parameters()) if self._unfit else {}

    def of(self, tensors: Iterable[torch.Tensor]) -> dict[str, float]:
        """Return the checks of such modules that have one of these parameters."""
        parameters = set(map(id, tensors))
        return {
            f"{type(unwrap(module)).__name__}/{check}": count
            for module, checks in self._unfit.items()
            if any(id(parameter) in parameters for parameter in module.parameters())
            for check, count in checks.items()
        }


def _hints(
    module: torch.nn.Module, state: Mapping[str, Any], unexpected: set[str], missing: set[str]
) -> Iterator[tuple[str, int]]:
    """Yield what would make entries fit, as a check, and how many of them."""
    parameters = [named for named in module.named_parameters(remove_duplicate=False) if named[0] in missing]
    buffers = [named for named in module.named_buffers(remove_duplicate=False) if named[0] not in state]
    wanted = {name: tensor.shape for name, tensor in (*parameters, *buffers) if not is_lazy(tensor)}
    left_out = _shapes({name: state[name] for name in unexpected if name in state})
    for check, longer, shorter in ((_WITHOUT, left_out, wanted), (_BEHIND, wanted, left_out)):
        for prefix, count in _prefixes(longer, shorter).items():
            yield f"{prefix}/{check}", count
    for name in unexpected:
        entry = state.get(name)
        if isinstance(entry, Mapping):
            inner = _shapes(entry)
            yield f"{name}/{_WITHIN}", sum(wanted.get(key) == shape for key, shape in inner.items())


def _shapes(state: Mapping[Any, Any]) -> _Shapes:
    return {str(name): value.shape for name, value in state.items() if isinstance(value, torch.Tensor)}


def _prefixes(longer: _Shapes, shorter: _Shapes) -> Counter[str]:
    """Count, by prefix, the names that are others of the same shape behind it."""
    found: Counter[str] = Counter()
    for name, shape in longer.items():
        places = [place for place, character in enumerate(name) if character == "."]
        found.update(name[: place + 1] for place in places if shorter.get(name[place + 1 :]) == shape)
    return found
