"""What is fitted for each kind of operation: which form, which parameters, to which rows."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Final, NamedTuple

import pandas as pd

from calibration import read
from calibration.fit import Problem, sample
from calibration.tables import Tables
from perfmodel.answers.calibrating.kinds import per_clock, problem
from perfmodel.machine.forms import PrefillForm

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


# What the form of each kind reads, beside the times at both roofs.
_COLUMNS: Final = {
    "matrix": ("inner", "inputs"),
    "decode-attention": ("tiles",),
    "latent-decode": ("tiles",),
    "prefill-attention": ("exponentials", "tiles"),
    "latent-prefill": ("exponentials", "tiles"),
    "experts": ("inputs", "activations"),
}


def _problem(kind: str) -> Callable[[str], Problem]:
    """Of a format, as the library has it."""
    columns = ("compute", "memory", *_COLUMNS[kind])

    def of_format(name: str) -> Problem:
        asked = problem(kind, name)
        if asked.form is PrefillForm:
            # Divided by 16 or 32 a clock when read, so that chips can be fitted together.
            asked = asked._replace(fixed={**asked.fixed, "per_clock": 1.0})
        return Problem(asked, columns)

    return of_format


def _wired(kind: str) -> Callable[[str], Problem]:
    """Of any collective of a kind."""
    return lambda _: Problem(problem(kind), ("wire", "others", "bandwidth"))


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
    "matrix": Kind(read.matrix, _problem("matrix"), _of_products, "large"),
    "decode-attention": Kind(read.decode, _problem("decode-attention"), _of_decode, "cold"),
    "prefill-attention": Kind(read.prefill, _problem("prefill-attention"), _any),
    "latent-decode": Kind(read.latent_decode, _problem("latent-decode"), _of_decode, "cold"),
    "latent-prefill": Kind(read.latent_prefill, _problem("latent-prefill"), _any),
    "experts": Kind(read.experts, _problem("experts"), _of_experts),
    "collective": Kind(read.collectives, _wired("all-reduce"), _any),
    "own-all-reduce": Kind(read.own_all_reduce, _wired("own-all-reduce"), _any),
}


def constants(kind: str, name: str, chips: tuple[str, ...]) -> dict[str, float]:
    """What a form of some chips has besides what is found."""
    asked = KINDS[kind].problem(name).asked
    fixed = dict(asked.fixed)
    if asked.form is PrefillForm:
        fixed["per_clock"] = min(per_clock(read.chip(key)) for key in chips)
    return {key: value for key, value in fixed.items() if not math.isinf(value)}


def balanced(parts: list[pd.DataFrame], each: int) -> pd.DataFrame:
    """As many rows of each chip."""
    return pd.concat([sample(part, each) for part in parts], ignore_index=True)
