"""Runs at the start of every Python process under ``leadline run``: waits for a framework, then attaches."""
# Valid syntax for any Python 3; imports only sys, atexit, os and importlib.machinery; its failures stay invisible.

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

    names = ("torch", "xgboost", "lightgbm", "tensorflow", "keras", "jax", "mxnet")
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


def _find_own_package(path):
    """Find the package as the interpreter sees it, before the folder of the script and its files come first."""
    import importlib.machinery

    for entry in path:
        spec = importlib.machinery.PathFinder.find_spec("leadline", [entry])
        if spec is not None and spec.origin is not None and spec.submodule_search_locations:
            return spec
    return None


def _import_own_package():
    """Import Leadline where it is installed, though the user may have a ``leadline.py``."""
    import importlib.util

    spec = _find_own_package(_path)
    if spec is None or "leadline" in sys.modules:
        return
    sys.modules["leadline"] = module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)


def _attach(name):
    try:
        _import_own_package()
        from leadline.training.session.api import attach_from_environment
    except ImportError:
        own = sys.modules.get("leadline")
        if own is not None and not hasattr(own, "__path__"):
            sys.stderr.write("leadline  capture disabled in this process: %s has its name\n" % own.__file__)
        return  # another environment: the agent reports what to install
    except Exception as error:  # noqa: BLE001 - a library that does not fit this environment: the training goes on
        _report_disabled(error)
        return
    attach_from_environment(name)


def _report_disabled(error):
    problem = "%s: %s" % (type(error).__name__, error)
    sys.stderr.write("leadline  capture disabled in this process: %s\n" % " ".join(problem.split()))


class _SmdebugImport:
    """Puts Leadline's own smdebug in place when the script imports smdebug; finds no module itself."""

    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] != "smdebug":
            return None
        sys.meta_path.remove(self)
        try:
            _import_own_package()
            from leadline.instrumentation.package_alias import alias_package

            alias_package("smdebug", "leadline.compat.smdebug", replace=True)
        except ImportError:
            return None  # another environment: the agent reports what to install
        except Exception as error:  # noqa: BLE001 - as in ``_attach``
            _report_disabled(error)
            return None
        return sys.meta_path[0].find_spec(name, path, target)


def _record_exception(pid):
    """At the end of a process that an exception ends, write it into the run: why it may have trained nothing."""
    import os

    if getattr(sys, "last_value", None) is None or os.getpid() != pid:
        return
    try:
        _import_own_package()
        from leadline.instrumentation.uncaught import record_uncaught

        record_uncaught(os.environ.get("LEADLINE_RUN", ""))
    except Exception:  # noqa: S110, BLE001 - the exception is on the standard error, whatever becomes of this
        pass


def _start():
    import atexit
    import os

    if os.environ.get("LEADLINE_SMDEBUG"):
        sys.meta_path.insert(0, _SmdebugImport())
    if os.environ.get("LEADLINE_RUN") and os.environ.get("LEADLINE_DISABLED", "") in ("", "0"):
        sys.meta_path.insert(0, _ImportWatch())
        atexit.register(_record_exception, os.getpid())


def _own_folder():
    import os

    return os.path.dirname(os.path.abspath(__file__))


_path = list(sys.path)
try:
    _start()
except Exception:  # noqa: S110, BLE001 - a failing bootstrap has no effect
    pass
_chain(_own_folder())  # a failure of another sitecustomize is reported as without ours
