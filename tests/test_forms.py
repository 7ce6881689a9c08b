"""The forms of kernels: ideal is the roof, nothing is below it, and worked numbers come out."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
import sympy
from hypothesis import given
from hypothesis import strategies as st

import perfmodel as pm
from perfmodel.base._data import catalogs, read_toml
from perfmodel.base.errors import InvalidValueError
from perfmodel.machine.efficiency import LinkEfficiency
from perfmodel.machine.forms import (
    AllReduceForm,
    HostForm,
    KernelForm,
    PrefillForm,
    StreamForm,
    joined,
)
from perfmodel.sources._fits import read_fits

SECONDS = st.floats(1e-9, 1e3)
COUNTS = st.integers(0, 10**9)
SHARES = st.floats(0.01, 1)
LAUNCHES = st.just(0.0) | st.floats(1e-9, 1e-3)
EXPONENTS = st.just(math.inf) | st.floats(1, 16)

KERNELS = st.builds(
    KernelForm,
    compute=st.floats(0.01, 2),
    memory=SHARES,
    launch=LAUNCHES,
    fill=st.floats(0, 1e-6),
    exponent=EXPONENTS,
    prepare=LAUNCHES.map(lambda x: 1e4 * x),
    tile=LAUNCHES,
    activation=st.none() | SHARES,
)
PREFILLS = st.builds(
    PrefillForm,
    compute=st.floats(0.01, 2),
    memory=SHARES,
    launch=LAUNCHES,
    exponent=EXPONENTS,
    per_clock=st.none() | st.floats(1, 64),
    tile=LAUNCHES,
)


# -- ideal -----------------------------------------------------------------------------------------


@given(compute=SECONDS, memory=SECONDS, count=COUNTS)
def test_ideal_forms_are_the_roof_to_the_bit(compute, memory, count):
    roof = pm.Efficiency().time(compute=compute, memory=memory)
    kernel = KernelForm().time(
        compute=compute, memory=memory, inner=count, inputs=memory, tiles=count
    )
    prefill = PrefillForm().time(compute=compute, memory=memory, exponentials=compute, tiles=count)
    assert kernel == prefill == roof == max(compute, memory)


@given(wire=st.floats(1, 1e12), others=st.integers(1, 575))
def test_an_ideal_all_reduce_takes_its_wire(wire, others):
    assert AllReduceForm().time(wire=wire, others=others, bandwidth=450e9) == wire / 450e9


@given(bandwidth=st.floats(1e9, 1e14))
def test_an_ideal_stream_has_all_bandwidth(bandwidth):
    assert StreamForm().bandwidth(bandwidth, units=132, clock=1.8e9) == bandwidth


def test_an_ideal_host_adds_nothing():
    assert HostForm().time(sequences=64) == 0


# -- bounds ----------------------------------------------------------------------------------------


@given(form=KERNELS, compute=SECONDS, memory=SECONDS, part=SHARES, count=COUNTS)
def test_no_kernel_beats_its_roof(form, compute, memory, part, count):
    time = form.time(
        compute=compute, memory=memory, inner=count, inputs=memory, tiles=count,
        activations=0.99 * part * memory,
    )  # fmt: skip
    assert time >= max(compute, memory)


@given(form=PREFILLS, compute=SECONDS, memory=SECONDS, count=COUNTS)
def test_no_prefill_beats_its_roof(form, compute, memory, count):
    time = form.time(compute=compute, memory=memory, exponentials=compute, tiles=count)
    assert time >= max(compute, memory)


@given(form=KERNELS, compute=SECONDS, memory=SECONDS, more=st.floats(1, 100))
def test_more_work_never_takes_less(form, compute, memory, more):
    less = form.time(compute=compute, memory=memory, inner=64, inputs=1e-6, tiles=3)
    for longer in (
        form.time(compute=more * compute, memory=memory, inner=64, inputs=1e-6, tiles=3),
        form.time(compute=compute, memory=more * memory, inner=64, inputs=1e-6, tiles=3),
        form.time(compute=compute, memory=memory, inner=64 * more, inputs=1e-6, tiles=3),
        form.time(compute=compute, memory=memory, inner=64, inputs=more * 1e-6, tiles=3),
        form.time(compute=compute, memory=memory, inner=64, inputs=1e-6, tiles=3 * more),
    ):
        assert longer >= less * (1 - 1e-12)


@given(
    share=SHARES, rate=st.none() | st.floats(0.1, 64), exponent=EXPONENTS,
    bandwidth=st.floats(1e9, 1e14), units=st.integers(1, 1000),
)  # fmt: skip
def test_no_stream_exceeds_either_limit(share, rate, exponent, bandwidth, units):
    form = StreamForm(memory=share, rate=rate, exponent=exponent)
    reached = form.bandwidth(bandwidth, units=units, clock=1.8e9)
    assert 0 < reached <= share * bandwidth <= bandwidth
    assert rate is None or reached <= rate * units * 1.8e9


@given(
    wire=st.floats(1, 1e12), others=st.integers(1, 575), share=SHARES,
    launch=LAUNCHES, second=LAUNCHES, half=st.floats(1, 1e9),
)  # fmt: skip
def test_no_all_reduce_beats_its_wire(wire, others, share, launch, second, half):
    form = AllReduceForm(launch=launch, second=second, share=share, half=half)
    assert form.time(wire=wire, others=others, bandwidth=450e9) >= wire / 450e9


@pytest.mark.parametrize(
    ("compute", "memory"), [(-1, 1), (1, 0), (1, -1), (math.nan, 1), (1, math.nan), (math.inf, 1)]
)
def test_forms_take_times(compute, memory):
    for form in (KernelForm(), PrefillForm()):
        with pytest.raises(InvalidValueError, match="memory above 0"):
            form.time(compute=compute, memory=memory)


@pytest.mark.parametrize(
    ("form", "field"),
    [
        (KernelForm, {"memory": 1.1}),
        (KernelForm, {"compute": 0}),
        (KernelForm, {"exponent": 0.5}),
        (KernelForm, {"fill": -1e-9}),
        (KernelForm, {"launch": -1e-6}),
        (KernelForm, {"activation": 0}),
        (PrefillForm, {"per_clock": 0}),
        (StreamForm, {"rate": -1}),
        (HostForm, {"constant": -1e-3}),
        (AllReduceForm, {"share": 2}),
    ],
)
def test_parameters_are_in_range(form, field):
    with pytest.raises(InvalidValueError, match=f"{form.__name__}.{next(iter(field))}"):
        form(**field)


# -- floats, arrays, symbols -----------------------------------------------------------------------

FORMS: list[tuple[Any, dict[str, float]]] = [
    (
        KernelForm(compute=0.7, memory=0.8, launch=4e-6, fill=2e-10, exponent=2, prepare=3.0),
        {"compute": 3e-5, "memory": 2e-5, "inner": 4096.0, "inputs": 1e-7},
    ),
    (
        KernelForm(memory=0.9, launch=1e-5, exponent=2, tile=1e-6),
        {"compute": 1e-7, "memory": 3e-5, "tiles": 12.5},
    ),
    (
        KernelForm(compute=1.6, memory=0.8, launch=2e-5, exponent=2, activation=0.3),
        {"compute": 3e-5, "memory": 2e-4, "activations": 5e-5},
    ),
    (
        PrefillForm(compute=0.8, memory=0.6, launch=1e-5, exponent=1, per_clock=16, tile=1e-6),
        {"compute": 3e-4, "memory": 2e-5, "exponentials": 1e-3, "tiles": 40.0},
    ),
    (
        AllReduceForm(launch=3e-6, second=6e-6, hop=1e-7, share=0.7, half=1e5),
        {"wire": 1e6, "others": 7.0, "bandwidth": 450e9},
    ),
    (
        HostForm(constant=3e-4, sequence=9e-6),
        {"sequences": 32.0},
    ),
]


@pytest.mark.parametrize(("form", "given_"), FORMS)
def test_one_arithmetic_for_floats_arrays_and_symbols(form, given_):
    expected = form.time(**given_)
    arrays = {name: np.array([value, 2 * value]) for name, value in given_.items()}
    twice = form.time(**{name: 2 * value for name, value in given_.items()})
    assert form.time(**arrays).tolist() == pytest.approx([expected, twice], rel=1e-14)
    symbols = {name: sympy.Symbol(name, positive=True) for name in given_}
    closed = form.time(**symbols)
    found = closed.subs({symbols[name]: value for name, value in given_.items()})
    assert float(found) == pytest.approx(expected, rel=1e-12)


# -- worked by hand --------------------------------------------------------------------------------


def test_two_times_join():
    assert joined(6.0, 8.0, 2) == 10
    assert joined(6.0, 8.0, 1) == 14
    assert joined(6.0, 8.0, math.inf) == 8
    assert joined(0.0, 8.0, 2) == 8


def test_a_quantized_product():
    form = KernelForm(compute=0.5, memory=0.8, launch=4.0, fill=0.0002, exponent=2, prepare=3.0)
    # 3 / .5 = 6 and 6.4 / .8 = 8 join to 10; 5000 x .0002 = 1; 3 B x .8 s/B / .8 = 3; 4 to launch.
    assert form.time(compute=3.0, memory=6.4, inner=5000, inputs=0.8) == pytest.approx(18)


def test_experts_move_activations_apart():
    form = KernelForm(compute=0.5, memory=0.8, exponent=2, activation=0.4)
    # 4 / .5 = 8 and (6.4 - 1.6) / .8 = 6 join to 10; then 1.6 / .4 = 4.
    assert form.time(compute=4.0, memory=6.4, activations=1.6) == pytest.approx(14)


def test_many_short_contexts_cost_by_their_number():
    form = KernelForm(memory=0.8, launch=10.0, exponent=2, tile=0.06)
    # 256 sequences x 8 KV heads on 128 multiprocessors are 16 tiles each, of .06: .96, against
    # .224 / .8 = .28 of traffic: sqrt(.96^2 + .28^2) = 1.
    assert form.time(compute=0.0, memory=0.224, tiles=256 * 8 / 128) == pytest.approx(11, rel=1e-6)


def test_prefill_adds_its_parts():
    form = PrefillForm(compute=0.8, memory=0.5, launch=12.0, exponent=1, per_clock=16, tile=0.25)
    # 12 + 4 / .8 + 1 / .5 + 48 / 16 + 8 x .25 = 12 + 5 + 2 + 3 + 2
    assert form.time(compute=4.0, memory=1.0, exponentials=48.0, tiles=8) == pytest.approx(24)


def test_a_multiprocessor_streams_so_much():
    # An A100 of 2.039e12 B/s: 108 x 1.41e9 Hz x 6 B = 0.914e12 B/s, and a measured 925 to 937 GB/s
    # at the margin of llama.cpp. A card of 0.36e12 B/s and 48 x 2.175e9 x 6 = 0.626e12 is not held.
    form = StreamForm(memory=0.95, rate=6)
    a100 = form.bandwidth(2.039e12, units=108, clock=1.41e9)
    assert a100 == pytest.approx(0.914e12, rel=0.002)
    ada = form.bandwidth(0.36e12, units=48, clock=2.175e9)
    assert ada == pytest.approx(0.95 * 0.36e12, rel=0.002)
    equal = StreamForm(rate=1, exponent=1).bandwidth(2e9, units=1, clock=2e9)
    assert equal == pytest.approx(1e9)  # 1 / (1/2 + 1/2)


def test_one_shot_for_little_and_two_for_much():
    form = AllReduceForm(launch=2.0, second=5.0, hop=0.1, share=0.5, half=4.0)
    # Eight devices, 1 B/s: .125 B on a ring's wire are .5 B in one shot: .7 + 2 + .5 / .5 = 3.7.
    assert form.time(wire=0.125, others=7, bandwidth=1.0) == pytest.approx(3.7)
    # 16 B: one shot 2 + 64 / .5 = 130; two 5 + (16 + sqrt(64)) / .5 = 53; and .7 for the others.
    assert form.time(wire=16.0, others=7, bandwidth=1.0) == pytest.approx(53.7)


def test_a_host_adds_to_a_step():
    form = HostForm(constant=0.5, sequence=0.01)
    # .5 + 32 x .01
    assert form.time(sequences=32) == pytest.approx(0.82)


# -- the catalog -----------------------------------------------------------------------------------

KINDS: dict[str, Any] = {
    "matrix": KernelForm,
    "decode-attention": KernelForm,
    "latent-decode": KernelForm,
    "experts": KernelForm,
    "prefill-attention": PrefillForm,
    "latent-prefill": PrefillForm,
}
COLLECTIVES: dict[str, Any] = {
    "all-reduce": LinkEfficiency,
    "all-gather": LinkEfficiency,
    "reduce-scatter": LinkEfficiency,
    "all-to-all": LinkEfficiency,
    "own-all-reduce": AllReduceForm,
}
FILES = sorted((catalogs() / "efficiency").glob("*.toml"))


def fits(file: dict[str, Any]) -> Iterator[tuple[Any, dict[str, Any]]]:
    """Form and what was tested, of every fit in a file."""
    for kind, table in file.items():
        if kind in KINDS:
            for engines in table.values():
                yield from ((KINDS[kind], fit) for fit in engines.values())
        elif kind in COLLECTIVES:
            for fit in table.values():
                yield AllReduceForm if "second" in fit["form"] else COLLECTIVES[kind], fit


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_every_fit_is_of_a_form_and_says_what_it_misses(path):
    file = read_fits(path)
    known = {"key", "family", "chips", "base", "launches", "origin", *KINDS, *COLLECTIVES}
    assert set(file) <= known
    assert file["key"] == path.stem
    found = list(fits(file))
    assert found
    for form, fit in found:
        form(**fit["form"])  # in range, and no field that the form has not
        tested = fit["tested"]
        assert tested["rows"] >= 16
        assert tested["mean"] > 0
        assert tested["p90"] > 0
        assert 0 < tested["low"] < tested["high"]


def test_chips_and_families_name_each_other():
    files = {path.stem: read_toml(path) for path in FILES}
    families = {key: file["chips"] for key, file in files.items() if "chips" in file}
    for key, file in files.items():
        if "family" in file:
            assert key in families[file["family"]]
    assert {chip for chips in families.values() for chip in chips} <= set(files)
    assert "unknown" in files
