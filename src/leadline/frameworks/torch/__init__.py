"""PyTorch: how its training steps, losses, gradients and weights are seen without changing any of them."""
