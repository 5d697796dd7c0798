"""The hook for MXNet, in smdebug's interface."""

from __future__ import annotations

from typing import Any, ClassVar

from mxnet.gluon import Block

from leadline.compat.smdebug.core.collection import Collection as AnyCollection
from leadline.compat.smdebug.core.hook import BaseHook
from leadline.compat.smdebug.core.singleton import set_hook
from leadline.compat.smdebug.exceptions import SMDebugTypeError
from leadline.compat.smdebug.mxnet.collection import NAMING, Collection

__all__ = ["Hook"]


class Hook(BaseHook):
    """Saves what a block of Gluon trains with; see ``BaseHook`` for its arguments.

    A step is one update of the trainer in training, one batch in evaluation. Gradients are those that the optimizer
    uses, summed over contexts and rescaled.
    """

    naming = NAMING
    collection_class: ClassVar[type[AnyCollection]] = Collection

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        set_hook(self)

    def register_block(self, block: Block) -> None:
        """Save what the collections select by now, of a block or a loss; both are recognized without registration.

        Raises:
            SMDebugTypeError: It is no block.
        """
        if not isinstance(block, Block):
            raise SMDebugTypeError(f"a block of Gluon is expected, not {type(block).__name__}")
        self._begin()

    register_hook = register_block
