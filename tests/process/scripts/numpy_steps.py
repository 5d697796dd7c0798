"""Writes a loss and a raw tensor at each step with ``leadline.Hook``; arguments: steps, seconds per step."""

import sys
import time

import numpy as np

import leadline

hook = leadline.Hook()
for step in range(int(sys.argv[1])):
    hook.log(loss=step / 2)
    hook.save_tensor("w", np.full((16, 16), step, np.float32), collections="weights")
    hook.step()
    time.sleep(float(sys.argv[2]))
