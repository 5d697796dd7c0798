"""Names of the parameters and modules of models, and the registry in which models are found."""

from __future__ import annotations

import gc
import os
import weakref
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any, Final

import torch
from torch.nn.modules import module as torch_module

from leadline.frameworks.torch.hooks.dynamo import hide_from_dynamo
from leadline.instrumentation.live_objects import live_instances, subclasses
from leadline.records.names import SMDEBUG

# --- names of parameters -------------------------------------------------------------------------------------

_WRAPPERS: Final = {
    "DistributedDataParallel": "module",
    "DataParallel": "module",
    "OptimizedModule": "_orig_mod",
    "AveragedModel": "module",
}
_INFIXES: Final = ("_orig_mod.", "_fsdp_wrapped_module.", "_checkpoint_wrapped_module.")


@dataclass(frozen=True, slots=True)
class NamedParameter:
    """A parameter with its dotted name."""

    name: str
    parameter: torch.Tensor

    @property
    def collections(self) -> tuple[str, ...]:
        return ("biases",) if self.name.endswith("bias") else ("weights",)


_named_with_class: Final[weakref.WeakSet[torch.nn.Module]] = weakref.WeakSet()


def name_parameters_with_class(model: torch.nn.Module) -> None:
    """Prefix the names of a model's parameters with its class from now on, as smdebug does: ``Net_fc.weight``.

    The names of its modules stay as they are.
    """
    _named_with_class.add(model)


class ParameterNames:
    """Names parameters; a second live model with the same parameter names gets its class as prefix."""

    def __init__(
        self, registry: ModuleRegistry, on_trained: Callable[[Iterable[torch.nn.Module]], None] = lambda roots: None
    ) -> None:
        """
        Args:
            on_trained: Called with the models that an optimizer updates, as soon as they are named.
        """
        self._registry = registry
        self._on_trained = on_trained
        self._roots: list[tuple[weakref.ref[torch.nn.Module], str]] = []
        self._frozen_owners: weakref.WeakKeyDictionary[torch.nn.Module, weakref.ref[torch.optim.Optimizer]] = (
            weakref.WeakKeyDictionary()
        )
        """The optimizer with which each model's frozen parameters are named."""

    def name(self, optimizer: torch.optim.Optimizer) -> tuple[str, list[NamedParameter]]:
        """Return the classes of the models that an optimizer updates, and its parameters with names.

        Parameters of these models that no optimizer may change (frozen ones) are included with the first of a model's
        optimizers.
        """
        updated = parameters_of(optimizer)
        roots, outermost = self._find_models(updated)
        self._assign_prefixes(roots, outermost)
        self._on_trained(roots)
        named: dict[int, NamedParameter] = {}
        wanted = {id(parameter) for parameter in updated}
        for root in roots:
            prefix, owns_frozen = self._parameter_prefix(root), self._owns_frozen(optimizer, root)
            for name, parameter in clean_named_parameters(root):
                if id(parameter) in wanted or (owns_frozen and not parameter.requires_grad):
                    named.setdefault(id(parameter), NamedParameter(prefix + name, parameter))
        for index, parameter in enumerate(updated):
            unknown = f"{type(optimizer).__name__}_parameter_{index}"
            named.setdefault(id(parameter), NamedParameter(unknown, parameter))
        classes = " + ".join(type(unwrap(root)).__name__ for root in roots)
        return classes or "a model without modules", list(named.values())

    def models_of(self, parameters: list[torch.Tensor]) -> list[torch.nn.Module]:
        """Return the outermost modules that hold these parameters."""
        return self._find_models(parameters)[0]

    def _find_models(self, parameters: list[torch.Tensor]) -> tuple[list[torch.nn.Module], list[torch.nn.Module]]:
        """Return the outermost modules that hold these parameters, and all outermost modules."""
        outermost = self._registry.outermost()
        roots = find_roots(parameters, outermost)
        held = {id(parameter) for root in roots for parameter in root.parameters()}
        if len(held & {id(parameter) for parameter in parameters}) < len(parameters):
            outermost = live_modules()
            roots = find_roots(parameters, outermost)
            for root in roots:
                self._registry.add(root)
        return roots, outermost

    def _owns_frozen(self, optimizer: torch.optim.Optimizer, root: torch.nn.Module) -> bool:
        reference = self._frozen_owners.get(root)
        owner = reference() if reference is not None else None
        if owner is None:
            owner = optimizer
            self._frozen_owners[root] = weakref.ref(optimizer)
        return owner is optimizer

    def _outermost_including(self, root: torch.nn.Module) -> list[torch.nn.Module]:
        """Return the outermost modules; scan all objects if the model was built before the registry existed."""
        outermost = self._registry.outermost()
        if self._registry.has(root) or next(root.parameters(), None) is None:
            return outermost
        outermost = live_modules()
        for module in outermost:
            self._registry.add(module)
        return outermost

    def _assign_prefixes(self, roots: list[torch.nn.Module], outermost: list[torch.nn.Module]) -> None:
        """Give each new root a prefix if it shares a parameter name with another trained model."""
        self._roots = [(reference, prefix) for reference, prefix in self._roots if reference() is not None]
        named = {id(reference()) for reference, _ in self._roots}
        roots = [root for root in roots if id(root) not in named]
        alike = [weakref.ref(other) for root in roots for other in outermost if _share_names(root, other)]
        outermost.clear()
        trained: list[torch.nn.Module] = []
        if alike:
            optimizers = live_optimizers()  # the model of an earlier fold and its optimizer may be deleted by now
            alive = [other for other in (reference() for reference in alike) if other is not None]
            trained = [root for optimizer in optimizers for root in find_roots(parameters_of(optimizer), alive)]
        for root in roots:
            self._roots.append((weakref.ref(root), self._choose_prefix(root, trained)))

    def _choose_prefix(self, root: torch.nn.Module, trained: list[torch.nn.Module]) -> str:
        if not any(_share_names(root, other) for other in trained):
            return ""
        taken = {prefix for _, prefix in self._roots}
        kind = type(unwrap(root)).__name__
        candidates = [f"{kind}_", *(f"{kind}_{count}_" for count in range(1, len(self._roots) + 2))]
        return next(candidate for candidate in candidates if candidate not in taken)

    def _parameter_prefix(self, root: torch.nn.Module) -> str:
        """Return the prefix of the names of a model's parameters."""
        prefix = self.prefix(root)
        is_registered = root in _named_with_class or unwrap(root) in _named_with_class
        is_with_class = is_registered or bool(os.environ.get(SMDEBUG))
        return prefix or f"{type(unwrap(root)).__name__}_" if is_with_class else prefix

    def prefix(self, root: torch.nn.Module) -> str:
        """Return the prefix of the names of a model's parameters and modules."""
        if not any(reference() is root for reference, _ in self._roots):
            self._assign_prefixes([root], self._outermost_including(root))
        return next(prefix for reference, prefix in self._roots if reference() is root)


