"""Hostile input ends in one error of one printable line, or in the right answer; in nothing else.

Each section is a kind of fault that was once found; the letters are those of that list.
"""

from __future__ import annotations

import copy
import itertools
import json
import math
import os
import pickle
import shutil
import subprocess
import sys
import time
from decimal import Decimal
from fractions import Fraction
from numbers import Real

import numpy as np
import pandas as pd
import pytest

import perfmodel as pm
from perfmodel import symbolic
from perfmodel.base.formats import FORMATS
from perfmodel.interfaces.cli import run
from perfmodel.interfaces.symbolic import exact, twin
from perfmodel.machine.efficiency import IDEAL

E = pm.errors
GPU = pm.GpuSpec(
    name="mine",
    memory_bandwidth=1e12,
    memory_capacity=80e9,
    peak_flops={"bf16": 1e14, "fp8": 2e14},
)
MODEL = pm.ModelShape.dense(layers=2, hidden=64, heads=4, ffn=128, vocab=100)
OTHER = pm.ModelShape.dense(layers=3, hidden=32, heads=2, ffn=64, vocab=50)
COARSE = pm.ModelShape.from_totals(params=8e9, kv_bytes_per_token=1e5)
WINDOWED = MODEL.with_(window=16)
LEARNED = MODEL.with_(positions=1024)
ONE = pm.Step(groups=(pm.Group(count=1, new=1),))
DECODED = pm.decode(MODEL, GPU, batch=2, context=8)
GENERATED = pm.generate(MODEL, GPU, prompt=4, output=3)
CONFIG = {
    "model_type": "llama",
    "hidden_size": 64,
    "intermediate_size": 128,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "vocab_size": 100,
}
TOML = "memory_bandwidth = 1e12\n[peak_flops]\nbf16 = 1e14\n"
HUGE = 10**400


class Raises:
    """A number that is none: every conversion and comparison raises."""

    def __init__(self, error: type[BaseException] = RuntimeError) -> None:
        self.error = error

    def _raise(self, *args: object) -> None:
        raise self.error("no")

    __index__ = __int__ = __float__ = __eq__ = __array__ = __iter__ = __repr__ = _raise
    __hash__ = None


class RaisingReal(Raises):
    """The same, and it claims to be a real number."""


class EqualToAll:
    __hash__ = object.__hash__

    def __eq__(self, other: object) -> bool:
        return True


class RaisingIterator:
    def __iter__(self) -> RaisingIterator:
        return self

    def __next__(self) -> None:
        raise KeyError("no")


class Unprintable:
    def __repr__(self) -> str:
        return "\x1b[31m\x00\n\u202e" * 5000


Real.register(RaisingReal)
NAMES = ["a\nb", "\x1b[31m", "\ud800", "\u202e", "x" * 5000]
ODD = [np.array(["bf16", "fp8"]), np.array([1, 2]), pd.Series(["bf16"]), pd.DataFrame(), pd.NA]
ODD += [Raises(), EqualToAll(), Unprintable(), HUGE, b"bf16", ["bf16"], {}, MODEL]
NO_NUMBERS = [bytearray(b"8"), memoryview(b"8"), np.array(8), np.array([8]), np.True_]
NO_NUMBERS += [np.timedelta64(8, "s"), np.datetime64("2020"), pd.NA, pd.NaT, Decimal("nan"), HUGE]
NO_NUMBERS += [Raises(), Raises(KeyError), RaisingReal(), RaisingReal(ZeroDivisionError)]


def name_of(value: object) -> str:
    return type(value).__name__


def refused(ask, kind: type[Exception] = E.PerfModelError) -> str:
    with pytest.raises(E.PerfModelError) as caught:
        ask()
    assert isinstance(caught.value, kind)
    return line(str(caught.value))


def line(message: str) -> str:
    assert message
    assert message.isprintable(), ascii(message)
    assert len(message) < 400
    return message


def answered_or_refused(ask) -> object:
    try:
        return ask()
    except E.PerfModelError as error:
        return line(str(error))


# -- A1, A5: closed forms on numbers ----------------------------------------------------------

# A buffer is an array to a function, and NaN an answer.
ROWS_OR_NAN = ("bytearray", "memoryview", "ndarray", "Decimal")
NOT_IN_FORMS = [bad for bad in NO_NUMBERS if name_of(bad) not in ROWS_OR_NAN]
FORMS = [
    symbolic.attention_intensity(),
    symbolic.step_time(),
    symbolic.step_intensity(model=MODEL),
    symbolic.kv_overtakes_weights(model=COARSE),
]


