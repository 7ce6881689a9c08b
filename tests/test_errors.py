"""Errors are part of the interface: one exception that names field, value and remedy."""

from __future__ import annotations

import math

import pytest

import perfmodel as pm

E = pm.errors
GPU = pm.GpuSpec(
    name="mine", memory_bandwidth=1e12, memory_capacity=80e9, peak_flops={"bf16": 1e14}
)
NO_CAPACITY = pm.GpuSpec(name="unknown", memory_bandwidth=1e12, peak_flops={"bf16": 1e14})
MODEL = pm.ModelShape.dense(layers=2, hidden=64, heads=4, ffn=128, vocab=100)
COARSE = pm.ModelShape.from_totals(params=8e9)
GPT2_LIKE = pm.ModelShape(
    name="learned",
    hidden=8,
    vocab=10,
    blocks=((1, (pm.Attention(heads=1, kv_heads=1, head_dim=8),)),),
    embedding=pm.Embedding(positions=1024),
    head=pm.Head(tied=True),
)


class OutOfReach:
    def __repr__(self) -> str:
        raise RuntimeError("no words")


NOT_COUNTS = [
    0,
    -1,
    1.5,
    math.nan,
    math.inf,
    -math.inf,
    "8",
    b"8",
    True,
    None,
    [],
    10**16,
    10**5000,
]
NOT_COUNTS += [OutOfReach(), 1j]
NOT_POSITIVE = [0, -1.0, math.nan, math.inf, "3", True, [], 1e31, 10**400, OutOfReach()]


def sentence(error: BaseException, *words: str) -> None:
    text = str(error)
    assert "\n" not in text
    assert len(text) < 400
    for word in words:
        assert word in text, text


@pytest.mark.parametrize("bad", NOT_COUNTS, ids=lambda bad: type(bad).__name__)
@pytest.mark.parametrize(
    ("name", "ask"),
    [
        ("batch", lambda bad: pm.decode(MODEL, GPU, batch=bad, context=8)),
        ("context", lambda bad: pm.decode(MODEL, GPU, batch=1, context=bad)),
        ("prompt", lambda bad: pm.prefill(MODEL, GPU, prompt=bad)),
        ("batch", lambda bad: pm.prefill(MODEL, GPU, prompt=8, batch=bad)),
        ("output", lambda bad: pm.generate(MODEL, GPU, prompt=8, output=bad)),
        ("batch", lambda bad: pm.memory(MODEL, GPU, batch=bad, context=8)),
        ("context", lambda bad: pm.max_batch(MODEL, GPU, context=bad)),
        ("batch", lambda bad: pm.max_context(MODEL, GPU, batch=bad)),
        ("contexts", lambda bad: pm.kv_growth(MODEL, contexts=[bad])),
        ("inner", lambda bad: pm.gemm_ridge_batch(GPU, inner=bad, outer=8)),
        ("context", lambda bad: pm.step_ridge_batch(MODEL, GPU, context=bad)),
        ("params", lambda bad: pm.ModelShape.from_totals(params=bad)),
        (
            "layers",
            lambda bad: pm.ModelShape.from_totals(params=1, layers=bad, kv_heads=1, head_dim=1),
        ),
        ("count", lambda bad: pm.Group(count=bad, new=1)),
        ("heads", lambda bad: pm.Attention(heads=bad, kv_heads=1, head_dim=1)),
        ("width", lambda bad: pm.FeedForward(width=bad)),
    ],
)
def test_not_a_count(name, ask, bad):
    with pytest.raises(E.InvalidValueError) as caught:
        ask(bad)
    sentence(caught.value, name)


@pytest.mark.parametrize("bad", NOT_POSITIVE, ids=lambda bad: type(bad).__name__)
@pytest.mark.parametrize(
    ("name", "ask"),
    [
        (
            "memory_bandwidth",
            lambda bad: pm.GpuSpec(name="x", memory_bandwidth=bad, peak_flops={"bf16": 1e14}),
        ),
        (
            "bf16",
            lambda bad: pm.GpuSpec(name="x", memory_bandwidth=1e12, peak_flops={"bf16": bad}),
        ),
        ("memory_capacity", lambda bad: GPU.model_copy(update={"memory_capacity": bad})),
        ("intensity", lambda bad: pm.roof(GPU, intensity=bad)),
        ("compute", lambda bad: pm.Efficiency(compute=bad)),
        (
            "kv_bytes_per_token",
            lambda bad: pm.ModelShape.from_totals(params=1, kv_bytes_per_token=bad),
        ),
    ],
)
def test_not_a_positive_quantity(name, ask, bad):
    with pytest.raises(E.InvalidValueError) as caught:
        ask(bad)
    sentence(caught.value, name)


