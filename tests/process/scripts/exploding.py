"""A training that breaks at a step: in its loss, or in the gradient of one weight only.

``stubborn``: in its loss, and it catches every ``BaseException`` in its steps. ``retry``: it catches every
``Exception``. ``cleanup``: it prints when its ``finally`` and its exit handlers run. ``thread``: it trains in a thread
while the main thread waits.
"""

import atexit
import sys
import threading
import time

import torch
from torch import nn


def main() -> None:
    where, bad_step = sys.argv[1], int(sys.argv[2])
    torch.set_num_threads(1)
    torch.manual_seed(7)
    model = nn.Sequential(nn.Linear(4, 8), nn.Tanh(), nn.Linear(8, 2))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    step = 0

    def spoil(gradient: torch.Tensor) -> torch.Tensor:
        if where == "gradient" and step == bad_step:
            gradient = gradient.clone()
            gradient[1, 3] = float("nan")
        return gradient

    model[2].weight.register_hook(spoil)
    for step in range(5000):
        loss = model(torch.randn(8, 4)).pow(2).mean()
        if where != "gradient" and step == bad_step:
            loss = loss * float("nan")
        optimizer.zero_grad()
        loss.backward()
        try:
            optimizer.step()
        except Exception:
            if where not in ("stubborn", "retry"):
                raise
        except BaseException:
            if where != "stubborn":
                raise
        time.sleep(0.02)
    print("never stopped")


def run() -> None:
    if sys.argv[1] == "thread":
        threading.Thread(target=main, daemon=True).start()
        time.sleep(600)
        print("the main thread went on")
    elif sys.argv[1] == "cleanup":
        atexit.register(print, "at exit", flush=True)
        try:
            main()
        finally:
            print("finally", flush=True)
    else:
        main()


if __name__ == "__main__":
    if "--watch" in sys.argv:
        import leadline

        print(leadline.watch(out="runs", on=["exploding_tensor=stop_training"]), flush=True)
    run()