@pytest.mark.parametrize("size", [10**6, 2**31 - 1])
@pytest.mark.parametrize("kind", [np.int32, lambda n: np.array([n]), lambda n: [n], int])
@pytest.mark.parametrize("form", FORMS, ids=lambda form: form.meaning)
def test_functions_do_not_overflow_in_integers(form, kind, size):
    found = form.function()(*[kind(size)] * len(form.symbols))
    expected = form(**dict.fromkeys(form.symbols, size))  # in Python's integers
    assert np.ravel(found) == pytest.approx(expected, rel=1e-9)


@pytest.mark.parametrize(
    "bad",
    [*NOT_IN_FORMS, "3", b"3", None, True, 1j, np.array([1j]), np.array(["3"]), {}, object()],
    ids=name_of,
)
def test_closed_forms_take_numbers(bad):
    form = FORMS[2]
    refused(lambda: form(B=bad, S=8), E.InvalidValueError)
    refused(lambda: form.function()(bad, 8), E.InvalidValueError)


@pytest.mark.parametrize(
    ("values", "named"),
    [
        ([], {}),
        ([1], {}),
        ([1, 2, 3], {}),
        ([1], {"B": 2}),
        ([1, 2], {"zz": 3}),
        ([[1, 2], [1, 2, 3]], {}),
        ([[[1], [2, 3]], 1], {}),
    ],
)
def test_functions_name_wrong_arguments(values, named):
    refused(lambda: FORMS[2].function()(*values, **named))


# -- A2, A3: what an estimate was computed from -----------------------------------------------


def fresh(model=MODEL, batch=2, **options):
    return pm.decode(model, GPU, batch=batch, context=8, **options)


CHANGES = [
    ({"step": pm.decode(MODEL, GPU, batch=9, context=8).step}, fresh(batch=9)),
    ({"model": OTHER}, fresh(model=OTHER)),
    ({"precision": pm.Precision.preset("fp8")}, fresh(precision="fp8")),
    ({"weights_only": True}, fresh(weights_only=True)),
    ({"small_steps": "separate"}, fresh(small_steps="separate")),
]


@pytest.mark.parametrize(("update", "expected"), CHANGES, ids=lambda x: str(x)[:15])
def test_a_changed_estimate_is_computed_again(update, expected):
    DECODED.explain()  # all that an estimate remembers
    found = DECODED.model_copy(update=update)
    assert found == expected
    assert found.model_dump_json() == expected.model_dump_json()
    assert found.memory == expected.memory
    assert found.explain() == expected.explain()


@pytest.mark.parametrize("name", sorted(pm.Estimate.model_computed_fields))
@pytest.mark.parametrize("claim", [-1, [], "NaN", None], ids=str)
def test_json_cannot_claim_what_is_computed(name, claim):
    written = json.loads(DECODED.model_dump_json())
    read = pm.Estimate.model_validate_json(json.dumps(written | {name: claim}))
    assert read.model_dump_json() == DECODED.model_dump_json()


@pytest.mark.parametrize(("update", "expected"), CHANGES, ids=lambda x: str(x)[:15])
def test_json_with_other_inputs_gives_their_answer(update, expected):
    other = json.loads(expected.model_dump_json())
    written = json.loads(DECODED.model_dump_json()) | {key: other[key] for key in update}
    assert pm.Estimate.model_validate_json(json.dumps(written)) == expected


def test_json_without_the_peak_is_refused():
    written = json.loads(DECODED.model_dump_json())
    written["gpu"]["peak_flops"] = {"fp32": 1e12}
    refused(lambda: pm.Estimate.model_validate_json(json.dumps(written)), E.UnsupportedFormatError)


# -- A4: ranges of results --------------------------------------------------------------------

RESULTS = [
    (GENERATED, ["output", "decode_time"]),
    (pm.memory(MODEL, GPU, batch=1, context=3), ["weights", "kv", "state", "capacity"]),
    (pm.kv_growth(MODEL, contexts=[1, 2]), ["batch", "weights", "overtakes", "contexts", "kv"]),
    (
        pm.gemm(inner=4, outer=4, tokens=4),
        ["flops", "weight_bytes", "activation_bytes", "kv_bytes", "calls", "tokens", "weights"],
    ),
]
FIELDS = [(result, field) for result, fields in RESULTS for field in fields]


