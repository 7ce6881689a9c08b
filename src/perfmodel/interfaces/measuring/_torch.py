"""PyTorch: on a processor, a CUDA device, or Apple's."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Final

import torch
from torch.nn.functional import scaled_dot_product_attention

from perfmodel.base.errors import InvalidValueError
from perfmodel.interfaces.measuring import host
from perfmodel.interfaces.measuring.arrays import Arrays

_TYPES: Final = {"fp32": torch.float32, "bf16": torch.bfloat16, "fp16": torch.float16}


class TorchArrays(Arrays):
    lib, version, formats = torch, str(torch.__version__), tuple(_TYPES)

    def __init__(self, device: str, threads: int | None) -> None:
        there = {"cuda": torch.cuda.is_available, "mps": torch.backends.mps.is_available}
        if device in there and not there[device]():
            raise InvalidValueError(f"device: PyTorch {self.version} finds no {device} here")
        self.device, self._asked = device, threads
        self.name, self.cache = host.cpu_name(), host.last_level_cache()
        self.memory, self.free = host.memory()
        if device == "cuda":
            about = torch.cuda.get_device_properties(0)
            self.name, self.cache = about.name, about.L2_cache_size
            self.free, self.memory = torch.cuda.mem_get_info()
        elif device == "mps":
            self.cache = None  # one of the whole chip, which nothing tells
        if device != "cpu":
            self.least = 4 * 2**30

    @contextmanager
    def limited(self) -> Iterator[int | None]:
        before = torch.get_num_threads()
        try:
            if self._asked is not None:
                torch.set_num_threads(self._asked)
            with torch.inference_mode():
                yield torch.get_num_threads() if self.device == "cpu" else None
        finally:
            torch.set_num_threads(before)

    def random(self, *shape: int, scale: float = 1.0, form: str = "fp32") -> Any:
        return torch.empty(shape, dtype=_TYPES[form], device=self.device).uniform_(-scale, scale)

    def array(self, values: Any, form: str | None = None) -> Any:
        return torch.tensor(values, dtype=_TYPES.get(form or ""), device=self.device)

    def wide(self, a: Any) -> Any:
        return a.view(torch.float32)

    def wait(self) -> None:
        if self.device != "cpu":
            getattr(torch, self.device).synchronize()

    def triad(self, a: Any, b: Any, out: Any) -> None:
        torch.add(a, b, alpha=3, out=out)

    def attend(self, q: Any, k: Any, v: Any) -> Any:
        new, context = q.shape[2], k.shape[2]
        mask = None
        if 1 < new < context:
            mask = torch.ones(new, context, dtype=torch.bool, device=q.device).tril(context - new)
        return scaled_dot_product_attention(
            q, k, v, attn_mask=mask, is_causal=1 < new == context, enable_gqa=True
        )
