"""PyTorch adapter: capture of training steps, losses, gradients and weights, without changing any of them."""