@pytest.mark.parametrize("bad", [-1, -1.0, math.nan, math.inf, HUGE, True, "3", [], (1,), (0, -1)])
@pytest.mark.parametrize(
    ("result", "field"), FIELDS, ids=[f"{name_of(r)}.{field}" for r, field in FIELDS]
)
def test_ranges_of_results(result, field, bad):
    refused(lambda: result.model_copy(update={field: bad}), E.InvalidValueError)


def test_results_that_contradict_themselves():
    refused(lambda: GENERATED.model_copy(update={"last_step": None}))
    refused(lambda: GENERATED.model_copy(update={"output": 1}))
    nothing = {"weight_bytes": 0.0, "activation_bytes": 0.0, "kv_bytes": 0.0}
    idle = pm.gemm(inner=4, outer=4, tokens=4)
    answered_or_refused(lambda: idle.model_copy(update=nothing).intensity)


# -- A6: learned positions --------------------------------------------------------------------


@pytest.mark.parametrize(
    "ask",
    [
        lambda: LEARNED.cache_bytes(1025),
        lambda: LEARNED.kv_bytes_per_token(context=1025),
        lambda: pm.forward(LEARNED, pm.decode(MODEL, GPU, batch=1, context=1025).step),
        lambda: pm.step_ridge_batch(LEARNED, GPU, context=1025),
    ],
)
def test_learned_positions_end(ask):
    assert "1024 learned positions" in refused(ask, E.InvalidValueError)


def test_the_longest_context_for_a_capacity_has_a_position():
    form = symbolic.max_context_for_capacity(model=LEARNED, gpu=GPU)
    assert form(B=1) == 1024
    assert form(B=10**9) < 1024


# -- A7: flags and choices --------------------------------------------------------------------


@pytest.mark.parametrize(
    "bad",
    ["no", "False", "", 0, 1, 1.0, None, np.True_, pd.NA, np.array([True]), Raises()],
    ids=name_of,
)
@pytest.mark.parametrize(
    "ask",
    [
        lambda bad: fresh(weights_only=bad),
        lambda bad: pm.prefill(MODEL, GPU, prompt=8, weights_only=bad),
        lambda bad: pm.estimate(MODEL, GPU, ONE, weights_only=bad),
        lambda bad: pm.sweep(MODEL, GPU, batch=[1], context=[8], grid=bad),
        lambda bad: pm.Head(tied=bad),
        lambda bad: pm.FeedForward(width=1, gated=bad),
        lambda bad: pm.Attention(heads=1, kv_heads=1, head_dim=1, qkv_bias=bad),
        lambda bad: pm.ModelShape.dense(layers=1, hidden=8, heads=1, ffn=8, gated=bad),
    ],
)
def test_flags_are_true_or_false(ask, bad):
    refused(lambda: ask(bad), E.InvalidValueError)


# -- B1, B2: shapes of nothing, wrong subjects, windows ---------------------------------------


@pytest.mark.parametrize("blocks", [((1, ()),), ((1, None),), ((1, [[]]),), (1,), 5, "ab", {}])
def test_blocks_have_layers(blocks):
    refused(lambda: pm.ModelShape(hidden=8, blocks=blocks))
    refused(lambda: MODEL.with_(blocks=blocks))


SYMBOLIC = [
    "gemm_ridge_batch",
    "wide_gemm_ridge_batch",
    "attention_intensity",
    "limit_of_attention_intensity",
    "attention_ridge_batch",
    "step_time",
    "step_intensity",
    "step_ridge_batch",
    "critical_context",
    "kv_overtakes_weights",
    "max_batch_for_time",
    "max_context_for_capacity",
]


@pytest.mark.parametrize("name", SYMBOLIC)
def test_closed_forms_have_subjects(name):
    function = getattr(symbolic, name)
    for subject in function.__kwdefaults__:
        for bad in [3, "", "gpt2", GPU if subject == "model" else MODEL, pm.GpuSpec, *ODD[:7]]:
            refused(lambda ask=function, key=subject, bad=bad: ask(**{key: bad}))
    if "model" in function.__kwdefaults__:
        for model in (WINDOWED, pm.ModelShape(hidden=8, blocks=((1, (pm.FeedForward(width=8),)),))):
            answered_or_refused(lambda model=model: function(model=model))