def parameters_of(optimizer: torch.optim.Optimizer) -> list[torch.Tensor]:
    """Return all parameters that an optimizer updates, in order."""
    return [parameter for group in optimizer.param_groups for parameter in group["params"]]


def find_roots(parameters: Iterable[torch.Tensor], outermost: Iterable[torch.nn.Module]) -> list[torch.nn.Module]:
    """Return the outermost modules that hold these parameters, the module with most of them first."""
    wanted = {id(parameter) for parameter in parameters}
    held = [(module, _parameters_in(module, wanted)) for module in outermost]
    roots: list[torch.nn.Module] = []
    for module, parameter_ids in sorted(held, key=lambda pair: -len(pair[1])):
        if parameter_ids & wanted:
            roots.append(module)
            wanted -= parameter_ids
    return roots


def _share_names(one: torch.nn.Module, other: torch.nn.Module) -> bool:
    """Whether two models have a parameter of the same name."""
    if one is other:
        return False
    names = {name for name, _ in clean_named_parameters(other)}  # none in loss modules, so that one is not read
    return bool(names) and any(name in names for name, _ in clean_named_parameters(one))


def _parameters_in(module: torch.nn.Module, wanted: set[int]) -> set[int]:
    if "_parameters" not in module.__dict__:
        return set()  # not initialized yet
    return {id(parameter) for parameter in module.parameters()} & wanted


def unwrap(module: torch.nn.Module) -> torch.nn.Module:
    """Return the module inside PyTorch's wrappers."""
    while (name := _WRAPPERS.get(type(module).__name__)) is not None:
        module = module._modules[name]
    return module


def clean_named_parameters(root: torch.nn.Module) -> list[tuple[str, torch.Tensor]]:
    """Return a model's parameters by name, without the infixes that wrappers add."""
    module = unwrap(root)
    named = []
    for name, parameter in module.named_parameters():
        for infix in _INFIXES:
            name = name.replace(infix, "")
        named.append((name, parameter))
    return named


# --- names of modules ----------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class ModelModules:
    """A model with the names of its modules."""

    root: Callable[[], torch.nn.Module | None]
    names: dict[int, str]
    """Dotted name by module id; the root is named after its class."""
    root_name: str
    prefix: str
    """Prefix of all names of the model."""
    is_trained: bool
    """Whether an optimizer updates it, or the user registered it."""


