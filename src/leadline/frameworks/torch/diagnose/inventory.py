"""Inventory of a training for ``leadline doctor``: models, optimizers, kinds of modules, and what is not captured."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Final

import torch

from leadline.frameworks.kit.inventory import HeldParameter, model_entry, optimizer_entry
from leadline.frameworks.torch.naming.model_names import (
    find_roots,
    live_modules,
    live_optimizers,
    parameters_of,
    unwrap,
)
from leadline.instrumentation.live_objects import live_instances
from leadline.records.doctor_report import Inventory, ModelEntry, OptimizerEntry


def inventory(optimizers: Sequence[torch.optim.Optimizer]) -> Inventory:
    """Describe the optimizers that stepped and the models that they update, as plain values.

    Returns:
        ``models`` and ``optimizers``, see ``leadline.frameworks.kit.inventory``; ``module_kinds``: every kind of live
        module, including modules outside the models.
    """
    outermost = live_modules()
    roots = {id(root): root for optimizer in optimizers for root in find_roots(parameters_of(optimizer), outermost)}
    kinds = sorted({type(module).__name__.lower() for root in outermost for module in modules_of(root)})
    outermost.clear()
    return {
        "models": [_model(root) for root in roots.values()],
        "optimizers": [_optimizer(optimizer) for optimizer in optimizers],
        "module_kinds": kinds,
    }


def _model(root: torch.nn.Module) -> ModelEntry:
    inner = unwrap(root)
    name = str(getattr(inner, "original_name", type(inner).__name__))  # scripted modules have an original name
    return model_entry(name, map(_held, inner.parameters()), type(root).__name__ if inner is not root else None)


def _optimizer(optimizer: torch.optim.Optimizer) -> OptimizerEntry:
    variables = next((state for state in optimizer.state.values() if isinstance(state, dict)), {})
    held = map(_held, parameters_of(optimizer))
    return optimizer_entry(type(optimizer).__name__, held, map(str, variables), groups=len(optimizer.param_groups))


def _held(parameter: torch.Tensor) -> HeldParameter:
    dtype = str(parameter.dtype).removeprefix("torch.")
    return HeldParameter(parameter.shape, dtype, (str(parameter.device),), parameter.requires_grad)


def modules_of(root: torch.nn.Module) -> list[torch.nn.Module]:
    """Return a module and all its descendants; only the module itself if it is not initialized yet."""
    try:
        return list(root.modules())
    except (AttributeError, RuntimeError):
        return [root]


# --- objects that Leadline does not capture, or only partly, and why -----------------------------------------

_ENGINES: Final = {
    "deepspeed": ("DeepSpeed", "its engine does its own steps and keeps parameters and gradients in its own buffers"),
    "megatron": ("Megatron", "its optimizer works on flat buffers; parameter names and gradients are not visible"),
}
_GRAPHS: Final = "a CUDA graph replays without Python: its steps, losses and activations are not captured"


@dataclass(frozen=True, slots=True)
class CoverageGap:
    """An object of the training that is not captured, or only partly."""

    what: str
    why: str


def find_coverage_gaps(stepped: Sequence[torch.optim.Optimizer]) -> list[CoverageGap]:
    """Scan all live objects for coverage gaps; takes a few tenths of a second.

    Args:
        stepped: The optimizers whose steps were observed.
    """
    modules = [module for root in live_modules() for module in modules_of(root)]
    optimizers = live_optimizers()
    gaps = [
        *_engines([*modules, *optimizers]),
        *_compiled(modules),
        *_scripted(modules),
        *_graphs(modules, optimizers),
        *_flat(optimizers),
        *_replicated(modules),
        *_unseen(optimizers, {id(optimizer) for optimizer in stepped}),
    ]
    return list(dict.fromkeys(gaps))


def _classes(objects: Iterable[object]) -> str:
    return ", ".join(sorted({type(item).__name__ for item in objects}))


def _engines(objects: Iterable[object]) -> list[CoverageGap]:
    packages = {kind.__module__.partition(".")[0] for item in objects for kind in type(item).__mro__}
    return [CoverageGap(*gap) for package, gap in _ENGINES.items() if package in packages]


def _compiled(modules: Iterable[torch.nn.Module]) -> list[CoverageGap]:
    compiled = [
        getattr(module, "_orig_mod", module)
        for module in modules
        if type(module).__name__ == "OptimizedModule" or module.__dict__.get("_compiled_call_impl") is not None
    ]
    why = "losses, gradients and weights are captured; activations are not, because hooks would break the graphs"
    return [CoverageGap(f"torch.compile of {_classes(compiled)}", why)] if compiled else []


def _scripted(modules: Iterable[torch.nn.Module]) -> list[CoverageGap]:
    scripted = [module for module in modules if isinstance(module, torch.jit.ScriptModule)]
    inner = {id(child) for module in scripted for child in module.children()}
    outer = [module for module in scripted if id(module) not in inner]
    names = {str(getattr(module, "original_name", type(module).__name__)) for module in outer}
    why = "its code is compiled: weights and gradients are captured, activations are not"
    return [CoverageGap(f"torch.jit.script of {', '.join(sorted(names))}", why)] if scripted else []


def _graphs(modules: Iterable[torch.nn.Module], optimizers: Iterable[torch.optim.Optimizer]) -> list[CoverageGap]:
    graphed = [
        module for module in modules if getattr(module.__dict__.get("forward"), "__module__", "") == "torch.cuda.graphs"
    ]
    capturable = [
        optimizer for optimizer in optimizers if any(group.get("capturable") for group in optimizer.param_groups)
    ]
    gaps = []
    if graphed:
        gaps.append(CoverageGap(f"torch.cuda.make_graphed_callables of {_classes(graphed)}", _GRAPHS))
    if live_instances(torch.cuda.CUDAGraph):
        gaps.append(CoverageGap("torch.cuda.CUDAGraph", _GRAPHS))
    if capturable:
        why = f"it can be captured in a CUDA graph; if it is, {_GRAPHS}"
        gaps.append(CoverageGap(f"{_classes(capturable)}(capturable=True)", why))
    return gaps


def _flat(optimizers: Iterable[torch.optim.Optimizer]) -> list[CoverageGap]:
    is_flat = any(
        getattr(parameter, "_is_flat_param", False)
        for optimizer in optimizers
        for parameter in parameters_of(optimizer)
    )
    why = "parameters are flattened into flat_param, so their names are lost; use_orig_params=True or FSDP2 keeps them"
    return [CoverageGap("FullyShardedDataParallel (FSDP1)", why)] if is_flat else []


def _replicated(modules: Iterable[torch.nn.Module]) -> list[CoverageGap]:
    is_replicated = any(
        isinstance(module, torch.nn.DataParallel) and len(getattr(module, "device_ids", None) or ()) > 1
        for module in modules
    )
    why = "its replicas run one forward pass in other threads: activations are not captured, everything else is"
    return [CoverageGap("DataParallel", why)] if is_replicated else []


def _unseen(optimizers: Iterable[torch.optim.Optimizer], stepped: set[int]) -> list[CoverageGap]:
    unseen = [optimizer for optimizer in optimizers if id(optimizer) not in stepped]
    return [CoverageGap(type(optimizer).__name__, _unseen_reason(optimizer)) for optimizer in unseen]


def _unseen_reason(optimizer: torch.optim.Optimizer) -> str:
    instance_step: Any = optimizer.__dict__.get("step")
    if instance_step is not None and not getattr(instance_step, "_wrapped_by_lr_sched", False):
        return "its step() was replaced on the instance, so its steps are not observed; subclass it instead"
    if not getattr(type(optimizer).step, "hooked", False):
        return "its class's step() was replaced after it was created, so its steps are not observed"
    return "it exists, but has not stepped so far"


def no_step_gap(backwards: int) -> CoverageGap:
    """Return the coverage gap to report if no optimizer has stepped.

    Args:
        backwards: Number of backward passes observed.
    """
    seen = f"{backwards} backward passes and no optimizer step" if backwards else "no backward pass, no optimizer step"
    why = (
        "steps are calls of torch.optim.Optimizer.step(), or backward passes of a model in training mode; "
        "torch.autograd.grad and torch.func are not observed"
    )
    return CoverageGap(seen, why)