@pytest.mark.parametrize("bad", [3, None, "x", int, object(), Raises(), pm.GpuSpec], ids=name_of)
def test_twins_and_forward_have_subjects(bad):
    refused(lambda: exact(bad))
    refused(lambda: twin(bad))  # a chip needs its peaks
    refused(lambda: pm.forward(bad, ONE))
    refused(lambda: pm.forward(MODEL, bad))
    refused(lambda: pm.forward(MODEL, ONE, small_steps=bad))
    if bad is not None:
        refused(lambda: pm.forward(MODEL, ONE, bad))


# -- B3: lists --------------------------------------------------------------------------------

NO_LISTS = [object(), None, "", "ab", b"ab", bytearray(b"ab"), memoryview(b"ab"), [], {}, {1: 2}]
NO_LISTS += [pm.GpuSpec, Raises(), RaisingIterator(), itertools.repeat("x")]


@pytest.mark.parametrize("bad", NO_LISTS, ids=name_of)
@pytest.mark.parametrize(
    "ask",
    [
        lambda bad: pm.compare(bad, GPU, batch=1, context=8),
        lambda bad: pm.compare(MODEL, bad, batch=1, context=8),
        lambda bad: pm.compare(MODEL, GPU, batch=1, context=8, precisions=bad),
        lambda bad: pm.kv_growth(MODEL, contexts=bad),
    ],
    ids=["models", "gpus", "precisions", "contexts"],
)
def test_lists_are_lists(ask, bad):
    refused(lambda: ask(bad))


def test_lists_end():
    refused(lambda: pm.kv_growth(MODEL, contexts=itertools.count(1)))
    refused(lambda: pm.compare(itertools.repeat(MODEL), GPU, batch=1, context=8))


# -- B4, B5: keys and choices -----------------------------------------------------------------


@pytest.mark.parametrize("bad", ODD, ids=name_of)
@pytest.mark.parametrize(
    "ask",
    [
        pm.gpu,
        pm.model,
        GPU.peak,
        pm.Precision.uniform,
        pm.Precision.preset,
        pm.Precision.parse,
        lambda bad: pm.Precision.preset("bf16", kv=bad),
        lambda bad: fresh(precision=bad),
        lambda bad: fresh(small_steps=bad),
        lambda bad: pm.prefill(MODEL, GPU, prompt=8, logits=bad),
        lambda bad: pm.Efficiency(exponent=bad),
        lambda bad: pm.Head(norm=bad),
        lambda bad: pm.Origin(field="x", kind=bad),
        lambda bad: pm.read_hf(CONFIG | {"dtype": bad}),
        lambda bad: pm.read_hf(CONFIG | {"model_type": bad}),
        lambda bad: pm.read_hf(CONFIG | {"architectures": bad}),
        lambda bad: pm.read_hf(CONFIG | {"quantization_config": {"quant_method": bad}}),
        lambda bad: pm.read_hf(CONFIG | {"quantization_config": [bad]}),
    ],
)
def test_keys_and_choices_are_texts(ask, bad):
    refused(lambda: ask(bad))


@pytest.mark.parametrize("kv", ["", [], False, 0])
def test_an_empty_kv_format_is_not_the_default(kv):
    refused(lambda: pm.Precision.preset("bf16", kv=kv))


# -- B6, B7: numbers that are none ------------------------------------------------------------


@pytest.mark.parametrize("bad", NO_NUMBERS, ids=name_of)
@pytest.mark.parametrize(
    "ask",
    [
        lambda bad: fresh(batch=bad),
        lambda bad: pm.Group(count=bad, new=1),
        lambda bad: pm.kv_growth(MODEL, contexts=[bad]),
        lambda bad: pm.roof(GPU, intensity=bad),
        lambda bad: GPU.model_copy(update={"memory_bandwidth": bad}),
        lambda bad: pm.Efficiency(call_overhead=bad),
        lambda bad: pm.read_hf(CONFIG | {"hidden_size": bad}),
    ],
    ids=["argument", "count", "list", "quantity", "field", "or zero", "config"],
)
def test_what_is_no_number(ask, bad):
    if not (bad is pd.NaT or bad is pd.NA):
        refused(lambda: ask(bad), E.InvalidValueError)
    else:
        refused(lambda: ask(bad))