class ModuleNames:
    """Finds and caches the model of each outermost module that is called, through weak references."""

    def __init__(self, names: ParameterNames) -> None:
        self._names = names
        self._trained: list[weakref.ref[torch.nn.Module]] = []
        self._known: dict[int, tuple[weakref.ref[torch.nn.Module], ModelModules]] = {}

    def add_trained(self, roots: Iterable[torch.nn.Module]) -> None:
        """Mark models as trained."""
        self._trained = [reference for reference in self._trained if reference() is not None]
        for root in roots:
            if not any(reference() is root for reference in self._trained):
                self._trained.append(weakref.ref(root))
                self._known.clear()

    def is_evaluating(self) -> bool:
        """Whether a trained model is in eval mode."""
        return any(not unwrap(root).training for root in self._alive())

    def trained(self) -> list[tuple[str, torch.nn.Module]]:
        """Return the trained models, each with the prefix of its modules' names."""
        return [(self._names.prefix(root), unwrap(root)) for root in self._alive()]

    def _alive(self) -> list[torch.nn.Module]:
        return [root for root in (reference() for reference in self._trained) if root is not None]

    def model_of(self, called: torch.nn.Module) -> ModelModules:
        """Return the model that a module belongs to: a trained model if one contains it, else the module itself."""
        known = self._known.get(id(called))
        if known is not None and known[0]() is called:
            return known[1]
        model = next((trained for trained in self._trained_models() if id(called) in trained.names), None)
        model = model or self._make(called, is_trained=False)
        if len(self._known) > 256:
            self._known.clear()
        self._known[id(called)] = (weakref.ref(called), model)
        return model

    def _trained_models(self) -> Iterable[ModelModules]:
        for reference in self._trained:
            root = reference()
            if root is not None:
                yield self._make(root, is_trained=True)

    def _make(self, root: torch.nn.Module, *, is_trained: bool) -> ModelModules:
        inner = unwrap(root)
        prefix = self._names.prefix(root)
        is_of_keras = hasattr(inner, "_flatten_layers")
        root_name = prefix.removesuffix("_") or (inner.name if is_of_keras else type(inner).__name__)
        parts = ((f"{name}.".replace("_orig_mod.", "")[:-1], module) for name, module in inner.named_modules())
        names = {id(module): prefix + name for name, module in parts if name}
        if is_of_keras:
            names |= _layers_of_keras(inner)
        names[id(inner)] = root_name
        names.setdefault(id(root), "")
        return ModelModules(weakref.ref(root), names, root_name, prefix, is_trained)


def _layers_of_keras(model: Any) -> dict[int, str]:
    """Return the paths of the layers of a model of Keras, which are no submodules of it, by id."""
    layers = model._flatten_layers(include_self=False)
    return {id(layer): str(layer.path or f"{model.name}/{layer.name}") for layer in layers}


# --- registry of the modules alive ---------------------------------------------------------------------------


class ModuleRegistry:
    """Records each module that registers a parameter or a submodule, through PyTorch's global registration hooks.

    Modules that were built earlier, unpickled or deep-copied register nothing; ``live_modules`` finds them, and they
    are added then. The records outlive the registry: the next one in the process need not search again.
    """

    _known: Final[dict[int, weakref.ref[torch.nn.Module]]] = {}

    def __init__(self) -> None:
        self._handles: list[Any] = []

    def install(self) -> None:
        """Install the hooks."""
        add = hide_from_dynamo(self._make_add())
        self._handles = [
            torch_module.register_module_parameter_registration_hook(add),
            torch_module.register_module_module_registration_hook(add),
        ]

    def add(self, module: torch.nn.Module) -> None:
        """Add a module that the user registered, or that a search found."""
        self._make_add()(module, "", None)

    def has(self, module: torch.nn.Module) -> bool:
        """Whether a module is recorded; then so are the modules that contain it."""
        reference = self._known.get(id(module))
        return reference is not None and reference() is module

    def _make_add(self) -> Callable[[torch.nn.Module, str, Any], None]:
        known = self._known

        def add(owner: torch.nn.Module, name: str, part: Any) -> None:
            if id(owner) not in known:
                known[id(owner)] = weakref.ref(owner, _RemoveModule(known, id(owner)))

        return add

    def uninstall(self) -> None:
        """Remove the hooks."""
        for handle in self._handles:
            handle.remove()
        self._handles = []

    def outermost(self) -> list[torch.nn.Module]:
        """Return the registered modules that no other module contains."""
        alive = [reference() for reference in list(self._known.values())]
        return _outermost([module for module in alive if module is not None])


class _RemoveModule:
    """Callback that removes a deleted module from a mapping, unless its id has been reused."""

    def __init__(self, mapping: dict[int, Any], key: int) -> None:
        self._mapping, self._key = mapping, key

    def __call__(self, reference: Any) -> None:
        if self._mapping.get(self._key) is reference:
            del self._mapping[self._key]


def live_modules() -> list[torch.nn.Module]:
    """Return the outermost of all modules alive, from a scan of all objects: some 30 ms in a process with torch."""
    return _outermost(live_instances(torch.nn.Module))


def live_optimizers() -> list[torch.optim.Optimizer]:
    """Return all optimizers alive, from a scan of all objects after a garbage collection."""
    gc.collect()
    return [optimizer for optimizer in live_instances(torch.optim.Optimizer) if "param_groups" in optimizer.__dict__]


def optimizer_classes() -> list[type]:
    """Return the class of PyTorch's optimizers and everything derived from it."""
    return list(subclasses(torch.optim.Optimizer).values())


def _outermost(modules: list[torch.nn.Module]) -> list[torch.nn.Module]:
    inner = {id(child) for module in modules for child in module.__dict__.get("_modules", {}).values()}
    return [module for module in modules if id(module) not in inner]
