"""Finding the class that somebody named by its place: ``file.py:Class`` or ``module:Class``."""

from __future__ import annotations

import importlib
import os
import sys
import traceback
from importlib.util import module_from_spec, spec_from_file_location
from typing import Any, TypeVar

from leadline.errors import ConfigurationError, UnknownNameError

T = TypeVar("T")


def find_class(place: str, kind: type[T], noun: str, folder: str = "") -> type[T]:
    """The class at a place.

    Args:
        place: ``file.py:Class`` or ``module:Class``.
        kind: What it must be made from.
        noun: How errors call such a thing: ``rule``, ``action``.
        folder: What a relative file is relative to; "" for the working directory.
    Raises:
        UnknownNameError: There is no such class.
        ConfigurationError: The file or module cannot be imported, or the class is none of that kind.
    """
    where, _, name = place.rpartition(":")
    if where.endswith(".py"):
        return _pick(_import_file(os.path.join(folder, where), noun), name, where, kind, noun)
    return find_in_module(where, name, kind, noun)


def find_in_module(module: str, name: str, kind: type[T], noun: str) -> type[T]:
    """A class of a module.

    Raises:
        As ``find_class``.
    """
    try:
        imported = importlib.import_module(module)
    except Exception as error:
        raise _not_imported(module, noun, error) from error
    return _pick(imported, name, module, kind, noun)


def _import_file(path: str, noun: str) -> Any:
    """A file as a module of its own; files beside it can be imported by it."""
    path = os.path.abspath(path)
    if not os.path.isfile(path):
        raise ConfigurationError(f"there is no {noun} file {path}")
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
        raise _not_imported(path, noun, error) from error
    finally:
        sys.path.remove(folder)
    return module


def _pick(module: Any, name: str, place: str, kind: type[T], noun: str) -> type[T]:
    found = getattr(module, name, None)
    if isinstance(found, type) and issubclass(found, kind):
        return found
    made_from = f"{kind.__module__.rpartition('.')[0]}.{kind.__name__}"
    if found is not None:
        raise ConfigurationError(f"{place}:{name} is no {noun}: it must be a class made from {made_from}")
    known = [each for each, value in vars(module).items() if isinstance(value, type) and issubclass(value, kind)]
    raise UnknownNameError(noun, name, [each for each in known if each != kind.__name__], hint=f"in {place}")


def _not_imported(place: str, noun: str, error: Exception) -> ConfigurationError:
    if isinstance(error, SyntaxError):
        where = f"{error.filename}:{error.lineno}"
        return ConfigurationError(f"the {noun} file does not import: {where}: {type(error).__name__}: {error.msg}")
    frames = [frame for frame in traceback.extract_tb(error.__traceback__) if "importlib" not in frame.filename]
    own = [frame for frame in frames if frame.filename != __file__]
    where = f"{own[-1].filename}:{own[-1].lineno}" if own else place
    return ConfigurationError(f"the {noun} file does not import: {where}: {type(error).__name__}: {error}")