ROWS = [[True], [1, True], [1, np.True_], np.array([True]), np.array([1, 2], "m8[s]")]
ROWS += [[np.timedelta64(8, "s")], ["8"], [HUGE], [math.nan], np.array(8), pd.Series([1, None])]
ROWS += [[Raises()], Raises(), RaisingIterator(), [1j], [pd.NA], np.array([8], "M8[s]")]
ROWS += [[np.array([])], memoryview(b"ab"), bytearray(b"ab")]


@pytest.mark.parametrize("bad", ROWS, ids=name_of)
def test_a_sweep_is_over_whole_numbers(bad):
    refused(lambda: pm.sweep(MODEL, GPU, batch=bad, context=[8]), E.InvalidValueError)


@pytest.mark.parametrize("kind", [Decimal, Fraction, np.int8, np.float16, float])
def test_whole_numbers_of_any_kind(kind):
    assert fresh(batch=kind(2)) == DECODED


@pytest.mark.parametrize("bad", [b"x", bytearray(b"x"), None, 3, np.array("x"), pd.NA], ids=name_of)
def test_a_name_is_a_text(bad):
    refused(lambda: GPU.model_copy(update={"name": bad}))


# -- B8: attributes and fields ----------------------------------------------------------------


@pytest.mark.parametrize(
    "ask",
    [
        lambda: GPU.peak(3),
        lambda: GPU.peak("formats"),
        lambda: GPU.peak("__class__"),
        lambda: GPU.peak("model_copy"),
        lambda: pm.GpuSpec(name="x", memory_bandwidth=1e12, peak_flops={3: 1e14}),
        lambda: GPU.model_copy(update=5),
        lambda: GPU.model_copy(update={3: 1}),
        lambda: GPU.model_copy(update=[("name", "x")]),
        lambda: pm.GpuSpec.model_validate({3: 1e14}),
        lambda: pm.GpuSpec.model_validate(5),
        lambda: pm.GpuSpec.model_validate_strings({"name": "x"}),
        lambda: pm.GpuSpec.model_validate_strings(5),
        lambda: pm.Estimate.model_validate_strings({"phase": "x"}),
    ],
)
def test_fields_have_names(ask):
    refused(ask)


# -- B9: printing and joining -----------------------------------------------------------------


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        ((math.nan, "B"), "nan B"),
        ((math.inf, "B"), "inf B"),
        ((-math.inf, "B"), "-inf B"),
        ((1e25, "B"), "1.00e+25 B"),
        ((1e-20, "s"), "1.00e-20 s"),
        ((1.0, "B", 1), "1 B"),
        ((-5e3, "B"), "-5.00 kB"),
    ],
)
def test_si_prints_any_number(arguments, text):
    assert pm.units.si(*arguments) == text


@pytest.mark.parametrize("exponent", [1, 2, math.inf])
@pytest.mark.parametrize(
    ("compute", "memory"),
    [(math.nan, 1.0), (1.0, math.nan), (-1.0, 1.0), (1.0, -1.0), (0.0, 0.0), (1.0, 0.0)],
)
def test_times_are_times(exponent, compute, memory):
    joined = pm.Efficiency(exponent=exponent)
    refused(lambda: joined.time(compute=compute, memory=memory), E.InvalidValueError)


# -- B10: a sweep is a value ------------------------------------------------------------------


def test_a_sweep_does_not_change():
    found = pm.sweep(MODEL, GPU, batch=[1, 2], context=[8])
    again = copy.deepcopy(found)
    assert found == found
    assert len({found, found}) == 1
    assert again.to_frame().equals(found.to_frame())
    for one in (found, again, copy.copy(found)):
        with pytest.raises(ValueError, match="read-only"):
            one.time[0] = 1.0
        with pytest.raises(TypeError):
            one.columns["time"] = one.floor
        with pytest.raises(AttributeError):
            one.precision = "fp8"


# -- C: messages ------------------------------------------------------------------------------

