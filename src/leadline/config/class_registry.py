"""Lookup of classes by name: built in, from installed packages, or from a user's file or module."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cached_property
from importlib import metadata
from typing import Generic, TypeVar

from leadline.config.class_lookup import find_class, find_in_module
from leadline.errors import UnknownNameError

T = TypeVar("T")


class ClassRegistry(Generic[T]):
    """The classes of one kind that can be found by name.

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
    def plugins(self) -> dict[str, metadata.EntryPoint]:
        """The classes of installed packages, by the name of their entry point."""
        return {entry.name: entry for entry in metadata.entry_points(group=f"leadline.{self._noun}s")}

    def canonical(self, name: str) -> str:
        """Return the name behind an alias; any other name as it is."""
        return self._aliases.get(name, name)

    def names(self) -> tuple[str, ...]:
        """Return all names, built in and of plugins, without aliases."""
        return (*self._built_in, *(name for name in sorted(self.plugins) if name not in self._built_in))

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
        if name in self._built_in:
            return find_class(self._built_in[name], self._base, self._noun)
        if is_custom(name):
            return find_class(name, self._base, self._noun, folder)
        if name in self.plugins:
            entry = self.plugins[name]
            return find_in_module(entry.module, entry.attr, self._base, self._noun)
        known = (*self.names(), *self._aliases) if name[:1].isupper() else self.names()
        raise UnknownNameError(self._noun, name, known, hint=self._hint)


def is_custom(name: str) -> bool:
    """Return whether a name is a class of the user: ``file.py:Class`` or ``module:Class``."""
    return ":" in name