def test_integral_floats_are_counts():
    assert pm.decode(MODEL, GPU, batch=8.0, context=64.0) == pm.decode(
        MODEL, GPU, batch=8, context=64
    )


def test_numpy_numbers_are_counts():
    import numpy as np

    step = pm.decode(MODEL, GPU, batch=np.int64(8), context=np.float64(64))
    assert step == pm.decode(MODEL, GPU, batch=8, context=64)
    assert type(step.flops) is int


@pytest.mark.parametrize(
    ("error", "words", "ask"),
    [
        # subjects
        (E.InvalidValueError, ["model", "ModelShape"], lambda: pm.decode("x", GPU, batch=1)),
        (E.InvalidValueError, ["gpu", "GpuSpec"], lambda: pm.decode(MODEL, "h100-sxm", batch=1)),
        (
            E.InvalidValueError,
            ["efficiency"],
            lambda: pm.decode(COARSE, GPU, batch=1, efficiency=1),
        ),
        (E.InvalidValueError, ["step"], lambda: pm.estimate(MODEL, GPU, "decode")),
        # chips
        (E.InvalidValueError, ["bf16x", "did you mean 'bf16'"], lambda: peaks(bf16x=1e14)),
        (E.InvalidValueError, ["at least one format"], lambda: peaks()),
        (E.InvalidValueError, ["bandwith", "memory_bandwidth"], lambda: pm.GpuSpec(bandwith=1)),
        (E.UnsupportedFormatError, ["mine", "fp8", "bf16"], lambda: GPU.peak("fp8")),
        (
            E.UnsupportedFormatError,
            ["mine has no fp8 peak", "bf16"],
            lambda: pm.decode(MODEL, GPU, batch=1, context=1, precision="fp8"),
        ),
        # precisions
        (E.UnknownKeyError, ["fp9", "did you mean 'fp8'"], lambda: pm.Precision.parse("fp9")),
        (E.UnknownKeyError, ["'fp7'"], lambda: pm.Precision.parse("fp8+kvfp7")),
        (E.UnknownKeyError, ["q4_k"], lambda: pm.Precision.uniform("q4_k")),
        (
            E.InvalidValueError,
            ["precision", "7"],
            lambda: pm.decode(COARSE, GPU, batch=1, precision=7),
        ),
        # shapes
        (
            E.InvalidValueError,
            ["heads", "multiple of kv_heads=3", "8"],
            lambda: pm.Attention(heads=8, kv_heads=3, head_dim=4),
        ),
        (
            E.InvalidValueError,
            ["head_dim", "heads=3", "hidden=64"],
            lambda: pm.ModelShape.dense(layers=1, hidden=64, heads=3, ffn=1),
        ),
        (E.UnknownKeyError, ["kvheads", "kv_heads"], lambda: MODEL.with_(kvheads=2)),
        (E.InvalidValueError, ["heads"], lambda: MODEL.with_(kv_heads=3)),
        (E.InvalidValueError, ["kv_heads"], lambda: pm.ModelShape.from_totals(params=1, layers=1)),
        (
            E.InvalidValueError,
            ["both"],
            lambda: pm.Totals(matrix_weights=1, kv_values_per_token=1, kv_bytes_per_token=1.0),
        ),
        (E.InvalidValueError, ["blocks"], lambda: pm.ModelShape(blocks=())),
        (
            E.InvalidValueError,
            ["hidden"],
            lambda: pm.ModelShape(blocks=((1, (pm.FeedForward(width=1),)),)),
        ),
        (E.InvalidValueError, ["logits", "new=1"], lambda: pm.Group(count=1, new=1, logits=2)),
        (E.InvalidValueError, ["shared_past"], lambda: pm.Group(count=1, new=1, shared_past=2)),
        (E.InvalidValueError, ["groups"], lambda: pm.Step(groups=())),
        # caches
        (
            E.NoCacheError,
            ["kv_bytes_per_token"],
            lambda: pm.decode(COARSE, GPU, batch=1, context=8),
        ),
        (E.NoCacheError, ["coarse"], lambda: COARSE.kv_bytes_per_token()),
        (E.NoCacheError, ["coarse"], lambda: COARSE.cache_bytes(8)),
        (E.NoCacheError, ["coarse"], lambda: pm.max_batch(COARSE, GPU, context=8)),
        (E.NoCacheError, ["coarse"], lambda: pm.max_context(COARSE, GPU, batch=8)),
        (E.NoCacheError, ["coarse"], lambda: pm.kv_growth(COARSE, contexts=[8])),
        (E.NoCacheError, ["coarse"], lambda: pm.critical_context(COARSE, GPU)),
        (E.NoCacheError, ["coarse"], lambda: pm.sweep(COARSE, GPU, batch=[1], context=[8])),
        (E.InvalidValueError, ["context", "missing"], lambda: pm.decode(MODEL, GPU, batch=1)),
        (
            E.InvalidValueError,
            ["shared_past", "9"],
            lambda: pm.decode(MODEL, GPU, batch=1, context=9, shared_past=9),
        ),
        # memory
        (
            E.InvalidValueError,
            ["memory_capacity", "unknown"],
            lambda: pm.max_batch(MODEL, NO_CAPACITY, context=8),
        ),
        (
            E.DoesNotFitError,
            ["needs 160.0 GB", "has 80.00 GB"],
            lambda: pm.max_context(
                pm.ModelShape.from_totals(params=80e9, kv_bytes_per_token=1), GPU, batch=1
            ),
        ),
        (
            E.UnboundedError,
            ["window"],
            lambda: pm.max_context(MODEL.with_(window=16), GPU, batch=1),
        ),
        # contexts
        (
            E.InvalidValueError,
            ["1024 learned positions", "1025"],
            lambda: pm.decode(GPT2_LIKE, GPU, batch=1, context=1025),
        ),
        (
            E.InvalidValueError,
            ["1024 learned positions", "2000"],
            lambda: pm.prefill(GPT2_LIKE, GPU, prompt=1000, past=1000),
        ),
        (
            E.InvalidValueError,
            ["1024 learned positions"],
            lambda: pm.sweep(GPT2_LIKE, GPU, batch=[1], context=[8, 1025]),
        ),
        (
            E.InvalidValueError,
            ["output", "1000000"],
            lambda: pm.generate(COARSE, GPU, prompt=1, output=10**9),
        ),
        # options
        (
            E.InvalidValueError,
            ["logits", "last"],
            lambda: pm.prefill(MODEL, GPU, prompt=8, logits="x"),
        ),
        (
            E.InvalidValueError,
            ["small_steps", "fused"],
            lambda: pm.decode(MODEL, GPU, batch=1, context=1, small_steps="x"),
        ),
        (E.InvalidValueError, ["exponent"], lambda: pm.Efficiency(exponent=0.5)),
        (E.InvalidValueError, ["memory", "at most 1"], lambda: pm.Efficiency(memory=1.5)),
        (E.InvalidValueError, ["step_overhead"], lambda: pm.Efficiency(step_overhead=-1)),
        (
            E.InvalidValueError,
            ["precisions"],
            lambda: pm.compare(COARSE, GPU, batch=1, precisions="fp8"),
        ),
        # ridges
        (E.NoRidgeError, ["1 x 1"], lambda: pm.gemm_ridge_batch(GPU, inner=1, outer=1)),
    ],
)
def test_a_clear_sentence(error, words, ask):
    with pytest.raises(error) as caught:
        ask()
    assert isinstance(caught.value, E.PerfModelError)
    sentence(caught.value, *words)


