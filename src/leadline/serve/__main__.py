"""``python -m leadline.serve FOLDER``: the process of the training job with that folder."""

from __future__ import annotations

import os
import sys

from leadline.serve.job_folder import PRIVATE_UMASK
from leadline.serve.job_process import JobProcess

if __name__ == "__main__":
    os.umask(PRIVATE_UMASK)
    JobProcess(sys.argv[1]).run()
