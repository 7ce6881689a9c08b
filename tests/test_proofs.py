"""Is it true for all values? SymPy proves it on the expressions that the library derives."""

from __future__ import annotations

import numpy as np
import pytest
import sympy as sp

import perfmodel as pm
from perfmodel import symbolic as s
from perfmodel.roofline import break_even

F, BETA, K, N = s.peak, s.bandwidth, s.inner, s.outer
H100 = pm.GpuSpec(
    name="H100",
    memory_bandwidth=3.35e12,
    memory_capacity=80e9,
    peak_flops={"bf16": 989e12, "fp8": 1978e12, "int8": 1978e12},
)
LLAMA_8B = pm.ModelShape.dense(
    layers=32, hidden=4096, heads=32, kv_heads=8, ffn=14336, vocab=128256
)


def equal(left: sp.Expr, right: sp.Expr) -> bool:
    return bool(sp.simplify(left - right) == 0)


# -- one matrix ---------------------------------------------------------------------------------


def test_ridge_batch_of_a_gemm_in_bf16():
    # 2Tkn / F = (2kn + 2T(k + n)) / beta, solved by hand for T.
    by_hand = F * K * N / (BETA * K * N - F * (K + N))
    assert equal(s.gemm_ridge_batch(precision="bf16").expression, by_hand)


def test_its_wide_limit_is_the_ridge():
    assert equal(s.wide_gemm_ridge_batch(precision="bf16").expression, F / BETA)


def test_fp8_everywhere_with_a_doubled_peak_keeps_the_ridge_in_tokens():
    fp8 = s.gemm_ridge_batch(precision="uniform-fp8").expression
    assert equal(fp8, s.gemm_ridge_batch(precision="bf16").expression)


def test_and_doubles_it_in_flop_per_byte():
    chip = s.any_gpu()
    assert equal(pm.ridge_intensity(chip, precision="uniform-fp8"), 2 * F / BETA)


@pytest.mark.parametrize(
    ("precision", "factor"),
    [("w8a16", sp.Rational(1, 2)), ("w4a16", sp.Rational(33, 128))],
)
def test_weight_only_formats_lower_the_wide_limit(precision, factor):
    # int8: scales a row vanish in a wide matrix. int4 in groups of 128: (4 + 16/128) / 16 bits.
    ratio = s.wide_gemm_ridge_batch(precision=precision).expression / (F / BETA)
    assert equal(ratio, factor)


def test_int8_weights_halve_the_ridge_at_every_size_but_for_their_scales():
    ratio = (
        s.gemm_ridge_batch(precision="w8a16").expression
        / s.gemm_ridge_batch(precision="bf16").expression
    )
    # k 8-bit weights and one 16-bit scale a row, over 16k bits.
    assert equal(ratio, (8 * K + 16) / (16 * K))


def test_the_solver_agrees_with_the_formula_of_the_floats():
    found = break_even(
        fixed_memory=2 * K * N / BETA, memory=2 * (K + N) / BETA, compute=2 * K * N / F
    )
    assert equal(found, s.gemm_ridge_batch().expression)


def test_floats_agree_with_the_closed_form():
    form = s.gemm_ridge_batch()
    number = pm.gemm_ridge_batch(H100, inner=4096, outer=14336)
    assert form(F=989e12, beta=3.35e12, k=4096, n=14336) == pytest.approx(number, rel=1e-12)


# -- attention ----------------------------------------------------------------------------------


def test_intensity_of_attention_does_not_depend_on_the_batch():
    form = s.attention_intensity()
    assert "B" not in form.symbols
    assert equal(s.limit_of_attention_intensity().expression, sp.Symbol("h", positive=True) / g())


def g() -> sp.Symbol:
    return sp.Symbol("g", positive=True)


def test_attention_has_no_ridge_and_says_on_which_side_it_stays():
    with pytest.raises(pm.errors.NoRidgeError, match=r"h/g FLOP.*F/beta FLOP"):
        s.attention_ridge_batch()
    with pytest.raises(
        pm.errors.NoRidgeError, match=r"\(4 FLOP.*\(295 FLOP.*below it, memory-bound"
    ):
        s.attention_ridge_batch(model=LLAMA_8B, gpu=H100)
    slow = pm.GpuSpec(name="slow", memory_bandwidth=1e12, peak_flops={"bf16": 1e12})
    with pytest.raises(pm.errors.NoRidgeError, match="above it"):
        s.attention_ridge_batch(model=LLAMA_8B, gpu=slow)


