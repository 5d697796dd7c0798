"""Statistics of many tensors on a GPU by one kernel that reads each element from memory once.

A captured step has hundreds of tensors. With a dozen of PyTorch's own kernels per tensor, launching them takes the host
many times as long as the step. This kernel is compiled at its first use, by the compiler that PyTorch brings along
(NVRTC, or its counterpart of ROCm).
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Sequence
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import torch

from leadline.frameworks.torch.kernels import cuda_statistics
from leadline.frameworks.torch.kernels.cuda_statistics import Vector
from leadline.frameworks.torch.kernels.current_stream import CurrentStream
from leadline.statistics.definitions import find_statistic
from leadline.statistics.primaries import derive

Batch = npt.NDArray[np.int64]
"""Up to ``BATCH_TENSORS`` tensors: see ``struct Batch`` in the source of the kernel."""
Launch = Callable[[Batch, torch.Tensor], None]
"""Computes ``PRIMARIES`` of a batch of tensors into the rows of the second argument; does not wait for the device."""

PRIMARIES: Final = ("sum", "min", "max", "abs_min", "l1", "squares", "zeros", "nan_count", "nonfinite_count", "centred")
"""What the kernel computes, in order."""
CODES: Final[dict[torch.dtype, int]] = {
    torch.float32: 0,
    torch.float64: 1,
    torch.float16: 2,
    torch.bfloat16: 3,
    torch.uint8: 4,
    torch.int8: 5,
    torch.int16: 6,
    torch.int32: 7,
    torch.int64: 8,
}
"""The types that the kernel reads."""
BATCH_TENSORS: Final = 64
"""A batch is an argument of the kernel, and these have at most 4 kB."""
ADDRESSES: Final = 2
COUNTS: Final = ADDRESSES + BATCH_TENSORS
FIRST_CHUNKS: Final = COUNTS + BATCH_TENSORS
TYPES: Final = FIRST_CHUNKS + BATCH_TENSORS + 1
"""Where the parts of a batch begin."""
_CHUNK_ELEMENTS: Final = 1 << 14
_MAX_CHUNKS: Final = 1 << 13
"""Beyond this many chunks they become longer, so that the memory for their results stays small."""


def launch_for(tensors: Sequence[torch.Tensor]) -> Launch | None:
    """Return how to launch the kernel for tensors on one device; None if it cannot be used for them."""
    if any(tensor.layout is not torch.strided for tensor in tensors):
        return None
    launch = _compiled(tensors[0].device)
    return None if isinstance(launch, str) else launch


def supports(name: str) -> bool:
    """Whether a statistic is derived from what the kernel computes."""
    derivation = find_statistic(name).derivation
    return derivation is not None and set(PRIMARIES).issuperset(derivation.primaries)


def unavailable_reason(device: torch.device) -> str | None:
    """Return why the kernel for a device could not be compiled; None if it could, or if there is none for its type."""
    launch = _compiled(device)
    return launch if isinstance(launch, str) else None


def _compiled(device: torch.device) -> Launch | str | None:
    """Return the kernel for a device, or the reason why there is none; None for other types of devices."""
    compile_kernel = COMPILERS.get(device.type)
    if compile_kernel is None:
        return None
    key = (device, compile_kernel)
    if key not in _KERNELS:
        try:
            _KERNELS[key] = compile_kernel(device)
        except (
            AttributeError,
            ImportError,
            OSError,
            RuntimeError,
            TypeError,
        ) as error:  # of PyTorch's private functions
            _KERNELS[key] = f"{type(error).__name__}: {' '.join(str(error).split())}"[:_MAX_REASON]
    return _KERNELS[key]


def begin(
    tensors: Sequence[torch.Tensor], names: Sequence[str], launch: Launch
) -> tuple[torch.Tensor, Callable[[Vector], Vector]]:
    """Start computing statistics of many tensors on their device.

    The tensors may change as soon as this returns.

    Args:
        tensors: Readable tensors (``elements.unreadable_reason``) on one device, none of them sparse.
        names: Statistics that ``supports`` accepts.
        launch: As returned by ``launch_for``.
    Shape:
        As those of ``cuda_statistics.begin``.
    Not a number:
        As defined in ``statistics.definitions``.
    """
    numbers = torch.empty(len(tensors), len(PRIMARIES), dtype=torch.float64, device=tensors[0].device)
    sizes = np.array([tensor.numel() for tensor in tensors], dtype=np.float64)
    for at in range(0, len(tensors), BATCH_TENSORS):
        flats = [_flat_elements(tensor) for tensor in tensors[at : at + BATCH_TENSORS]]
        launch(_batch(flats), numbers[at : at + BATCH_TENSORS])

    def finish(fetched: Vector) -> Vector:
        computed = dict(zip(PRIMARIES, fetched.reshape(-1, len(PRIMARIES)).T, strict=True))
        return np.concatenate(derive(names, {"size": sizes, **computed}))

    return numbers.view(-1), finish


def _flat_elements(tensor: torch.Tensor) -> torch.Tensor:
    """Return the elements of a tensor in a type that the kernel reads."""
    flat, _ = cuda_statistics.flat_elements(tensor)
    if flat.dtype in CODES:
        return flat
    return flat.view(torch.uint8) if flat.dtype is torch.bool else cuda_statistics.to_float64(flat)


def _batch(flats: Sequence[torch.Tensor]) -> Batch:
    sizes = [flat.numel() for flat in flats]
    chunk = _CHUNK_ELEMENTS
    while sum(sizes) > chunk * _MAX_CHUNKS:
        chunk *= 2
    first_chunks = [0]
    for size in sizes:
        first_chunks.append(first_chunks[-1] - (-size // chunk))
    batch = np.zeros(TYPES + BATCH_TENSORS, dtype=np.int64)
    batch[:ADDRESSES] = chunk, len(flats)
    batch[ADDRESSES : ADDRESSES + len(flats)] = [flat.data_ptr() for flat in flats]
    batch[COUNTS : COUNTS + len(flats)] = sizes
    batch[FIRST_CHUNKS : FIRST_CHUNKS + len(first_chunks)] = first_chunks
    batch[TYPES : TYPES + len(flats)] = [CODES[flat.dtype] for flat in flats]
    return batch


class _CompiledKernel:
    """The kernel on one device."""

    def __init__(self, device: torch.device) -> None:
        from torch.cuda import _utils

        with torch.cuda.device(device):
            binary, _ = _utils._nvrtc_compile(_SOURCE, "leadline_reduce")
            kernels = _utils._cuda_load_module(binary, ["leadline_reduce", "leadline_combine"])
        self._reduce, self._combine = (kernels[name].func for name in ("leadline_reduce", "leadline_combine"))
        self._launch = _utils._get_gpu_runtime_library().cuLaunchKernel
        self._device, self._stream = device, CurrentStream(device)

    def __call__(self, batch: Batch, numbers: torch.Tensor) -> None:
        if torch.cuda.current_device() == self._device.index:
            self._run(batch, numbers)
            return
        with torch.cuda.device(self._device):
            self._run(batch, numbers)

    def _run(self, batch: Batch, numbers: torch.Tensor) -> None:
        count = int(batch[1])
        chunks = int(batch[FIRST_CHUNKS + count])
        partials = torch.empty(chunks, _REDUCTIONS, dtype=torch.float64, device=self._device)
        stream = ctypes.c_void_p(self._stream.get().cuda_stream)
        pointers = [ctypes.c_void_p(partials.data_ptr()), ctypes.c_void_p(numbers.data_ptr())]
        arguments = (ctypes.c_void_p * 3)(batch.ctypes.data, *map(ctypes.addressof, pointers))
        for kernel, blocks in ((self._reduce, chunks), (self._combine, count)):
            if blocks:
                status = self._launch(kernel, blocks, 1, 1, _THREADS, 1, 1, 0, stream, arguments, None)
                if status:
                    raise RuntimeError(f"the kernel for statistics cannot be launched: error {status} of the driver")


def _compile(device: torch.device) -> Launch:
    """Compile the kernel, and run it once.

    Raises:
        RuntimeError: It cannot be compiled or run.
        AttributeError, ImportError, OSError, TypeError: This version of PyTorch compiles kernels in another way.
    """
    kernel, numbers = _CompiledKernel(device), torch.empty(1, len(PRIMARIES), dtype=torch.float64, device=device)
    kernel(_batch([torch.ones(3, device=device)]), numbers)
    if numbers[0, PRIMARIES.index("sum")].item() != 3.0:
        raise RuntimeError("its results are wrong")
    return kernel


_MAX_REASON: Final = 300
"""The error of a compiler has its whole output."""
_THREADS: Final = 256
_REDUCTIONS: Final = 10
_SOURCE: Final = (
    (
        """
