"""Runs at the start of every Python below ``leadline run``: waits for a framework, and never gets in the way."""
# Valid syntax for any Python 3; imports sys, os and importlib.machinery only; no failure of it reaches anybody.

import sys


def _chain(folder):
    """Run the sitecustomize that ours hides, if there is one."""
    import importlib.machinery

    elsewhere = [entry for entry in sys.path if entry and entry.rstrip("/") != folder]
    spec = importlib.machinery.PathFinder.find_spec("sitecustomize", elsewhere)
    if spec is None or spec.loader is None:
        return
    module = type(sys)("sitecustomize")
    module.__spec__, module.__file__, module.__loader__ = spec, spec.origin, spec.loader
    sys.modules["sitecustomize"] = module
    spec.loader.exec_module(module)


class _Watch:
    """Waits for the import of a framework, then lets Leadline attach; finds nothing by itself."""

    names = ("torch", "xgboost", "lightgbm")
    is_seeking = False

    def find_spec(self, name, path=None, target=None):
        if name not in self.names or self.is_seeking:
            return None
        self.is_seeking = True  # another finder may ask all finders in its turn
        try:
            spec = self._find_elsewhere(name, path, target)
        finally:
            self.is_seeking = False
        if spec is not None:
            self._behind(name, spec.loader)
        return spec

    def _find_elsewhere(self, name, path, target):
        for finder in list(sys.meta_path):
            find = getattr(finder, "find_spec", None) if finder is not self else None
            spec = find(name, path, target) if find is not None else None
            if spec is not None:
                return spec
        return None

    def _behind(self, name, loader):
        execute = getattr(loader, "exec_module", None)
        if execute is None:
            return

        def exec_module(module):
            del loader.exec_module
            if self in sys.meta_path:  # not before: who only asks whether there is a torch imports none
                sys.meta_path.remove(self)
            execute(module)
            _attach(name)

        loader.exec_module = exec_module


def _attach(name):
    try:
        from leadline.training.session.session import attach_from_environment
    except ImportError:
        return  # another environment: the agent says what to install where
    attach_from_environment(name)


def _start():
    import os

    if os.environ.get("LEADLINE_RUN") and os.environ.get("LEADLINE_DISABLED", "") in ("", "0"):
        sys.meta_path.insert(0, _Watch())


def _folder():
    import os

    return os.path.dirname(os.path.abspath(__file__))


try:
    _start()
except Exception:  # noqa: S110, BLE001 - a bootstrap that fails is as if it were not there
    pass
_chain(_folder())  # what fails in somebody else's sitecustomize is told as it would be without ours