# -- the whole step -----------------------------------------------------------------------------


def test_critical_context_by_hand():
    # Per sequence: 2 W' FLOPs (W' weights read) and 4 h d_h L S of attention at F, against
    # 4 g d_h L S bytes at beta. Equal where S = W' beta / (2 L d_h (F g - beta h)).
    L, d, h, d_h, f, V = sp.symbols("L d h d_h f V", positive=True)
    weights = L * (d * (h + 2 * g()) * d_h + h * d_h * d + 3 * d * f) + d * V
    by_hand = weights * BETA / (2 * L * d_h * (F * g() - BETA * h))
    assert equal(s.critical_context().expression, by_hand)


def test_critical_context_of_llama_8b():
    form = s.critical_context(model=LLAMA_8B)
    assert round(form(F=989e12, beta=3.35e12)) == 393
    assert form(F=989e12, beta=3.35e12) == pytest.approx(
        pm.critical_context(LLAMA_8B, H100), rel=1e-12
    )


# -- experts ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "key", ["jamba-1.5-mini", "minimax-text-01", "lfm2-1.2b", "llama-3.1-8b", "deepseek-v3"]
)
def test_the_critical_context_parts_contexts_with_a_ridge_from_those_without(key):
    # Of a model with states, the first token finds none to read: no line goes through it.
    model = pm.model(key)
    critical = pm.critical_context(model, H100, precision="bf16")
    assert pm.step_ridge_batch(model, H100, context=int(critical) - 1, precision="bf16") > 0
    with pytest.raises(pm.errors.NoRidgeError):
        pm.step_ridge_batch(model, H100, context=int(critical) + 1, precision="bf16")


def test_closed_forms_that_experts_have_not_are_refused():
    with pytest.raises(pm.errors.InvalidValueError, match="without experts"):
        s.max_batch_for_time(model=pm.model("mixtral-8x7b"), gpu=H100, precision="bf16")


def test_experts_move_the_ridge_by_total_over_active():
    # E experts of three d x f matrices and a router of d x E; a token meets the router and k_e.
    layer = s.any_experts().blocks[0][1][0]
    experts, chosen, width = layer.experts, layer.top_k, layer.width
    total, active = 3 * experts * width + experts, 3 * chosen * width + experts
    assert equal(s.ridge_batch().expression, F / BETA * total / active)
    assert equal(s.ridge_batch().expression.subs(chosen, experts), F / BETA)


def test_a_dense_model_has_the_ridge_of_its_format():
    assert equal(s.ridge_batch(model=s.any_model()).expression, F / BETA)
    eight_bits = s.ridge_batch(model=s.any_model(), precision="uniform-fp8").expression
    assert equal(eight_bits, F / BETA)  # half the bytes, twice the peak


def test_the_ridge_of_mixtral_is_1078_tokens():
    """Matrices of a pass: 32 (4096 x 6144 + 4096 x 4096 + 4096 x 8 + 8 x 3 x 4096 x 14336) and
    32,000 x 4096 of the head; of a token with 2 experts of the 8.
    """
    rest = 32 * (4096 * 6144 + 4096 * 4096 + 4096 * 8) + 32_000 * 4096
    expert = 32 * 3 * 4096 * 14336
    ratio = sp.Rational(rest + 8 * expert, rest + 2 * expert)
    mixtral = pm.model("mixtral-8x7b")
    closed = s.ridge_batch(model=mixtral, precision="bf16")
    assert equal(closed.expression, F / BETA * ratio)
    assert round(closed(F=989e12, beta=3.35e12)) == 1078
    # So many tokens miss an expert with (3/4)^1078: the floats agree to the last digits.
    found = pm.ridge_batch(mixtral, H100, precision="bf16")
    assert found == pytest.approx(closed(F=989e12, beta=3.35e12), rel=1e-12)


