"""NumPy: products are those of a BLAS library; what runs on one thread is dealt out to all."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from math import prod, sqrt
from typing import Any, Final

import numpy as np

from perfmodel.base.errors import MissingExtraError
from perfmodel.interfaces.measuring import host
from perfmodel.interfaces.measuring.arrays import Arrays

_BLOCK: Final = 2**16  # numbers that stay in a core's own cache


class NumpyArrays(Arrays):
    lib, version, formats = np, np.__version__, ("fp32",)

    def __init__(self, threads: int | None) -> None:
        self._asked, self._random = threads, np.random.default_rng(0)
        self._threads = threads or host.cores()
        self._pool = ThreadPoolExecutor(self._threads)
        built: Any = np.show_config(mode="dicts")
        self.blas = str(built.get("Build Dependencies", {}).get("blas", {}).get("name", ""))
        self.name, self.cache = host.cpu_name(), host.last_level_cache()
        self.memory, self.free = host.memory()

    @contextmanager
    def limited(self) -> Iterator[int | None]:
        try:
            import threadpoolctl
        except ImportError:
            if self._asked is not None:
                raise MissingExtraError(
                    'threads needs threadpoolctl: pip install "perfmodel[measure]"'
                ) from None
            yield None
            return
        with threadpoolctl.threadpool_limits(self._asked, user_api="blas"):
            pools = [x for x in threadpoolctl.threadpool_info() if x["user_api"] == "blas"]
            for pool in pools[:1]:
                self.blas = f"{pool['internal_api']} {pool['version'] or ''}".strip()
            running = max((pool["num_threads"] for pool in pools), default=None)
            self._threads = min(running or self._threads, self._threads)  # all roofs on as many
            yield running

    def random(self, *shape: int, scale: float = 1.0, form: str = "fp32") -> Any:
        found = self._random.random(prod(shape), dtype=np.float32)
        found -= 0.5
        found *= 2 * scale
        return found.reshape(shape)

    def array(self, values: Any, form: str | None = None) -> Any:
        return np.asarray(values, dtype=np.int64 if form is None else np.float32)

    def wide(self, a: Any) -> Any:
        return a

    def _dealt(self, call: Callable[..., Any], *lists: Any) -> list[Any]:
        """A call on equal parts of lists, each on a thread of its own."""
        size = -(-len(lists[0]) // self._threads)
        starts = range(0, len(lists[0]), size)
        return list(self._pool.map(lambda i: call(*(x[i : i + size] for x in lists)), starts))

    def dot(self, a: Any, b: Any) -> Any:
        return sum(self._dealt(np.dot, a, b))

    def copy(self, a: Any, out: Any) -> None:
        self._dealt(np.copyto, out, a)

    def add(self, a: Any, b: Any, out: Any) -> None:
        self._dealt(np.add, a, b, out)

    def triad(self, a: Any, b: Any, out: Any) -> None:
        self._dealt(_triad, a, b, out)

    def attend(self, q: Any, k: Any, v: Any) -> Any:
        batch, heads, new, width = q.shape
        groups, context = k.shape[1:3]
        shared = q.reshape(batch, groups, heads // groups * new, width)
        scores = np.matmul(shared, k.swapaxes(-1, -2))
        scores *= 1 / sqrt(width)
        if new > 1:
            later = np.triu(np.ones((new, context), dtype=bool), context - new + 1)
            scores.reshape(batch, heads, new, context)[:, :, later] = -np.inf
        scores -= scores.max(axis=-1, keepdims=True)
        np.exp(scores, out=scores)
        scores /= scores.sum(axis=-1, keepdims=True)
        return np.matmul(scores, v).reshape(batch, heads, new, width)


def _triad(a: Any, b: Any, out: Any) -> None:
    for i in range(0, len(a), _BLOCK):  # two steps, the second in a cache
        part = out[i : i + _BLOCK]
        np.multiply(b[i : i + _BLOCK], 3, out=part)
        np.add(a[i : i + _BLOCK], part, out=part)
