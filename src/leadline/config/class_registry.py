"""Lookup of classes by name: built in, from installed packages, or from a user's file or module."""

from __future__ import annotations

import importlib
import os
import sys
import traceback
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from functools import cached_property
from importlib import metadata
from importlib.util import module_from_spec, spec_from_file_location
from typing import Any, Generic, TypeVar

from leadline.config.secrets import scrub
from leadline.errors import ConfigurationError, UnknownNameError

T = TypeVar("T")


class ClassRegistry(Generic[T]):
    """The classes of one kind that have a name.

    Args:
        noun: The word for such a class in errors: ``rule``; plugins register in the entry point group
            ``leadline.rules``.
        base: The base class of all of them.
        built_in: ``module:Class`` by name.
        aliases: Names by alias.
        hint: A hint for the error on an unknown name.
    """

    def __init__(
        self, noun: str, base: type[T], built_in: Mapping[str, str], aliases: Mapping[str, str], hint: str = ""
    ) -> None:
        self._noun, self._base, self._hint = noun, base, hint
        self._built_in, self._aliases = built_in, aliases

    @cached_property
    def _plugins(self) -> dict[str, str]:
        """``module:Class`` of the classes of installed packages, by the name of their entry point."""
        return {entry.name: entry.value for entry in metadata.entry_points(group=f"leadline.{self._noun}s")}

    def canonical(self, name: str) -> str:
        """Return the name behind an alias; any other name as it is."""
        return self._aliases.get(name, name)

    def names(self) -> tuple[str, ...]:
        """Return all names, built in and of plugins, without aliases."""
        return (*self._built_in, *(name for name in sorted(self._plugins) if name not in self._built_in))

    def find(self, name: str, folder: str = "") -> type[T]:
        """Find a class.

        Args:
            name: A name, an alias, ``file.py:Class`` or ``module:Class``.
            folder: The folder of a relative file; "" for the working directory.
        Raises:
            UnknownNameError: There is no such name.
            ConfigurationError: The file or module cannot be imported, or has no such class.
        """
        name = self.canonical(name)
        path = self._built_in.get(name) or (name if is_custom(name) else self._plugins.get(name))
        if path is not None:
            return find_class(path, self._base, self._noun, folder)
        known = (*self.names(), *self._aliases) if name[:1].isupper() else self.names()
        raise UnknownNameError(self._noun, name, known, hint=self._hint)


def is_custom(name: str) -> bool:
    """Return whether a name is a class of the user: ``file.py:Class`` or ``module:Class``."""
    return ":" in name


def find_class(path: str, kind: type[T], noun: str, folder: str = "") -> type[T]:
    """Return the class at a path.

    Args:
        path: ``file.py:Class`` or ``module:Class``.
        kind: The required base class.
        noun: What such a class is in error messages: ``rule``, ``action``.
        folder: Base of a relative file, in which a module is searched for as well; "" for the working directory.
    Raises:
        UnknownNameError: There is no such class.
        ConfigurationError: The file or module cannot be imported, or the class does not derive from ``kind``.
    """
    where, _, name = path.rpartition(":")
    file = os.path.abspath(os.path.join(folder, where)) if where.endswith(".py") else None
    if file is not None and not os.path.isfile(file):
        raise ConfigurationError(f"no such {noun} file: {file}")
    try:
        with _importing_from(os.path.abspath(folder) if file is None else os.path.dirname(file)):
            module = importlib.import_module(where) if file is None else _import_file(file, noun)
    except Exception as error:
        raise _import_failed(file or where, noun, error) from error
    value = getattr(module, name, None)
    if isinstance(value, type) and issubclass(value, kind):
        return value
    if value is not None:
        base = f"{kind.__module__.rpartition('.')[0]}.{kind.__name__}"
        article = "an" if noun[0] in "aeiou" else "a"
        raise ConfigurationError(f"{where}:{name} is not {article} {noun}: it must be a subclass of {base}")
    classes = [key for key, value in vars(module).items() if isinstance(value, type) and issubclass(value, kind)]
    raise UnknownNameError(noun, name, [key for key in classes if key != kind.__name__], hint=f"in {where}")


def _import_file(path: str, noun: str) -> Any:
    """Import a file as a module."""
    name = f"leadline_{noun}_" + os.path.basename(path).removesuffix(".py")
    spec = spec_from_file_location(name, path)
    assert spec is not None
    assert spec.loader is not None
    module = module_from_spec(spec)
    sys.modules[name] = module
    try:
        spec.loader.exec_module(module)
    except Exception:
        del sys.modules[name]
        raise
    return module


@contextmanager
def _importing_from(folder: str) -> Iterator[None]:
    """Let what is imported meanwhile import the files of a folder; it comes last, so that it hides nothing."""
    before = list(sys.path)
    sys.path.append(folder)
    try:
        yield
    finally:
        sys.path[:] = before


def _import_failed(where: str, noun: str, error: Exception) -> ConfigurationError:
    if isinstance(error, SyntaxError):
        line = f"{error.filename}:{error.lineno}"
        return ConfigurationError(f"cannot import the {noun} file: {line}: {type(error).__name__}: {error.msg}")
    frames = [frame for frame in traceback.extract_tb(error.__traceback__) if "importlib" not in frame.filename]
    user_frames = [frame for frame in frames if frame.filename != __file__]
    line = f"{user_frames[-1].filename}:{user_frames[-1].lineno}" if user_frames else where
    return ConfigurationError(f"cannot import the {noun} file: {line}: {type(error).__name__}: {scrub(str(error))}")
