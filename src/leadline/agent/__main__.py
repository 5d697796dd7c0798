"""``python -m leadline.agent RUN -- COMMAND…`` and ``python -m leadline.agent RUN --attach PID``."""

import sys

from leadline.agent.entry import main

if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