@pytest.mark.parametrize("key", ["deepseek-v3", "gpt-oss-120b", "qwen3-30b-a3b", "llama-4-scout"])
def test_at_the_ridge_batch_of_experts_both_times_are_equal(key):
    model = pm.model(key)
    tokens = pm.ridge_batch(model, H100, precision="bf16")
    matrices = [
        op
        for op in pm.forward(
            model,
            pm.Step.trusted(
                groups=(pm.Group.trusted(count=tokens, new=1, past=0, logits=1, shared_past=0),)
            ),
            "bf16",
        )
        if op.is_product
    ]
    arithmetic = sum(op.calls * op.flops for op in matrices) / 989e12
    reading = sum(op.calls * op.weight_bytes for op in matrices) / 3.35e12
    assert arithmetic == pytest.approx(reading, rel=1e-12)


def test_the_expected_experts_are_the_sum_over_experts_of_being_hit():
    experts, chosen, tokens = sp.symbols("E k T", positive=True)
    layer = s.twin(pm.MixtureOfExperts)
    found = layer.touched(tokens).expected.subs({layer.experts: experts, layer.top_k: chosen})
    assert equal(found, experts * (1 - (1 - chosen / experts) ** tokens))
    assert equal(found.subs(tokens, 1), chosen)
    assert sp.limit(found.subs({experts: 8, chosen: 2}), tokens, sp.oo) == 8


def test_ridge_batch_of_a_step_diverges_at_the_critical_context():
    form = s.step_ridge_batch(model=LLAMA_8B, gpu=H100)
    critical = s.critical_context(model=LLAMA_8B, gpu=H100).expression
    assert sp.limit(1 / form.expression, s.context, critical) == 0
    assert form(S=100) == pytest.approx(pm.step_ridge_batch(LLAMA_8B, H100, context=100), rel=1e-12)
    with pytest.raises(pm.errors.NoRidgeError, match="memory-bound"):
        form(S=4096)  # algebra alone gives a negative batch here
    assert np.isnan(form.function()(4096))
    with pytest.raises(pm.errors.NoRidgeError, match="critical context of 393"):
        pm.step_ridge_batch(LLAMA_8B, H100, context=4096)


def test_kv_overtakes_weights_by_hand():
    # Llama-3.1-8B without norms holds 8,029,995,008 weights of 2 B; a sequence of 4,096 tokens
    # holds 4,096 x 131,072 B: 29.9 sequences.
    form = s.kv_overtakes_weights(model=LLAMA_8B.with_(norm=None))
    assert form(S=4096) == pytest.approx(2 * 8_029_995_008 / (4096 * 131_072), rel=1e-12)


def test_largest_batch_for_a_step_time_meets_the_time():
    form = s.max_batch_for_time(model=LLAMA_8B, gpu=H100)
    for context, target in ((100, 0.02), (4096, 0.02), (300, 0.1)):
        size = form(S=context, t=target)
        step = pm.decode(LLAMA_8B, H100, batch=round(size), context=context)
        # The floor counts the same work: weights, KV, FLOPs, no activations.
        assert step.floor == pytest.approx(target, rel=0.02)
    with pytest.raises(pm.errors.NoRidgeError, match="weights alone"):
        form(S=100, t=0.001)  # the weights take 4.48 ms


def test_longest_context_for_a_capacity_is_max_context():
    form = s.max_context_for_capacity(model=LLAMA_8B, gpu=H100)
    assert int(form(B=7)) == pm.max_context(LLAMA_8B, H100, batch=7)
    tight = pm.GpuSpec(
        name="16 GB", memory_bandwidth=1e12, memory_capacity=16e9, peak_flops={"bf16": 1e14}
    )
    with pytest.raises(pm.errors.NoRidgeError, match="do not fit"):
        s.max_context_for_capacity(model=LLAMA_8B, gpu=tight)(B=1)


def test_uniform_fp8_halves_the_whole_step_where_the_peak_doubles():
    # Max(a, b) = a max(1, b / a): halving both sides leaves the ratio, whatever SymPy's order.
    ratio = sp.Function("max_of_1_and")

    def in_ratios(precision: str) -> sp.Expr:
        def split(*roofs: sp.Expr) -> sp.Expr:
            memory, compute = sorted(roofs, key=lambda roof: roof.has(F))
            return memory * ratio(sp.cancel(compute / memory))

        return s.step_time(precision=precision).expression.replace(sp.Max, split)

    assert equal(in_ratios("bf16") / 2, in_ratios("uniform-fp8"))