COMPARED = pm.compare(MODEL, GPU, batch=1, context=4, precisions=["bf16", "nvfp4"])
NAMED = [
    lambda name: GPU.model_copy(update={"name": name}),
    lambda name: MODEL.with_(name=name),
    lambda name: pm.ModelShape.dense(layers=1, hidden=8, heads=1, ffn=8, name=name),
    lambda name: pm.ModelShape.from_totals(params=1, name=name),
    lambda name: pm.Format(name=name, bits=8),
    lambda name: pm.Origin(field=name, kind="user"),
    lambda name: pm.Origin(field="x", kind="user", place=name),
    lambda name: pm.Source(key=name, title="x"),
    lambda name: pm.Source(key="x", title="x", url=name),
    lambda name: pm.Precision.preset("bf16").model_copy(update={"name": name}),
    lambda name: pm.gemm(inner=1, outer=1, tokens=1).model_copy(update={"name": name}),
    lambda name: DECODED.memory.model_copy(update={"precision": name}),
    lambda name: COMPARED.rows[0].model_copy(update={"gpu": name}),
]
KEYS = [
    pm.gpu,
    pm.model,
    GPU.peak,
    pm.Precision.parse,
    lambda name: pm.Precision.parse("bf16+kv" + name),
    lambda name: pm.Precision.parse("uniform-" + name),
    lambda name: MODEL.with_(**{name: 1}),
    lambda name: twin(pm.FeedForward, **{name: 1}),
    lambda name: FORMS[2](**{name: 1}),
    lambda name: FORMS[2].function()(1, 1, **{name: 1}),
    lambda name: setattr(GPU, name, 1),
    lambda name: delattr(GPU, name),
    pm.read_hf,
    pm.read_gpu,
    pm.read_prices,
    lambda name: pm.read_hf(CONFIG | {"model_type": name}),
    lambda name: pm.read_hf(CONFIG | {"dtype": name}),
]
SPECS = [kind for kind in vars(pm).values() if isinstance(kind, type(pm.GpuSpec))]


@pytest.mark.parametrize("name", NAMES, ids=ascii)
@pytest.mark.parametrize("make", NAMED)
def test_names_are_printable(make, name):
    refused(lambda: make(name), E.InvalidValueError)


@pytest.mark.parametrize("name", NAMES, ids=ascii)
@pytest.mark.parametrize("ask", KEYS)
def test_messages_stay_one_line(ask, name):
    refused(lambda: ask(name))


@pytest.mark.parametrize("name", NAMES, ids=ascii)
@pytest.mark.parametrize("kind", SPECS, ids=lambda kind: kind.__name__)
def test_unknown_fields_are_one_line(kind, name):
    refused(lambda: kind(**{name: 1}))
    refused(lambda: kind.model_validate({name: Unprintable()}))
    refused(lambda: kind.model_validate_json(json.dumps({name: [name]})))


@pytest.mark.parametrize("key", [r"a\nb\u001b", r"\u202e", "x" * 5000], ids=len)
@pytest.mark.parametrize(
    "text",
    [
        '"{}" = 1\n',
        'peak_flops = {{"{}" = 1}}\n',
        'memory_capacity = {{value = 1e12, "{}" = 1}}\n',
        'memory_capacity = {{value = 1e12, kind = "{}"}}\n',
        'memory_capacity = {{value = 1e12, unit = "{}"}}\n',
        'name = "{}"\n',
    ],
)
def test_toml_keys_and_texts_are_one_line(tmp_path, text, key):
    path = tmp_path / "mine.toml"
    path.write_text(text.format(key) + "memory_bandwidth = 1e12\n", encoding="utf-8")
    refused(lambda: pm.read_gpu(path))


@pytest.mark.parametrize("key", [r"a\nb\u001b", r"\u202e", "x" * 5000], ids=len)
@pytest.mark.parametrize(
    "text",
    [
        '"{}" = -1\n',
        'x = "{}"\n',
        'x = {{low_per_hour = 1, "{}" = 1}}\n',
        'x = {{low_per_hour = 1, high_per_hour = 1, date = "{}"}}\n',
        'x = {{low_per_hour = 1, high_per_hour = 1, sources = "{}"}}\n',
    ],
)
def test_prices_are_one_line(tmp_path, text, key):
    path = tmp_path / "mine.toml"
    path.write_text(text.format(key), encoding="utf-8")
    refused(lambda: pm.read_prices(path))


@pytest.mark.parametrize("stem", ["a\nb", "a\x1b[31m", "x" * 200], ids=ascii)
@pytest.mark.parametrize(
    ("read", "suffix", "content"),
    [
        (pm.read_gpu, ".toml", None),
        (pm.read_gpu, ".toml", "x ="),
        (pm.read_gpu, ".toml", "memory_bandwidth = {value = 1e12, kind = 'x'}"),
        (pm.read_gpu, ".toml", TOML.replace("1e12", "-1")),
        (pm.read_prices, ".toml", None),
        (pm.read_prices, ".toml", "x = -1"),
        (pm.read_hf, ".json", None),
        (pm.read_hf, ".json", "{"),
    ],
)
def test_file_names_are_one_line(tmp_path, stem, read, suffix, content):
    folder = tmp_path / ("y" * max(1, 390 - len(str(tmp_path)) - len(stem)))[:200]
    folder.mkdir()
    path = folder / f"{stem}{suffix}"
    if content is not None:
        path.write_text(content, encoding="utf-8")
    refused(lambda: read(path))