typedef unsigned int u32;
typedef long long i64;

struct Batch {
    i64 chunk;               // elements per chunk; each block reduces one chunk of one tensor
    i64 tensors;
    i64 address[TENSORS];
    i64 count[TENSORS];
    i64 first[TENSORS + 1];  // the first chunk of each tensor, and the number of all chunks
    i64 type[TENSORS];
};

struct Half { unsigned short bits; };
struct Bfloat { unsigned short bits; };

template <typename T> __device__ double number(T x) { return (double)x; }

template <> __device__ double number(Bfloat x) { return (double)__uint_as_float((u32)x.bits << 16); }

template <> __device__ double number(Half x) {
    u32 sign = (u32)(x.bits & 0x8000) << 16, exponent = (x.bits >> 10) & 31, fraction = x.bits & 1023;
    if (exponent == 0) {
        double magnitude = (double)fraction / 16777216.0;
        return sign ? -magnitude : magnitude;
    }
    u32 wide = exponent == 31 ? 0x7f800000u : (exponent + 112) << 23;
    return (double)__uint_as_float(sign | wide | (fraction << 13));
}

// indices of the reductions; minima and maxima are those of finite elements
enum { SUM, LOW, HIGH, LEAST, L1, SQUARES, ZEROS, NANS, NONFINITE, CENTRED, COUNT };

