"""``python -m leadline.serve FOLDER``: the process of the training job with that folder."""

from __future__ import annotations

import sys

from leadline.serve.job_process import JobProcess

if __name__ == "__main__":
    JobProcess(sys.argv[1]).run()