# -- D: bombs ---------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "text",
    [
        "a" + ".a" * 50_000 + " = 1",
        "[" + "a." * 50_000 + "a]",
        "x = " + "[" * 100_000,
        "x = " + "{a=" * 3000,
        "".join(f"[k{i}]\n" for i in range(200_000)),
        TOML + "#" + "x" * 5_000_000,
    ],
    ids=["dotted key", "dotted table", "arrays", "tables", "many tables", "large"],
)
def test_toml_bombs_are_refused_quickly(tmp_path, text):
    path = tmp_path / "bomb.toml"
    path.write_text(text, encoding="utf-8")
    start = time.process_time()
    refused(lambda: pm.read_gpu(path))
    assert time.process_time() - start < 2


def test_sweeps_without_end_are_refused_before_they_are_made():
    resource = pytest.importorskip("resource")
    limit = resource.RLIM_INFINITY if sys.platform == "darwin" else 3 * 2**30
    program = f"""
import itertools, resource
import perfmodel as pm
ask, gpu = pm.sweep, pm.gpu("h100-sxm")
shape = pm.ModelShape.from_totals(params=8e9, kv_bytes_per_token=1e5)
resource.setrlimit(resource.RLIMIT_AS, ({limit}, {limit}))
for batch, context in (
    (range(1, 10**5 + 1), range(1, 10**5 + 1)),
    (range(1, 10**15), [8]),
    ([8], range(1, 10**30)),
    (itertools.count(1), [8]),
):
    try:
        ask(shape, gpu, batch=batch, context=context).time
    except pm.errors.InvalidValueError as error:
        print(error)
"""
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, timeout=60, check=False
    )
    assert done.stderr == ""
    for message in done.stdout.splitlines():
        line(message)
    assert done.stdout.count("\n") == 4


# -- E: the command line ----------------------------------------------------------------------

PREDICT = ["predict", "llama-3.1-8b", "--gpu", "h100-sxm"]


