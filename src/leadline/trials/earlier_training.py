"""``python -m leadline.trials.earlier_training URI``: tells whether a training was saved at a URI before.

The training itself does not import what reads object stores. The exit status is 0 if the place is free, ``TAKEN`` if
a training was saved there, and ``UNREADABLE`` if the store cannot be read now; other failures are told on stderr.
"""

from __future__ import annotations

import sys

from leadline.errors import LeadlineError
from leadline.records.documents import RunStatus
from leadline.records.names import JOB_ENDED
from leadline.remote.fetching import stored_document
from leadline.remote.object_store import ObjectStore, StoreError
from leadline.store import layout
from leadline.store.upload_state import TAKEN, UNREADABLE
from leadline.trials.folder import END


def main(uri: str) -> int:
    """Return the exit status; a reason is written to stderr."""
    try:
        store = ObjectStore(uri)
        names = [stored.name for stored in store.folder()[1]]
        status = RunStatus.from_dict(stored_document(store, layout.STATUS)).status if layout.STATUS in names else ""
    except StoreError as error:
        sys.stderr.write(f"{error}\n")
        return UNREADABLE
    except LeadlineError as error:
        sys.stderr.write(f"{error}\n")
        return 1
    return TAKEN if END in names or status in JOB_ENDED else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
