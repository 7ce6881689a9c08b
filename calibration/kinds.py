"""What is fitted for each kind of operation: which form, which parameters, to which rows."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Final, NamedTuple

import pandas as pd

from calibration import read
from calibration.fit import Free, Problem, sample
from calibration.tables import Tables
from perfmodel.machine.efficiency import LinkEfficiency
from perfmodel.machine.forms import AllReduceForm, KernelForm, PrefillForm

QUANTIZED: Final = ("fp8", "fp8-block", "nvfp4")
GDDR: Final = (
    "l40s",
    "rtx-pro-6000-server",
)  # caches of 100 MB, several times what they can stream


class Kind(NamedTuple):
    """One kind of operation."""

    read: Callable[[Tables, dict[str, pd.DataFrame]], pd.DataFrame]
    problem: Callable[[str], Problem]  # of a format
    chosen: Callable[[pd.DataFrame], pd.DataFrame]  # rows of one chip, engine and format
    among: str = ""  # rows that a target speaks of, where not all


def _matrix(name: str) -> Problem:
    free = {
        "compute": Free(0.7, 0.05, 1.6),
        "memory": Free(0.8, 0.05, 1.0),
        "launch": Free(4e-6, 5e-7, 1e-4),
    }
    fixed = {"exponent": 2.0, "fill": 2e-10}
    if name in QUANTIZED:
        # Only here do these pay: more kernels, each with a pipeline of its own, before the product.
        free |= {"fill": Free(2e-10, 1e-11, 2e-9), "prepare": Free(3, 0.5, 40)}
        del fixed["fill"]
    return Problem(KernelForm, free, fixed, ("compute", "memory", "inner", "inputs"))


def _decode(_: str) -> Problem:
    free = {
        "memory": Free(0.8, 0.02, 1.0),
        "launch": Free(1e-5, 5e-7, 2e-4),
        "tile": Free(1e-6, 1e-9, 1e-4),
    }
    return Problem(KernelForm, free, {"exponent": 2.0}, ("compute", "memory", "tiles"))


def _latent_decode(_: str) -> Problem:
    plain = _decode("")
    return plain._replace(free={"compute": Free(0.5, 0.02, 1.6), **plain.free})


def _prefill(_: str) -> Problem:
    free = {
        "compute": Free(0.7, 0.05, 2.0),
        "memory": Free(0.5, 0.05, 1.0),
        "launch": Free(1e-5, 5e-7, 2e-4),
        "tile": Free(1e-7, 1e-9, 1e-4),
    }
    columns = ("compute", "memory", "exponentials", "tiles")
    # Divided by 16 or 32 a clock when read, so that chips can be fitted together.
    return Problem(PrefillForm, free, {"exponent": 1.0, "per_clock": 1.0}, columns)


def _experts(_: str) -> Problem:
    free = {
        "compute": Free(0.7, 0.05, 1.6),
        "memory": Free(0.8, 0.05, 1.0),
        "launch": Free(3e-5, 1e-6, 3e-4),
        "prepare": Free(2, 0.1, 40),
        "activation": Free(0.4, 0.02, 1.0),
    }
    columns = ("compute", "memory", "inputs", "activations")
    return Problem(KernelForm, free, {"exponent": 2.0}, columns)


def _collective(_: str) -> Problem:
    free = {
        "launch": Free(5e-6, 5e-7, 1e-4),
        "hop": Free(1e-6, 2e-9, 2e-5),
        "share": Free(0.7, 0.02, 1.0),
        "half": Free(3e6, 10.0, 1e9),
    }
    return Problem(LinkEfficiency, free, {}, ("wire", "others", "bandwidth"))


def _all_reduce(_: str) -> Problem:
    free = {
        "launch": Free(4e-6, 5e-7, 2e-5),
        "second": Free(8e-6, 5e-7, 1e-3),
        "hop": Free(1e-7, 2e-9, 2e-5),
        "share": Free(0.7, 0.02, 1.0),
        "half": Free(1e5, 10.0, 1e9),
    }
    return Problem(AllReduceForm, free, {}, ("wire", "others", "bandwidth"))


# -- rows ------------------------------------------------------------------------------------------


def _of_products(rows: pd.DataFrame) -> pd.DataFrame:
    """Three of four from large matrices, as models have; none that a cache of GDDR cards feeds."""
    fed = rows.warm & rows.chip.isin(GDDR) & (rows.memory > 1e-6)
    rows = rows[~fed]
    return pd.concat([sample(rows[rows.large], 3000), sample(rows[~rows.large], 1000)])


def _of_decode(rows: pd.DataFrame) -> pd.DataFrame:
    """Caches past twice the chip's, or too small to matter: what lies between stays in it."""
    return pd.concat([sample(rows[rows.cold], 2000), sample(rows[rows.tiny], 2000)])


def _of_experts(rows: pd.DataFrame) -> pd.DataFrame:
    return sample(rows[~(rows.warm & rows.chip.isin(GDDR))], 4000)


def _any(rows: pd.DataFrame) -> pd.DataFrame:
    return sample(rows, 4000)


KINDS: Final[Mapping[str, Kind]] = {
    "matrix": Kind(read.matrix, _matrix, _of_products, "large"),
    "decode-attention": Kind(read.decode, _decode, _of_decode, "cold"),
    "prefill-attention": Kind(read.prefill, _prefill, _any),
    "latent-decode": Kind(read.latent_decode, _latent_decode, _of_decode, "cold"),
    "latent-prefill": Kind(read.latent_prefill, _prefill, _any),
    "experts": Kind(read.experts, _experts, _of_experts),
    "collective": Kind(read.collectives, _collective, _any),
    "own-all-reduce": Kind(read.own_all_reduce, _all_reduce, _any),
}


def constants(kind: str, name: str, chips: tuple[str, ...]) -> dict[str, float]:
    """What a form of some chips has besides what is found."""
    problem = KINDS[kind].problem(name)
    fixed = dict(problem.fixed)
    if problem.form is PrefillForm:
        fixed["per_clock"] = min(read.per_clock(read.chip(key)) for key in chips)
    return {key: value for key, value in fixed.items() if not math.isinf(value)}


def balanced(parts: list[pd.DataFrame], each: int) -> pd.DataFrame:
    """As many rows of each chip."""
    return pd.concat([sample(part, each) for part in parts], ignore_index=True)
