"""What is alive in a training that Leadline does not reach, or reaches only in part, and why."""

from __future__ import annotations

import gc
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Final

import torch

from leadline.frameworks.torch.diagnose.inventory import modules_of
from leadline.frameworks.torch.naming.module_registry import live_modules, live_optimizers
from leadline.frameworks.torch.naming.parameter_names import parameters_of

_ENGINES: Final = {
    "deepspeed": ("DeepSpeed", "its engine steps by itself and keeps parameters and gradients in buffers of its own"),
    "megatron": ("Megatron", "its optimizer steps on flat buffers; names and gradients of parameters are not seen"),
}
_GRAPHS: Final = "what a graph replays runs without Python: its steps, losses and activations are not seen"


@dataclass(frozen=True, slots=True)
class CoverageGap:
    """Something that was seen and is not watched, or not wholly."""

    what: str
    why: str


def find_coverage_gaps(stepped: Sequence[torch.optim.Optimizer]) -> list[CoverageGap]:
    """Look through all that is alive; takes some tenths of a second.

    Args:
        stepped: The optimizers whose steps were seen.
    """
    modules = [module for root in live_modules() for module in modules_of(root)]
    optimizers = live_optimizers()
    found = [
        *_engines([*modules, *optimizers]),
        *_compiled(modules),
        *_scripted(modules),
        *_graphs(modules, optimizers),
        *_flat(optimizers),
        *_replicated(modules),
        *_unseen(optimizers, {id(each) for each in stepped}),
    ]
    return list(dict.fromkeys(found))


def _classes(objects: Iterable[object]) -> str:
    return ", ".join(sorted({type(each).__name__ for each in objects}))


def _engines(objects: Iterable[object]) -> list[CoverageGap]:
    packages = {kind.__module__.partition(".")[0] for each in objects for kind in type(each).__mro__}
    return [CoverageGap(*told) for package, told in _ENGINES.items() if package in packages]


def _compiled(modules: Iterable[torch.nn.Module]) -> list[CoverageGap]:
    found = [
        getattr(each, "_orig_mod", each)
        for each in modules
        if type(each).__name__ == "OptimizedModule" or each.__dict__.get("_compiled_call_impl") is not None
    ]
    why = "losses, gradients and weights are watched; activations are not, since a hook would cut the compiled graphs"
    return [CoverageGap(f"torch.compile of {_classes(found)}", why)] if found else []


def _scripted(modules: Iterable[torch.nn.Module]) -> list[CoverageGap]:
    found = [each for each in modules if isinstance(each, torch.jit.ScriptModule)]
    inner = {id(child) for each in found for child in each.children()}
    names = {str(getattr(each, "original_name", type(each).__name__)) for each in found if id(each) not in inner}
    why = "what goes on inside is compiled: its weights and gradients are watched, its activations are not"
    return [CoverageGap(f"torch.jit.script of {', '.join(sorted(names))}", why)] if found else []


def _graphs(modules: Iterable[torch.nn.Module], optimizers: Iterable[torch.optim.Optimizer]) -> list[CoverageGap]:
    graphed = [
        each for each in modules if getattr(each.__dict__.get("forward"), "__module__", "") == "torch.cuda.graphs"
    ]
    capturable = [each for each in optimizers if any(group.get("capturable") for group in each.param_groups)]
    found = []
    if graphed:
        found.append(CoverageGap(f"torch.cuda.make_graphed_callables of {_classes(graphed)}", _GRAPHS))
    if any(issubclass(type(each), torch.cuda.CUDAGraph) for each in gc.get_objects()):
        found.append(CoverageGap("torch.cuda.CUDAGraph", _GRAPHS))
    if capturable:
        why = f"it is made to be replayed in a CUDA graph; if it is, {_GRAPHS}"
        found.append(CoverageGap(f"{_classes(capturable)}(capturable=True)", why))
    return found


def _flat(optimizers: Iterable[torch.optim.Optimizer]) -> list[CoverageGap]:
    is_flat = any(getattr(each, "_is_flat_param", False) for known in optimizers for each in parameters_of(known))
    why = "parameters are flattened, so that names are lost: flat_param; use_orig_params=True or FSDP2 keeps them"
    return [CoverageGap("FullyShardedDataParallel (FSDP1)", why)] if is_flat else []


def _replicated(modules: Iterable[torch.nn.Module]) -> list[CoverageGap]:
    is_found = any(
        isinstance(each, torch.nn.DataParallel) and len(getattr(each, "device_ids", None) or ()) > 1 for each in modules
    )
    why = "its replicas live for one forward pass in other threads: their activations are not seen, all else is"
    return [CoverageGap("DataParallel", why)] if is_found else []


def _unseen(optimizers: Iterable[torch.optim.Optimizer], stepped: set[int]) -> list[CoverageGap]:
    return [CoverageGap(type(each).__name__, _why_unseen(each)) for each in optimizers if id(each) not in stepped]


def _why_unseen(optimizer: torch.optim.Optimizer) -> str:
    own: Any = optimizer.__dict__.get("step")
    if own is not None and not getattr(own, "_wrapped_by_lr_sched", False):
        return "its step() was replaced on the instance, so that its steps are not seen; subclass it instead"
    if not getattr(type(optimizer).step, "hooked", False):
        return "its class's step() was replaced after it was built, so that its steps are not seen"
    return "it is there and made no step so far"


def why_no_step(backwards: int) -> CoverageGap:
    """What to say where no optimizer has stepped.

    Args:
        backwards: How many backward passes were seen.
    """
    seen = f"{backwards} backward passes and no optimizer step" if backwards else "no backward pass, no optimizer step"
    why = (
        "a step is what torch.optim.Optimizer.step() ends: manual updates, torch.func and optimizers that are none of "
        "PyTorch's are not seen"
    )
    return CoverageGap(seen, why)
