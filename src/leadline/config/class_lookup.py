"""Lookup of a user class by its path: ``file.py:Class`` or ``module:Class``."""

from __future__ import annotations

import importlib
import os
import sys
import traceback
from importlib.util import module_from_spec, spec_from_file_location
from typing import Any, TypeVar

from leadline.errors import ConfigurationError, UnknownNameError

T = TypeVar("T")


def find_class(path: str, kind: type[T], noun: str, folder: str = "") -> type[T]:
    """Return the class at a path.

    Args:
        path: ``file.py:Class`` or ``module:Class``.
        kind: The required base class.
        noun: What such a class is in error messages: ``rule``, ``action``.
        folder: Base of a relative file; "" for the working directory.
    Raises:
        UnknownNameError: There is no such class.
        ConfigurationError: The file or module cannot be imported, or the class does not derive from ``kind``.
    """
    where, _, name = path.rpartition(":")
    if where.endswith(".py"):
        return _pick(_import_file(os.path.join(folder, where), noun), name, where, kind, noun)
    return find_in_module(where, name, kind, noun)


def find_in_module(module: str, name: str, kind: type[T], noun: str) -> type[T]:
    """Return a class of a module.

    Raises:
        As ``find_class``.
    """
    try:
        imported = importlib.import_module(module)
    except Exception as error:
        raise _import_failed(module, noun, error) from error
    return _pick(imported, name, module, kind, noun)


def _import_file(path: str, noun: str) -> Any:
    """Import a file as a module; it can import the files beside it."""
    path = os.path.abspath(path)
    if not os.path.isfile(path):
        raise ConfigurationError(f"no such {noun} file: {path}")
    name = f"leadline_{noun}_" + os.path.basename(path).removesuffix(".py")
    spec = spec_from_file_location(name, path)
    assert spec is not None
    assert spec.loader is not None
    module = module_from_spec(spec)
    sys.modules[name] = module
    folder = os.path.dirname(path)
    sys.path.insert(0, folder)
    try:
        spec.loader.exec_module(module)
    except Exception as error:
        del sys.modules[name]
        raise _import_failed(path, noun, error) from error
    finally:
        sys.path.remove(folder)
    return module


def _pick(module: Any, name: str, where: str, kind: type[T], noun: str) -> type[T]:
    found = getattr(module, name, None)
    if isinstance(found, type) and issubclass(found, kind):
        return found
    base = f"{kind.__module__.rpartition('.')[0]}.{kind.__name__}"
    if found is not None:
        raise ConfigurationError(
            f"{where}:{name} is not a{'n' if noun[0] in 'aeiou' else ''} {noun}: it must be a subclass of {base}"
        )
    known = [
        attribute for attribute, value in vars(module).items() if isinstance(value, type) and issubclass(value, kind)
    ]
    raise UnknownNameError(
        noun, name, [attribute for attribute in known if attribute != kind.__name__], hint=f"in {where}"
    )


def _import_failed(where: str, noun: str, error: Exception) -> ConfigurationError:
    if isinstance(error, SyntaxError):
        line = f"{error.filename}:{error.lineno}"
        return ConfigurationError(f"cannot import the {noun} file: {line}: {type(error).__name__}: {error.msg}")
    frames = [frame for frame in traceback.extract_tb(error.__traceback__) if "importlib" not in frame.filename]
    user_frames = [frame for frame in frames if frame.filename != __file__]
    line = f"{user_frames[-1].filename}:{user_frames[-1].lineno}" if user_frames else where
    return ConfigurationError(f"cannot import the {noun} file: {line}: {type(error).__name__}: {error}")