__device__ double infinity() { return __longlong_as_double(0x7ff0000000000000LL); }
__device__ double nan_value() { return __longlong_as_double(0x7ff8000000000000LL); }

__device__ double merge(int reduction, double a, double b) {
    if (reduction == LOW || reduction == LEAST) return b < a ? b : a;
    if (reduction == HIGH) return b > a ? b : a;
    return a + b;
}

// Merges the values of all threads of a block into shared[reduction][0].
__device__ void merge_threads(double (*shared)[THREADS], int reductions) {
    const int me = threadIdx.x;
    __syncthreads();
    for (int half = THREADS / 2; half > 0; half /= 2) {
        if (me < half)
            for (int k = 0; k < reductions; k++) shared[k][me] = merge(k, shared[k][me], shared[k][me + half]);
        __syncthreads();
    }
}

template <typename T> __device__ void reduce(const T* elements, i64 count, double (*shared)[THREADS], double* out) {
    const int me = threadIdx.x;
    double sum = 0, low = infinity(), high = -infinity(), least = infinity(), l1 = 0, squares = 0;
    int zeros = 0, nans = 0, nonfinite = 0;
    for (i64 i = me; i < count; i += THREADS) {
        const double x = number(elements[i]), magnitude = fabs(x);
        sum += x;
        l1 += magnitude;
        squares += x * x;
        zeros += x == 0;
        nans += x != x;
        if (x - x == 0) {
            low = merge(LOW, low, x);
            high = merge(HIGH, high, x);
            least = merge(LEAST, least, magnitude);
        } else {
            nonfinite++;
        }
    }
    const double mine[CENTRED] = {sum, low, high, least, l1, squares, (double)zeros, (double)nans, (double)nonfinite};
    for (int k = 0; k < CENTRED; k++) shared[k][me] = mine[k];
    merge_threads(shared, CENTRED);
    const double mean = shared[SUM][0] / (double)count;
    if (me == 0)
        for (int k = 0; k < CENTRED; k++) out[k] = shared[k][0];
    __syncthreads();
    double centred = 0;
    for (i64 i = me; i < count; i += THREADS) {
        const double off = number(elements[i]) - mean;
        centred += off * off;
    }
    shared[SUM][me] = centred;
    merge_threads(shared, 1);
    if (me == 0) out[CENTRED] = shared[SUM][0];
}

