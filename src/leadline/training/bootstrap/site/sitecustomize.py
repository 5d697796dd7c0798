"""Runs at the start of every Python process under ``leadline run``: waits for a framework, then attaches."""
# Valid syntax for any Python 3; imports only sys, os and importlib.machinery; its failures stay invisible.

import sys


def _chain(folder):
    """Run the sitecustomize that ours shadows, if there is one."""
    import importlib.machinery

    others = [entry for entry in sys.path if entry and entry.rstrip("/") != folder]
    spec = importlib.machinery.PathFinder.find_spec("sitecustomize", others)
    if spec is None or spec.loader is None:
        return
    module = type(sys)("sitecustomize")
    module.__spec__, module.__file__, module.__loader__ = spec, spec.origin, spec.loader
    sys.modules["sitecustomize"] = module
    spec.loader.exec_module(module)


class _ImportWatch:
    """Attaches Leadline after the import of a framework; finds no module itself."""

    names = ("torch", "xgboost", "lightgbm")
    is_searching = False

    def find_spec(self, name, path=None, target=None):
        if name not in self.names or self.is_searching:
            return None
        self.is_searching = True  # another finder may ask all finders itself
        try:
            spec = self._find_with_others(name, path, target)
        finally:
            self.is_searching = False
        if spec is not None:
            self._wrap(name, spec.loader)
        return spec

    def _find_with_others(self, name, path, target):
        for finder in list(sys.meta_path):
            find = getattr(finder, "find_spec", None) if finder is not self else None
            spec = find(name, path, target) if find is not None else None
            if spec is not None:
                return spec
        return None

    def _wrap(self, name, loader):
        execute = getattr(loader, "exec_module", None)
        if execute is None:
            return

        def exec_module(module):
            del loader.exec_module
            if self in sys.meta_path:  # not before: a script may only check whether torch is installed
                sys.meta_path.remove(self)
            execute(module)
            _attach(name)

        loader.exec_module = exec_module


def _attach(name):
    try:
        from leadline.training.session.api import attach_from_environment
    except ImportError:
        return  # another environment: the agent reports what to install
    attach_from_environment(name)


def _start():
    import os

    if os.environ.get("LEADLINE_RUN") and os.environ.get("LEADLINE_DISABLED", "") in ("", "0"):
        sys.meta_path.insert(0, _ImportWatch())


def _own_folder():
    import os

    return os.path.dirname(os.path.abspath(__file__))


try:
    _start()
except Exception:  # noqa: S110, BLE001 - a failing bootstrap has no effect
    pass
_chain(_own_folder())  # a failure of another sitecustomize is reported as without ours