def shell(redirect: str, *arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
    if shutil.which("sh") is None:
        pytest.skip("no shell")
    return subprocess.run(
        ["sh", "-c", f'"$@" {redirect}', "sh", sys.executable, "-m", "perfmodel", *arguments],
        capture_output=True,
        text=True,
        check=False,
        env=os.environ | environment,
    )


@pytest.mark.parametrize(
    "arguments",
    [
        ["show", "x" * 300],
        ["predict", "x" * 300, "--gpu", "l4"],
        ["predict", "x" * 300 + ".json", "--gpu", "l4"],
        ["predict", "gpt2", "--gpu", "x" * 5000 + ".toml"],
        ["show", "a\0b"],
        ["predict", "a\0b.json", "--gpu", "l4"],
        ["predict", "gpt2", "--gpu", "a\0b.toml"],
        ["x" * 10_000],
        [*PREDICT, "--" + "x" * 10_000],
        [*PREDICT, "--batch", "1" * 10_000],
        [*PREDICT, "--batch", "٣"],
        [*PREDICT, "--context", "٣"],
        [*PREDICT, "--precision", "\x1b[31m"],
        ["compare", "gpt2", "--gpu", "l4", "--batch", "٣"],
        ["predict", "no\nsuch\x1b.json", "--gpu", "l4"],
    ],
    ids=lambda arguments: ascii(" ".join(arguments))[:40],
)
def test_hostile_arguments_are_one_line_on_stderr(capsys, arguments):
    code = run(arguments)
    out, err = capsys.readouterr()
    assert (code, out) == (2, "")
    assert err.endswith("\n")
    line(err[:-1])


def test_markup_in_names_is_printed_as_it_is(capsys, tmp_path):
    name = "[bold]x[/bold] [link=http://x] :smile:"
    path = tmp_path / "config.json"
    path.write_text(json.dumps(CONFIG | {"_name_or_path": name}), encoding="utf-8")
    chip = tmp_path / "chip.toml"
    chip.write_text(f'name = "{name}"\n{TOML}', encoding="utf-8")
    for command in ("predict", "compare"):
        assert run([command, str(path), "--gpu", str(chip)]) == 0
        assert name in capsys.readouterr().out


def test_texts_of_a_file_cannot_command_the_terminal(capsys, tmp_path):
    chip = tmp_path / "chip.toml"
    note = r'memory_capacity = {value = 1e12, note = "\u001b[31m", source = "\u001b[31m"}'
    chip.write_text(f"{note}\n{TOML}", encoding="utf-8")
    for command in (["show", str(chip)], ["predict", "gpt2", "--gpu", str(chip), "--explain"]):
        code = run(command)
        out, err = capsys.readouterr()
        assert code in (0, 2)
        assert "\x1b" not in out + err


@pytest.mark.parametrize("arguments", [PREDICT, ["gpus"], ["models"]], ids=" ".join)
def test_a_narrow_terminal_loses_nothing(capsys, monkeypatch, arguments):
    found = []
    for columns in ("40", "200"):
        monkeypatch.setenv("COLUMNS", columns)
        assert run(arguments) == 0
        found.append(capsys.readouterr().out)
    assert found[0] == found[1]
    assert "…" not in found[0]


def test_a_file_does_not_shadow_a_key(capsys, monkeypatch, tmp_path):
    (tmp_path / "gpt2").mkdir()
    (tmp_path / "h100-sxm").write_text("x", encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    assert run(["predict", "gpt2", "--gpu", "h100-sxm"]) == 0
    assert "GPT-2" in capsys.readouterr().out
    assert run(["show", "h100-sxm"]) == 0


def test_compare_asks_no_more_than_learned_positions(capsys):
    assert run(["compare", "gpt2", "llama-3.1-8b", "--gpu", "l4"]) == 0
    assert "1,024 tokens" in capsys.readouterr().out


@pytest.mark.parametrize("arguments", [["show", "h100-sxm"], [*PREDICT, "--explain"]])
def test_an_ascii_terminal(arguments):
    done = shell("", *arguments, PYTHONIOENCODING="ascii")
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.isascii()


def test_a_closed_output():
    assert shell(">&-", "gpus").stderr == ""
    done = shell(">&-", "show", "none")
    assert done.returncode == 2
    line(done.stderr.removesuffix("\n"))


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="no /dev/full")
def test_a_full_disk():
    done = shell(">/dev/full", *PREDICT)
    assert (done.returncode, done.stdout) == (2, "")
    line(done.stderr.removesuffix("\n"))


def test_a_reader_that_has_seen_enough():
    batches = ",".join(map(str, range(1, 2000)))
    done = shell("| head -1", *PREDICT, "--csv", "--batch", batches)
    assert done.stdout.count("\n") == 1
    assert done.stderr == ""


# -- F: values --------------------------------------------------------------------------------

VALUES = [
    GPU,
    GPU.peak_flops,
    MODEL,
    COARSE,
    COARSE.blocks[0][1][0],
    LEARNED.embedding,
    MODEL.head,
    *MODEL.blocks[0][1],
    ONE,
    ONE.groups[0],
    DECODED,
    DECODED.memory,
    GENERATED,
    COMPARED,
    pm.kv_growth(MODEL, contexts=[1]),
    pm.gemm(inner=4, outer=4, tokens=4),
    pm.Efficiency(exponent=2),
    pm.Precision.preset("fp8"),
    pm.gpu("h100-sxm"),
    pm.gpu("h100-sxm").origins[0],
    pm.gpu("h100-sxm").origins[0].source,
    pm.model("gpt2"),
    FORMATS["nvfp4"],
    FORMS[0],
]


@pytest.mark.parametrize("value", VALUES, ids=name_of)
def test_copies_are_equal(value):
    copies = [copy.copy(value), copy.deepcopy(value), pickle.loads(pickle.dumps(value))]
    if isinstance(value, pm.GpuSpec.__mro__[1]):
        copies += [value.model_copy(), type(value).model_validate_json(value.model_dump_json())]
    for other in copies:
        assert other == value
        assert hash(other) == hash(value)
    assert value != Unprintable()


@pytest.mark.parametrize("value", [*FORMATS.values(), IDEAL], ids=name_of)
def test_what_is_not_checked_at_import_is_checked_here(value):
    fields = {field: getattr(value, field) for field in type(value).model_fields}
    assert type(value)(**fields) == value
