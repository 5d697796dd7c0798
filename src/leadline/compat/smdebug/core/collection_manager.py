"""The collections of a hook, in smdebug's interface."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping, Sequence

from leadline.compat.smdebug.core.collection import Collection, CollectionKeys
from leadline.compat.smdebug.core.trial_files import write_file
from leadline.compat.smdebug.core.utils import get_path_to_collections
from leadline.compat.smdebug.exceptions import SMDebugError, SMDebugTypeError


class CollectionManager:
    """The collections of a hook by name.

    Args:
        defaults: The collections that its framework has, with their regular expressions; None: there are none yet.
        kind: The class of its collections.
    """

    def __init__(
        self, defaults: Mapping[str, Sequence[str]] | None = None, kind: type[Collection] = Collection
    ) -> None:
        self._kind = kind
        self.collections: dict[str, Collection] = {}
        always = {CollectionKeys.ALL: [".*"], CollectionKeys.DEFAULT: []} if defaults is not None else {}
        for name, patterns in (always | dict(defaults or {})).items():
            self.collections[name] = kind(name, list(patterns))

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, CollectionManager):
            return NotImplemented
        return self.collections == other.collections

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        return f"CollectionManager({', '.join(self.collections)})"

    def create_collection(self, name: str) -> None:
        """Create a collection without members; nothing if there is one of the name."""
        self.collections.setdefault(name, self._kind(name))

    def add(self, arg: str | Collection) -> None:
        """Add a collection, in place of another of its name; of a name, create it.

        Raises:
            SMDebugTypeError: It is neither.
        """
        if isinstance(arg, str):
            self.create_collection(arg)
        elif isinstance(arg, Collection):
            self.collections[arg.name] = arg
        else:
            raise SMDebugTypeError(f"a collection is a Collection or its name, not {type(arg).__name__}")

    def get(self, name: str, create: bool = True) -> Collection:
        """Return a collection.

        Args:
            create: Create it if there is none.
        Raises:
            SMDebugError: There is none, and none is created.
        """
        if name not in self.collections:
            if not create:
                raise SMDebugError(f"there is no collection {name!r}")
            self.create_collection(name)
        return self.collections[name]

    def get_collections(self) -> dict[str, Collection]:
        """Return the collections by name."""
        return self.collections

    def export(self, out_dir: str | os.PathLike[str], filename: str, num_workers: int = 1) -> None:
        """Write the collections file of a worker into a trial.

        Args:
            filename: ``WORKER_collections.json``.
            num_workers: The workers that write collections files.
        """
        path = os.path.join(get_path_to_collections(os.fspath(out_dir)), filename)
        entries = {name: collection.to_json_dict() for name, collection in self.collections.items()}
        write_file(path, json.dumps({"collections": entries, "_meta": {"num_workers": num_workers}}).encode())

    @classmethod
    def load(cls, filename: str | os.PathLike[str]) -> CollectionManager:
        """Read a collections file."""
        with open(filename, encoding="utf-8") as file:
            entries = json.load(file)["collections"]
        manager = cls()
        for entry in entries.values():
            manager.add(Collection.from_dict(entry))
        return manager
