"""The functions of PyTorch that compile and launch our kernel, which are not part of its public interface."""

from __future__ import annotations

import inspect

from torch.cuda import _utils


def test_pytorch_has_the_functions_that_compile_our_kernel() -> None:
    """Without them, statistics on a GPU are computed by PyTorch's own kernels, and take the host five times as long."""
    assert list(inspect.signature(_utils._nvrtc_compile).parameters)[:2] == ["kernel_source", "kernel_name"]
    assert list(inspect.signature(_utils._cuda_load_module).parameters) == ["ptx", "kernel_names"]
    assert not inspect.signature(_utils._get_gpu_runtime_library).parameters
    assert list(inspect.signature(_utils._CudaKernel).parameters)[:1] == ["func"]