def peaks(**formats: float) -> pm.GpuSpec:
    return pm.GpuSpec(name="x", memory_bandwidth=1e12, peak_flops=formats)


def test_every_error_is_a_plain_python_error_too():
    for name, error in vars(E).items():
        if isinstance(error, type) and issubclass(error, E.PerfModelError):
            plain = (ValueError, KeyError, ImportError)
            assert error is E.PerfModelError or issubclass(error, plain), name


def test_bad_json_is_refused():
    for text in ("", "{", "[]", '{"name": 3}', "null"):
        with pytest.raises(E.PerfModelError):
            pm.GpuSpec.model_validate_json(text)


def test_a_context_past_rotary_positions_is_a_note():
    shape = MODEL.model_copy(update={"max_context": 128})
    within = pm.decode(shape, GPU, batch=1, context=128).assumptions
    past = pm.decode(shape, GPU, batch=1, context=129).assumptions
    (note,) = set(past) - set(within)
    assert "129" in note
    assert "128" in note


def test_learned_positions_limit_the_longest_context():
    assert pm.max_context(GPT2_LIKE, GPU, batch=1) == 1024


def test_the_result_names_the_precision_meant():
    assert pm.decode(COARSE, GPU, batch=1).precision.name == "bf16"
    own = MODEL.model_copy(update={"precision": pm.Precision.preset("fp16")})
    with pytest.raises(E.UnsupportedFormatError, match="fp16"):
        pm.decode(own, GPU, batch=1, context=1)
    chosen = pm.decode(own, GPU, batch=1, context=1, precision="bf16")
    assert chosen.precision.name == "bf16"


