"""In what weights and cache of a run are stored, and the fastest that it may compute in.

Where a file mixes formats, each matrix counts in the narrowest of the mix: a bound from below.
"""

from __future__ import annotations

from functools import cache

import perfmodel as pm
from floors.checks import NoFloorError, fastest
from perfmodel.base.formats import FORMATS, Format
from perfmodel.base.precision import MatrixFormats, Precision

HALF = ("bf16", "fp16")
# Kernels of some engines sum fp16 products in fp16, which consumer chips do twice as fast.
HALF16 = ("fp16_acc16", *HALF)
FP8 = ("fp8", "fp8_acc16", *HALF)
# llama.cpp quantizes activations to int8 where a chip has units for it.
INT8 = ("int8", *HALF16)

# weights as the data writes them: what blocks and head are stored in, what they may compute in
_WEIGHTS: dict[str, tuple[str, str, tuple[str, ...]]] = {
    "bf16": ("bf16", "bf16", HALF),
    "bf16 (default, not stated)": ("bf16", "bf16", HALF),
    "bf16 (not stated)": ("bf16", "bf16", HALF),
    "f16": ("fp16", "fp16", HALF16),
    "fp16": ("fp16", "fp16", HALF16),
    "fp16 (not stated)": ("fp16", "fp16", HALF),
    "full_prec": ("fp16", "fp16", HALF),
    "fp8": ("fp8", "bf16", FP8),
    "fp8 (assumed; MoE backend is FP8)": ("fp8", "bf16", FP8),
    "fp8 (see recipe --model; verify)": ("fp8", "bf16", FP8),
    "int8": ("int8", "int8", HALF),
    "int8_sq": ("int8", "fp16", ("int8",)),
    "int8 (w8a8 smoothquant)": ("int8", "fp16", ("int8",)),
    "int8-gptq": ("int8-row", "bf16", HALF),
    "int4": ("int4-g128", "int4-g128", INT8),
    "int4-awq": ("int4-g128z", "bf16", HALF),
    "int4-gptq": ("int4-g128", "bf16", HALF),
    "int4-awq-g128": ("int4-g128z", "int4-g128z", HALF16),
    "int4-g32": ("int4-g32", "int4-g32", HALF),
    "int4 (AWQ)": ("int4-g128z", "fp16", HALF),
    "int4 (GPTQ g-)": ("int4-g128", "fp16", HALF16),
    "int4 (GPTQ g128)": ("int4-g128", "fp16", HALF16),
    "int4 (GPTQ g32)": ("int4-g32", "fp16", HALF16),
    "int4 (q4f16_1)": ("int4-g32", "int4-g32", HALF16),
    "int4 (w4a16)": ("int4-g128", "fp16", HALF),
    "int4 (w4a8)": ("int4-g128", "fp16", ("int8",)),
    "int4 (w4a4)": ("int4-g128", "fp16", ("int4", "int8")),
    "mxfp4": ("mxfp4", "q8_0", INT8),
    "mxfp4 experts + f16 rest": ("mxfp4", "fp16", INT8),
    "bfp8/bfp4 mix (not stated in table)": ("bfp4", "bfp4", FP8),
    "nvfp4": ("nvfp4", "bf16", ("nvfp4", *FP8)),
    "nvfp4 MoE/FFN + bf16 attention": ("nvfp4", "bf16", ("nvfp4", *FP8)),
    "q8_0": ("q8_0", "q8_0", INT8),
    "q4_0": ("q4_0", "q4_0", INT8),
    "q4_k_m": ("q4_k", "q4_k", INT8),
    "ud-q8_k_xl": ("q8_0", "q8_0", INT8),
    "ud-q6_k_xl": ("q5_k", "q5_k", INT8),
    "ud-q5_k_xl": ("q4_k", "q4_k", INT8),
    "ud-q4_k_xl": ("iq4_xs", "iq4_xs", INT8),
    "ud-q3_k_xl": ("q2_k", "q2_k", INT8),
    "ud-q3_k_s": ("q2_k", "q2_k", INT8),
    "exl2 5.0 bpw": ("exl2-5.0", "exl2-5.0", HALF16),
    "exl2 4.0 bpw": ("exl2-4.0", "exl2-4.0", HALF16),
    "exl2 3.0 bpw": ("exl2-3.0", "exl2-3.0", HALF16),
    "exl2 2.5 bpw": ("exl2-2.5", "exl2-2.5", HALF16),
}
# Bits a weight that ExLlamaV2 states for a whole model; sixteen values of a block format of
# Tenstorrent share an exponent.
_STATED = {
    "bfp4": Format(name="bfp4", bits=4, scale_bits=8, block=16),
    "exl2-5.0": Format(name="exl2-5.0", bits=5),
    "exl2-4.0": Format(name="exl2-4.0", bits=4),
    "exl2-3.0": Format(name="exl2-3.0", bits=3),
    "exl2-2.5": Format(name="exl2-2.5", bits=2, scale_bits=1, block=2),
}


@cache
def precision(weights: str, kv: str, gpu: pm.GpuSpec) -> Precision:
    """The precision of a run on a chip."""
    if weights not in _WEIGHTS:
        raise NoFloorError(f"weights are stored as {weights or 'is not stated'}")
    blocks, head, formats = _WEIGHTS[weights]
    cached = _cache(kv)
    attention = fastest(gpu, HALF16 if cached.bits == 16 else ("fp8", *HALF16))
    compute = fastest(gpu, formats)
    return Precision(
        name=f"{weights}, {cached.name}, {compute}, {attention}",
        linear=_formats(blocks, compute),
        head=_formats(head, fastest(gpu, formats if head == blocks else HALF16)),
        kv=cached,
        attention=attention,
        state=FORMATS["bf16"],
    )


def _cache(kv: str) -> Format:
    """The narrowest format that the cache may have; where it is not stated, 8 bits."""
    if kv == "int4":
        return Format(name="int4", bits=4)
    halves = ("fp16", "bf16", "f16", "fp16/bf16 (not stated)", "fp16 (auto)", "bf16 (not stated)")
    return FORMATS["bf16" if kv in halves else "fp8"]


def _formats(weights: str, compute: str) -> MatrixFormats:
    stored = _STATED.get(weights) or FORMATS[weights]
    half = FORMATS["bf16"]
    return MatrixFormats(weights=stored, inputs=half, outputs=half, compute=compute)
