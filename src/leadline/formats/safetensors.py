"""The types of elements in safetensors files, by the names that files, numpy and PyTorch have for them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[Any]


def _from_bfloat16(bits: Array) -> Array:
    return (bits.astype(np.uint32) << 16).view(np.float32)


def _from_e5m2(bits: Array) -> Array:
    """Convert to float32; a float8 E5M2 is the upper byte of a float16."""
    with np.errstate(invalid="ignore"):  # signaling NaNs would warn
        return (bits.astype(np.uint16) << 8).view(np.float16).astype(np.float32)


def _from_e4m3(bits: Array) -> Array:
    """Convert OCP 8-bit floating point E4M3 to float32: four exponent bits, three mantissa bits, no infinity."""
    exponent, mantissa = (bits >> 3 & 15).astype(np.int32), (bits & 7).astype(np.float32)
    moduli = np.ldexp(np.where(exponent == 0, mantissa, mantissa + 8), np.maximum(exponent, 1) - 10)
    moduli = np.where((bits & 127) == 127, np.float32("nan"), moduli)
    return np.where(bits & 128, -moduli, moduli).astype(np.float32)


@dataclass(frozen=True, slots=True)
class ElementType:
    """A type of elements."""

    name: str
    """Its name in files."""
    dtype: str
    """Its name in numpy or PyTorch."""
    stored: str
    """The type with which numpy reads it from a file."""
    widen: Callable[[Array], Array] | None = None
    """Converts what numpy has read to float32; None: numpy has the type itself."""
    is_standard: bool = True
    """Whether the library safetensors reads it; it refuses a whole file with a type that it does not know."""


_ALL: Final = (
    ElementType("F64", "float64", "<f8"),
    ElementType("F32", "float32", "<f4"),
    ElementType("F16", "float16", "<f2"),
    ElementType("BF16", "bfloat16", "<u2", _from_bfloat16),
    ElementType("F8_E4M3", "float8_e4m3fn", "u1", _from_e4m3),
    ElementType("F8_E5M2", "float8_e5m2", "u1", _from_e5m2),
    ElementType("C64", "complex64", "<c8"),
    ElementType("C128", "complex128", "<c16", is_standard=False),
    ElementType("I64", "int64", "<i8"),
    ElementType("I32", "int32", "<i4"),
    ElementType("I16", "int16", "<i2"),
    ElementType("I8", "int8", "i1"),
    ElementType("U64", "uint64", "<u8"),
    ElementType("U32", "uint32", "<u4"),
    ElementType("U16", "uint16", "<u2"),
    ElementType("U8", "uint8", "u1"),
    ElementType("BOOL", "bool", "?"),
)
TYPES: Final[dict[str, ElementType]] = {one.name: one for one in _ALL}
"""The types by their names in files."""
NAMES: Final[dict[str, str]] = {one.dtype: one.name for one in _ALL}
"""Their names in files by those in numpy or PyTorch."""
STANDARD_NAMES: Final[dict[str, str]] = {one.dtype: one.name for one in _ALL if one.is_standard}
"""The same, of those that the library safetensors reads."""