def test_capacity_is_optional_and_says_which_it_is():
    assert pm.decode(COARSE, NO_CAPACITY, batch=1).fits is None
    assert pm.memory(COARSE, GPU, batch=1).capacity_kind == "marketed"
    seen = GPU.model_copy(update={"visible_capacity": 79e9})
    held = pm.memory(COARSE, seen, batch=1)
    assert (held.capacity, held.capacity_kind) == (79e9, "visible")


def test_learned_positions_bound_every_answer():
    for ask in (
        lambda: pm.memory(GPT2_LIKE, GPU, batch=1, context=1025),
        lambda: pm.max_batch(GPT2_LIKE, GPU, context=1025),
        lambda: pm.kv_growth(GPT2_LIKE, contexts=[8, 1025]),
    ):
        with pytest.raises(E.InvalidValueError, match="1024 learned positions"):
            ask()
    # 2 x ((10 + 1024) x 8 + 272) B of weights are 534 tokens of 32 B. With 40 positions they are
    # 42 tokens, which no sequence reaches.
    assert pm.kv_growth(GPT2_LIKE, contexts=[8]).overtakes == 535
    assert pm.kv_growth(GPT2_LIKE.with_(positions=40), contexts=[8]).overtakes is None


def test_a_record_does_not_change():
    with pytest.raises(E.InvalidValueError, match="model_copy"):
        GPU.name = "other"
    with pytest.raises(E.InvalidValueError, match="does not change"):
        del GPU.name


def test_a_cache_has_no_rows_to_scale():
    with pytest.raises(E.InvalidValueError, match="no rows"):
        pm.Precision.parse("bf16+kvint8-row")


@pytest.mark.parametrize("bad", [b"ab", {1: 2}, {1}, "12", True, None, [[1]], [None], [1, "2"]])
def test_a_sweep_takes_rows_of_numbers(bad):
    with pytest.raises(E.InvalidValueError, match="batch"):
        pm.sweep(MODEL, GPU, batch=bad, context=[8])


def test_a_sweep_takes_a_number_for_a_row_of_one():
    assert pm.sweep(MODEL, GPU, batch=8, context=64).time == [
        pm.decode(MODEL, GPU, batch=8, context=64).time
    ]


def test_figures_in_gigabytes_are_noticed():
    with pytest.raises(E.InvalidValueError, match=r"1 TB/s is 1e12.*got 1200"):
        pm.GpuSpec(name="x", memory_bandwidth=1200, peak_flops={"bf16": 4e14})
    with pytest.raises(E.InvalidValueError, match=r"bf16: expected at least 1e6.*got 400"):
        pm.GpuSpec(name="x", memory_bandwidth=1.2e12, peak_flops={"bf16": 400})


def test_an_explanation_states_everything_that_a_number_follows_from():
    slower = pm.Efficiency(compute=0.6, memory=0.8, call_overhead=3e-6, step_overhead=1e-4)
    text = pm.decode(MODEL, GPU, batch=1, context=8, efficiency=slower).explain()
    for word in ("0.6 of the peaks", "0.8 of the bandwidth", "3.00 µs a call", "100 µs a step"):
        assert word in text
    for word in ("memory_bandwidth = 1.000 TB/s", "peak_flops.bf16 = 100.0 TFLOP/s", "4 heads"):
        assert word in text


def test_reprs_are_one_line():
    run = pm.generate(MODEL, GPU, prompt=8, output=4)
    answers = [
        *(run, run.prefill, run.last_step, MODEL, pm.memory(MODEL, GPU, batch=1, context=8)),
        *(pm.compare(MODEL, GPU, batch=1, context=8), pm.sweep(MODEL, GPU, batch=1, context=[8])),
        pm.Precision.parse("fp8"),
    ]
    for answer in answers:
        assert str(answer) == repr(answer)
        assert "\n" not in repr(answer)
        assert len(repr(answer)) < 200
    many = pm.generate(MODEL, GPU, prompt=8, output=4, parallelism=pm.Parallelism(data=2))
    assert f"on 2 x {GPU.name}" in repr(many)
    assert f"on {GPU.name}" in repr(run)
    assert "TTFT" not in run.explain()
    assert run.explain().count("assumptions") == 2


def test_a_shape_without_a_cache_is_swept_over_batches():
    found = pm.sweep(COARSE, GPU, batch=[1, 8])
    assert list(found.to_frame().columns[:2]) == ["batch", "time"]
    assert found.time.tolist() == [pm.decode(COARSE, GPU, batch=b).time for b in (1, 8)]


@pytest.mark.parametrize("bad", ["1", None, 10**400, math.nan, -1.0])
def test_an_efficiency_takes_times(bad):
    with pytest.raises(E.InvalidValueError, match="compute, memory"):
        pm.Efficiency().time(compute=bad, memory=1.0)
