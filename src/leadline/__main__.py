"""``python -m leadline``."""

import sys

from leadline.cli import main

if not sys.flags.safe_path:
    del sys.path[0]  # the working folder: a ``psutil.py`` of the user is not ours

if __name__ == "__main__":
    main()
