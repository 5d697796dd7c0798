"""Lets PyTorch import ``torch._dynamo`` when something is compiled instead of at the first step of an optimizer.

The import takes as long as that of ``torch``, in each of the hundreds of processes of the tests. What PyTorch does with
it before anything is compiled has no effect: it marks functions that the compiler must skip, and breaks graphs. Each
interpreter of ``.venvs/torch`` runs this file at its start if ``LATE_DYNAMO`` is set (``scripts/run_tests.py``).
"""

import functools
import sys
from importlib.machinery import PathFinder


def disable_late(disable_dynamo):
    """Replace the decorator of functions that the compiler must skip."""

    def _disable_dynamo(fn=None, recursive=True):
        if fn is None:
            return functools.partial(_disable_dynamo, recursive=recursive)
        disabled = disable_dynamo(fn, recursive)

        @functools.wraps(fn)
        def inner(*args, **kwargs):
            return (disabled if "torch._dynamo" in sys.modules else fn)(*args, **kwargs)

        return inner

    return _disable_dynamo


def break_graphs_late(use_grad_for_differentiable):
    """Replace the decorator of ``step`` of optimizers, which breaks graphs."""

    def _use_grad_for_differentiable(func):
        breaking = use_grad_for_differentiable(func)

        @functools.wraps(func)
        def _use_grad(self, *args, **kwargs):
            if "torch._dynamo" in sys.modules:
                return breaking(self, *args, **kwargs)
            import torch

            with torch.set_grad_enabled(self.defaults["differentiable"]):
                return func(self, *args, **kwargs)

        return _use_grad

    return _use_grad_for_differentiable


REPLACED = {
    "torch._compile": ("_disable_dynamo", disable_late),
    "torch.optim.optimizer": ("_use_grad_for_differentiable", break_graphs_late),
}


class Finder:
    """Replaces a function in each of these modules at its import."""

    def find_spec(self, name, path=None, target=None):
        if name not in REPLACED:
            return None
        function, replace = REPLACED.pop(name)
        if not REPLACED:
            sys.meta_path.remove(self)
        spec = PathFinder.find_spec(name, path, target)
        execute = spec.loader.exec_module

        def exec_module(module):
            execute(module)
            setattr(module, function, replace(getattr(module, function)))

        spec.loader.exec_module = exec_module
        return spec


sys.meta_path.insert(0, Finder())
