"""The collections of a hook, in smdebug's interface."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from leadline.compat.smdebug.core.collection import Collection, CollectionKeys
from leadline.compat.smdebug.exceptions import SMDebugError, SMDebugTypeError


class CollectionManager:
    """The collections of a hook by name.

    Args:
        defaults: The collections that its framework has, with their regular expressions.
        kind: The class of its collections.
    """

    def __init__(
        self, defaults: Mapping[str, Sequence[str]] | None = None, kind: type[Collection] = Collection
    ) -> None:
        self._kind = kind
        self.collections: dict[str, Collection] = {}
        for name, patterns in ({CollectionKeys.ALL: [".*"], CollectionKeys.DEFAULT: []} | dict(defaults or {})).items():
            self.collections[name] = kind(name, list(patterns))

    def __repr__(self) -> str:
        return f"CollectionManager({', '.join(self.collections)})"

    def create_collection(self, name: str) -> None:
        """Create a collection without members; nothing if there is one of the name."""
        self.collections.setdefault(name, self._kind(name))

    def add(self, collection: str | Collection) -> None:
        """Add a collection, in place of another of its name; of a name, create it.

        Raises:
            SMDebugTypeError: It is neither.
        """
        if isinstance(collection, str):
            self.create_collection(collection)
        elif isinstance(collection, Collection):
            self.collections[collection.name] = collection
        else:
            raise SMDebugTypeError(f"a collection is a Collection or its name, not {type(collection).__name__}")

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