# -- expressions as functions -------------------------------------------------------------------


@pytest.mark.parametrize("precision", ["bf16", "fp8", "w8a16", "w4a16", "int8", "uniform-fp8"])
def test_lambdified_step_time_agrees_with_the_floats(precision):
    form = s.step_time(model=LLAMA_8B, gpu=H100, precision=precision)
    assert form.symbols == ("B", "S")
    batches = np.array([1.0, 8.0, 64.0, 1024.0])
    contexts = np.array([1.0, 500.0, 4096.0, 131072.0])
    found = form.function()(batches, contexts)
    expected = [
        pm.decode(LLAMA_8B, H100, batch=int(b), context=int(c), precision=precision).time
        for b, c in zip(batches, contexts, strict=True)
    ]
    np.testing.assert_allclose(found, expected, rtol=1e-12)


def test_step_time_on_symbols_alone_agrees_with_the_floats():
    form = s.step_time()
    values = {"F": 989e12, "beta": 3.35e12, "B": 64, "S": 2048, "L": 32, "d": 4096}
    values |= {"h": 32, "g": 8, "d_h": 128, "f": 14336, "V": 128256}
    assert set(form.symbols) == set(values)
    expected = pm.decode(LLAMA_8B, H100, batch=64, context=2048).time
    assert form(**values) == pytest.approx(expected, rel=1e-12)
    ordered = [float(values[name]) for name in form.symbols]
    assert form.function()(*ordered) == pytest.approx(expected, rel=1e-12)


def test_a_closed_form_names_what_it_lacks():
    with pytest.raises(pm.errors.InvalidValueError, match="beta: required"):
        s.gemm_ridge_batch()(F=1e15, k=4096, n=4096)
    with pytest.raises(pm.errors.UnknownKeyError, match="did you mean 'beta'"):
        s.gemm_ridge_batch()(F=1e15, k=4096, n=4096, beat=1e12)


@pytest.mark.parametrize("bad", [None, "x", float("nan"), float("inf"), 0, -1, 1j])
def test_a_closed_form_refuses_what_is_no_number(bad):
    with pytest.raises(pm.errors.InvalidValueError, match="k: expected"):
        s.gemm_ridge_batch()(F=1e15, beta=1e12, k=bad, n=4096)


def test_a_numpy_scalar_of_few_digits_does_not_coarsen_the_algebra():
    values = {"F": 989e12, "beta": 3.35e12, "n": 4096}
    found = s.gemm_ridge_batch()(k=np.float32(4096), **values)
    assert found == s.gemm_ridge_batch()(k=4096, **values)


def test_functions_take_their_symbols_by_name():
    function = s.max_batch_for_time(model=LLAMA_8B, gpu=H100).function()
    assert function(t=0.02, S=4096) == function(4096, 0.02)


@pytest.mark.parametrize("precision", ["fp32", "tf32", "nvfp4"])
def test_every_format_has_its_symbol(precision):
    assert s.step_intensity(precision=precision).symbols
    assert s.kv_overtakes_weights(precision=precision).symbols
    assert "beta" in s.step_ridge_batch(precision=precision).symbols


def test_what_algebra_cannot_solve_is_said():
    windowed = LLAMA_8B.with_(window=4096)
    for ask in (s.critical_context, s.max_context_for_capacity):
        with pytest.raises(pm.errors.InvalidValueError, match="windows"):
            ask(model=windowed, gpu=H100)
    # SymPy has no limit of a minimum: not even the question which side of the ridge it tends to.
    for ask in (s.limit_of_attention_intensity, s.attention_ridge_batch):
        with pytest.raises(pm.errors.InvalidValueError, match="windows"):
            ask(model=windowed)
    coarse = pm.ModelShape.from_totals(params=8e9)
    with pytest.raises(pm.errors.NoRidgeError, match="depend on S"):
        s.critical_context(model=coarse)
    cached = pm.ModelShape.from_totals(params=8e9, kv_bytes_per_token=1e5)
    with pytest.raises(pm.errors.InvalidValueError, match="attention"):
        s.attention_intensity(model=cached)


def test_latex():
    assert s.wide_gemm_ridge_batch().latex == r"\frac{F}{\beta}"
