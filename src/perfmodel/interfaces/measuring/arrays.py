"""The arithmetic of jobs and of the decoder, in whichever library it runs."""

from __future__ import annotations

from math import pi, sqrt
from typing import Any, Literal, TypeAlias

from perfmodel.base.errors import InvalidValueError, MissingExtraError
from perfmodel.base.spec import checked_choice

Backend: TypeAlias = Literal["numpy", "torch"]
Processor: TypeAlias = Literal["cpu", "cuda", "mps"]


class Arrays:
    """What NumPy and PyTorch spell alike; the rest is each one's own."""

    lib: Any
    version: str
    formats: tuple[str, ...]
    name: str  # of the processor
    blas: str = ""
    cache: int | None
    memory: int | None
    free: int | None
    least: float = 256 * 2**20  # B; a smaller table is read too soon to be timed well

    # Methods of each library's own.
    limited: Any  # () -> context: threads held at what was asked for; gives how many there are
    random: Any  # (*shape, scale, form) -> numbers from -scale to scale
    array: Any  # (values, form) -> given numbers; whole ones without a format
    wide: Any  # (a) -> the same memory as fp32 numbers, which every library reads at full speed
    triad: Any  # (a, b, out): a + 3 b, in one pass over the memory
    attend: Any  # (q, k, v), each batch x heads x tokens x width -> causal attention

    def wait(self) -> None:
        """Until all that was asked for is done."""

    def product(self, x: Any, weights: Any, out: Any = None) -> Any:
        """``x`` times the transpose of ``weights``, which are stored one row an output."""
        return self.lib.matmul(x, weights.T, out=out)

    def dot(self, a: Any, b: Any) -> Any:
        """The sum of all products of two lists."""
        return self.lib.dot(a, b)

    def copy(self, a: Any, out: Any) -> None:
        """Copy a list."""
        out[:] = a

    def add(self, a: Any, b: Any, out: Any) -> None:
        """Add two lists."""
        self.lib.add(a, b, out=out)

    def norm(self, x: Any, scale: Any, shift: Any = None) -> Any:
        """RMSNorm; with a shift, LayerNorm."""
        if shift is not None:
            x = x - self.lib.mean(x, axis=-1, keepdims=True)
        mean = self.lib.mean(x * x, axis=-1, keepdims=True)
        x = x / self.lib.sqrt(mean + 1e-6) * scale
        return x if shift is None else x + shift

    def silu(self, x: Any) -> Any:
        """``x`` times its sigmoid."""
        return x / (1 + self.lib.exp(-x))

    def gelu(self, x: Any) -> Any:
        """GELU, by its tanh form."""
        return 0.5 * x * (1 + self.lib.tanh(sqrt(2 / pi) * (x + 0.044715 * x * x * x)))

    def rotate(self, x: Any, cos: Any, sin: Any) -> Any:
        """Turn the halves of each head by the angles of its position."""
        half = x.shape[-1] // 2
        a, b = x[..., :half], x[..., half:]
        return self.lib.concatenate((a * cos - b * sin, b * cos + a * sin), -1)


def arrays_of(backend: Backend, device: Processor, threads: int | None) -> Arrays:
    """The library of that name, on that device.

    Raises
    ------
    InvalidValueError
        If there is no such library or device, or the library does not know the device.
    MissingExtraError
        If PyTorch is not installed.
    """
    checked_choice("backend", backend, ("numpy", "torch"))
    checked_choice("device", device, ("cpu", "cuda", "mps"))
    if backend == "numpy":
        from perfmodel.interfaces.measuring._numpy import NumpyArrays

        if device != "cpu":
            raise InvalidValueError(
                f'device: NumPy knows the cpu alone, got {device!r}; backend="torch" knows others'
            )
        return NumpyArrays(threads)
    try:
        from perfmodel.interfaces.measuring._torch import TorchArrays
    except ImportError:
        raise MissingExtraError('backend: "torch" needs PyTorch: pip install torch') from None
    return TorchArrays(device, threads)