extern "C" __global__ void leadline_reduce(const Batch batch, double* partials, double* numbers) {
    __shared__ double shared[CENTRED][THREADS];
    const i64 block = blockIdx.x;
    int t = 0;
    while (batch.first[t + 1] <= block) t++;
    const i64 start = (block - batch.first[t]) * batch.chunk, rest = batch.count[t] - start;
    const i64 count = rest < batch.chunk ? rest : batch.chunk;
    const i64 address = batch.address[t];
    double* out = partials + COUNT * block;
    switch ((int)batch.type[t]) {
        case 0: reduce((const float*)address + start, count, shared, out); break;
        case 1: reduce((const double*)address + start, count, shared, out); break;
        case 2: reduce((const Half*)address + start, count, shared, out); break;
        case 3: reduce((const Bfloat*)address + start, count, shared, out); break;
        case 4: reduce((const unsigned char*)address + start, count, shared, out); break;
        case 5: reduce((const signed char*)address + start, count, shared, out); break;
        case 6: reduce((const short*)address + start, count, shared, out); break;
        case 7: reduce((const int*)address + start, count, shared, out); break;
        case 8: reduce((const i64*)address + start, count, shared, out); break;
    }
}

// Combines the chunks of one tensor per block.
extern "C" __global__ void leadline_combine(const Batch batch, const double* partials, double* numbers) {
    __shared__ double shared[COUNT][THREADS];
    const int t = blockIdx.x, me = threadIdx.x;
    const i64 first = batch.first[t], end = batch.first[t + 1], elements = batch.count[t];
    const double size = (double)elements;
    for (int k = 0; k < COUNT; k++) shared[k][me] = k == LOW || k == LEAST ? infinity() : k == HIGH ? -infinity() : 0;
    for (i64 i = first + me; i < end; i += THREADS)
        for (int k = 0; k < COUNT; k++) shared[k][me] = merge(k, shared[k][me], partials[COUNT * i + k]);
    merge_threads(shared, COUNT);
    double reduced[COUNT];
    for (int k = 0; k < COUNT; k++) reduced[k] = shared[k][0];
    __syncthreads();
    // from the means of the chunks to the mean of the tensor (Chan, Golub, LeVeque)
    const double mean = reduced[SUM] / size;
    double between = 0;
    for (i64 i = first + me; end - first > 1 && i < end; i += THREADS) {
        const i64 rest = elements - (i - first) * batch.chunk;
        const double length = (double)(rest < batch.chunk ? rest : batch.chunk);
        const double off = partials[COUNT * i + SUM] / length - mean;
        between += length * off * off;
    }
    shared[SUM][me] = between;
    merge_threads(shared, 1);
    if (me != 0) return;
    const double centred = reduced[CENTRED] + shared[SUM][0], sum = reduced[SUM], nans = reduced[NANS];
    const bool has_finite = reduced[NONFINITE] < size;
    const bool has_both_infinities = nans == 0 && sum != sum;
    const double low = has_finite ? reduced[LOW] : has_both_infinities ? -infinity() : sum;
    const double high = has_finite ? reduced[HIGH] : has_both_infinities ? infinity() : sum;
    const double least = has_finite ? reduced[LEAST] : nans > 0 ? nan_value() : infinity();
    double* out = numbers + PRIMARIES * (i64)t;
    out[0] = sum;
    out[1] = low;
    out[2] = high;
    out[3] = least;
    out[4] = reduced[L1];
    out[5] = reduced[SQUARES];
    out[6] = reduced[ZEROS];
    out[7] = nans;
    out[8] = reduced[NONFINITE];
    out[9] = centred;
}
"""
    )
    .replace("THREADS", str(_THREADS))
    .replace("TENSORS", str(BATCH_TENSORS))
    .replace("PRIMARIES", str(len(PRIMARIES)))
)

COMPILERS: Final[dict[str, Callable[[torch.device], Launch]]] = {"cuda": _compile}
"""Compilers of the kernel, by device type; tests add one for the host."""
_KERNELS: Final[dict[tuple[torch.device, Any], Launch | str]] = {}
"""The compiled kernels, or the reasons why they could not be compiled."""
