"""From floor to expectation: what is known of kernels, engines and hosts, and how sure it is."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from strategies import batches, contexts, full_attention_models

import perfmodel as pm
from perfmodel.base.errors import InvalidValueError, UnknownKeyError
from perfmodel.machine.efficiency import IDEAL
from perfmodel.sources.efficiency import resolve_efficiency
from perfmodel.work.layers import MixtureOfExperts

LLAMA, H100 = pm.model("llama-3.1-8b"), pm.gpu("h100-sxm")
ENGINES = ("sglang", "trtllm", "vllm")
FITTED = (
    "a100-sxm-80gb",
    "b200-sxm",
    "b300-sxm",
    "gb200",
    "gb300",
    "h100-sxm",
    "h200-sxm",
    "l40s",
    "rtx-pro-6000-server",
)


def test_the_engines_are_named():
    assert set(ENGINES) <= set(pm.engines())


@pytest.mark.parametrize("key", pm.gpus())
@pytest.mark.parametrize("engine", [None, *ENGINES])
def test_something_is_known_of_every_chip(key, engine):
    found = pm.efficiency(pm.gpu(key), engine=engine)
    assert found.engine == (engine or "")
    assert (found.host is None) == (engine is None)
    names = {known.name for known in found.kernels}
    assert {"matrix.bf16", "decode-attention.bf16", "prefill-attention.bf16"} <= names
    assert len(names) == len(found.kernels)
    for known in (*found.kernels, *found.collectives):
        if known is not found.kernel("small"):  # assumed, not measured
            assert 0 < known.band.low < known.band.high
    for whole in (found.decode_band, found.prefill_band):
        assert 0 < whole.low <= 1 <= whole.high
    assert all(origin.source is not None and origin.date for origin in found.origins)


@pytest.mark.parametrize("key", FITTED)
def test_measured_chips_have_their_own(key):
    assert pm.efficiency(pm.gpu(key)).known == "chip"


def test_others_have_their_family_s_or_none():
    assert pm.efficiency(pm.gpu("h100-pcie")).known == "family"
    assert pm.efficiency(pm.gpu("rtx-4090")).known == "family"
    assert pm.efficiency(pm.gpu("mi325x")).known == "family"
    assert pm.efficiency(pm.gpu("gaudi2")).known == "unknown"
    mine = pm.GpuSpec(name="mine", memory_bandwidth=1e12, peak_flops={"bf16": 1e14})
    assert pm.efficiency(mine).known == "unknown"


def test_an_engine_or_efficiency_that_is_not_known_is_refused():
    with pytest.raises(UnknownKeyError, match=r"^engine: no engine 'vlm'.*vllm"):
        pm.decode(LLAMA, H100, batch=1, context=1, engine="vlm")
    for wrong in ("atuo", 0.7, None, {"memory": 0.8}):
        with pytest.raises(InvalidValueError, match=r"^efficiency: expected one of auto, ideal"):
            pm.decode(LLAMA, H100, batch=1, context=1, efficiency=wrong)


def test_the_ideal_by_name_is_the_default():
    assert resolve_efficiency("ideal", H100, None) is IDEAL
    plain = pm.decode(LLAMA, H100, batch=8, context=2048)
    named = pm.decode(LLAMA, H100, batch=8, context=2048, efficiency="ideal")
    assert named.time == plain.time
    assert plain.low is None
    assert plain.high is None


WORK = pm.Workload(prompt=9, output=9, concurrency=1)
SLO = pm.Slo(tpot=1)
ASKED = {
    "decode": lambda **told: pm.decode(LLAMA, H100, batch=1, context=9, **told),
    "prefill": lambda **told: pm.prefill(LLAMA, H100, prompt=9, **told),
    "generate": lambda **told: pm.generate(LLAMA, H100, prompt=9, output=9, **told),
    "compare": lambda **told: pm.compare(LLAMA, H100, batch=1, context=9, **told),
    "serve": lambda **told: pm.serve(LLAMA, H100, WORK, **told),
    "plan": lambda **told: pm.plan(LLAMA, WORK, slo=SLO, gpus=H100, **told),
    "largest_load": lambda **told: pm.largest_load(
        LLAMA, WORK, slo=SLO, gpus=H100, devices=1, **told
    ),
    "sweep": lambda **told: pm.sweep(LLAMA, H100, batch=1, context=9, **told),
    "calibrate": lambda **told: pm.calibrate("x.csv", H100, base=told["efficiency"], engine="vllm"),
}


@pytest.mark.parametrize("ask", ASKED)
@pytest.mark.parametrize("given", ["ideal", pm.Efficiency(compute=0.7)], ids=["ideal", "own"])
def test_an_engine_beside_another_efficiency_is_refused(ask, given):
    with pytest.raises(InvalidValueError, match=r"engine.*: expected one of them, got") as refused:
        ASKED[ask](engine="vllm", efficiency=given)
    assert ask == "calibrate" or "'vllm' and " in str(refused.value)


def test_an_engine_beside_what_it_implies_is_not():
    plain = ASKED["decode"](engine="vllm")
    assert ASKED["decode"](engine="vllm", efficiency="auto") == plain
    # In a list of engines, None stands for the efficiency.
    own = pm.Efficiency(compute=0.5, memory=0.5)
    found = ASKED["sweep"](engine=[None, "vllm"], efficiency=own).to_frame()
    times = [ASKED["decode"](efficiency=own).time, plain.time]
    assert found["time"].tolist() == pytest.approx(times)


def test_an_engine_implies_what_is_known():
    auto = pm.decode(LLAMA, H100, batch=8, context=2048, efficiency="auto")
    vllm = pm.decode(LLAMA, H100, batch=8, context=2048, engine="vllm")
    assert auto.efficiency.engine == ""
    assert vllm.efficiency.engine == "vllm"
    assert vllm.efficiency == pm.efficiency(H100, engine="vllm")
    trt = pm.efficiency(H100, engine="tensorrt-llm")
    assert trt == pm.efficiency(H100, engine="trtllm")


def test_forms_without_parameters_give_the_roofs_bit_for_bit():
    kinds = ("matrix.bf16", "decode-attention.bf16")
    plain = pm.Efficiency(
        kernels=tuple(pm.KernelEfficiency(name=kind, form=pm.KernelForm()) for kind in kinds)
    )
    for step in (
        lambda **k: pm.decode(LLAMA, H100, batch=8, context=2048, **k),
        lambda **k: pm.prefill(LLAMA, H100, prompt=2048, **k),
    ):
        assert step(efficiency=plain).time == step().time


@given(model=full_attention_models(), batch=batches, context=contexts)
def test_no_operation_is_expected_below_its_own_roof(model, batch, context):
    step = pm.decode(model, H100, batch=batch, context=context, precision="bf16", engine="vllm")
    for row in step.rows():
        assert row.time >= max(row.compute_time, row.memory_time) * (1 - 1e-12)
    assert step.floor <= step.low <= step.time <= step.high


def test_a_step_is_kernels_small_kernels_and_the_host_by_hand():
    # One product of 4096 x 4096 in bf16 on a chip of 1 PFLOP/s and 2 TB/s; 16 tokens.
    chip = pm.GpuSpec(name="chip", memory_bandwidth=2e12, peak_flops={"bf16": 1e15})
    form = pm.KernelForm(compute=0.8, memory=0.8, launch=3e-6, fill=2e-10, exponent=2)
    known = pm.Efficiency(
        kernels=(
            pm.KernelEfficiency(name="matrix.bf16", form=form, band={"low": 0.9, "high": 1.3}),
        ),
        host={"constant": 1e-3, "sequence": 1e-5},
        block_overhead=2e-5,
    )
    shape = pm.ModelShape(
        hidden=4096, blocks=((1, (pm.layers.Projection(inputs=4096, outputs=4096),)),)
    )
    group = pm.Group(count=16, new=1)
    step = pm.estimate(shape, chip, pm.Step(groups=(group,)), precision="bf16", efficiency=known)
    compute = 2 * 16 * 4096**2 / 1e15 / 0.8
    memory = 2 * (4096**2 + 16 * 2 * 4096) / 2e12 / 0.8
    kernel = 3e-6 + 2e-10 * 4096 + math.hypot(compute, memory)
    assert [op.name for op in step.operations] == ["projection"]
    assert math.isclose(step.time, kernel + 2e-5 + 1e-3 + 16e-5, rel_tol=1e-12)
    assert math.isclose(step.high, step.time + 0.3 * kernel, rel_tol=1e-12)
    assert math.isclose(step.low, step.time - 0.1 * kernel, rel_tol=1e-12)


def test_bands_of_kinds_add_as_squares():
    step = pm.decode(LLAMA, H100, batch=8, context=2048, engine="vllm")
    known = {kernel.name: kernel.band for kernel in step.efficiency.kernels if kernel.band}
    above = (step.time * (step.efficiency.decode_band.high - 1)) ** 2
    for name, band in known.items():
        time = sum(row.time for row in step.rows() if row.operation.kernel.name == name)
        above += (time * (band.high - 1)) ** 2
    assert math.isclose(step.high - step.time, math.sqrt(above), rel_tol=1e-9)


def test_prompts_have_a_band_of_their_own():
    prompt = pm.prefill(LLAMA, H100, prompt=2048, engine="vllm")
    same = pm.estimate(LLAMA, H100, prompt.step, engine="vllm")
    assert (same.low, same.high) == (prompt.low, prompt.high)
    unsure = prompt.efficiency.model_copy(update={"prefill_band": pm.Band(low=0.5, high=3.0)})
    found = pm.prefill(LLAMA, H100, prompt=2048, efficiency=unsure)
    assert found.high > 3 * found.time > prompt.high
    step = pm.decode(LLAMA, H100, batch=8, context=2048, efficiency=unsure)
    assert step.high < 2 * step.time


# -- small kernels ---------------------------------------------------------------------------------


def test_small_kernels_by_hand():
    """A launch each, and the bytes of 8 tokens: Llama-3.1-8B, 32 blocks, bf16."""
    launches = 2 * 32 + 32 + 2 * 32 + 1  # norms, activations, additions, the last norm
    norm, addition, activation = 2 * 4096 * 2, 3 * 4096 * 2, (2 * 14336 + 14336) * 2
    each = 65 * norm + 64 * addition + 32 * activation
    assert each == 5_390_336
    step = pm.decode(LLAMA, H100, batch=8, context=2048, engine="vllm")
    host = 8 * 6.2e-6
    between = launches * 2e-6 + 8 * each / 3.35e12
    listed = sum(row.time for row in step.rows())
    assert math.isclose(step.time, listed + host + between, rel_tol=1e-9)


@pytest.mark.parametrize("key", pm.models())
def test_what_is_listed_changes_nothing_that_is_expected(key):
    model = pm.model(key)
    for group in (pm.Group(count=7, new=1, past=900), pm.Group(count=2, new=300, past=20)):
        step = pm.Step(groups=(group,))
        known = {"efficiency": "auto", "precision": "bf16"}
        fused = pm.estimate(model, H100, step, **known)
        listed = pm.estimate(model, H100, step, small_steps="separate", **known)
        assert math.isclose(fused.time, listed.time, rel_tol=1e-12)
        assert fused.ideal <= fused.time


def test_devices_sort_choices_of_experts_that_others_hold():
    moe = MixtureOfExperts(experts=8, top_k=2, width=14336)
    held = moe.share(pm.Parallelism(tensor=4, expert=4))
    step = pm.Step(groups=(pm.Group(count=4, new=1),))
    sent = [
        [
            op.sizes.prepared
            for op in layer.operations(4096, step, pm.Precision.preset("bf16"), 1)
            if op.kind == "experts"
        ]
        for layer in (moe, held)
    ]
    assert sent[0] == sent[1] == [4 * 2 * 4096 / 2] * 2


# -- launches --------------------------------------------------------------------------------------


def launches(step):
    """Time of all launches, as in a replayed graph, small kernels at 2 us each."""
    big = sum(
        row.operation.calls
        * row.operation.sizes.launches
        * step.efficiency.kernel(row.operation.kernel.name).form.launch
        for row in step.rows()
        if row.operation.kernel.name
    )
    return big + (2 * 32 + 32 + 2 * 32 + 1) * 2e-6


def test_without_graphs_each_launch_takes_longer():
    replayed = pm.decode(LLAMA, H100, batch=4, context=900, engine="vllm")
    known = pm.efficiency(H100, engine="vllm", graphs=False)
    alone = pm.decode(LLAMA, H100, batch=4, context=900, efficiency=known)
    scale = known.host.launch_scale
    assert scale > 2
    added = alone.time - replayed.time
    assert math.isclose(added, (scale - 1) * launches(replayed), rel_tol=1e-9)


def test_prompts_replay_no_graph():
    prompt = pm.prefill(LLAMA, H100, prompt=128, engine="vllm")
    host = prompt.efficiency.host.model_copy(update={"launch_scale": 1.0})
    replayed = prompt.efficiency.model_copy(update={"host": host})
    quick = pm.prefill(LLAMA, H100, prompt=128, efficiency=replayed)
    added = prompt.time - quick.time
    scale = prompt.efficiency.host.launch_scale
    assert math.isclose(added, (scale - 1) * launches(quick), rel_tol=1e-9)
    # Nor do tokens beside a prompt; without an engine no host is known, and nothing is added.
    groups = (pm.Group(count=4, new=1, past=900), pm.Group(count=1, new=128))
    both = pm.estimate(LLAMA, H100, pm.Step(groups=groups), engine="vllm")
    assert both.time - pm.estimate(LLAMA, H100, both.step, efficiency=replayed).time > 1e-3


# TensorRT-LLM 0.8 (docs/source/performance.md @4bb65f216f2f), prompts of 128 tokens, in fp8 with an
# fp8 cache [s]. The time of a launch was fitted to A100.
FIRST = {
    ("h100-sxm", "llama-2-7b", 1): 6.4e-3,
    ("h100-sxm", "llama-2-70b", 8): 17.0e-3,
    ("h200-sxm", "llama-2-7b", 1): 5.8e-3,
    ("h200-sxm", "llama-2-70b", 8): 16.0e-3,
}


@pytest.mark.parametrize(("key", "model", "tensor"), FIRST)
def test_first_tokens_of_short_prompts(key, model, tensor):
    ways = pm.Parallelism(tensor=tensor)
    found = pm.prefill(
        pm.model(model), pm.gpu(key), prompt=128, precision="fp8+kv8", engine="trtllm",
        parallelism=ways,
    )  # fmt: skip
    measured = FIRST[key, model, tensor]
    assert 0.87 < found.time / measured < 1.15
    assert found.low < measured < found.high


# -- kernels of others -----------------------------------------------------------------------------

# TensorRT-LLM 0.9 on two A100, Mixtral 8x7B in fp16, batches that start together [s]
# (TensorRT-LLM docs/source/performance/perf-overview.md @6ad7cf1bcc08). On A100 only the experts
# of SGLang were measured, which take twice as long.
MIXTRAL = {(512, 128, 128): 11.53, (128, 128, 2048): 76.03, (64, 2048, 128): 12.84}


def test_an_engine_s_experts_are_carried_over_from_other_chips():
    a100, mixtral = pm.gpu("a100-sxm-80gb"), pm.model("mixtral-8x7b")
    known = {"precision": "fp16", "parallelism": pm.Parallelism(tensor=2), "engine": "trtllm"}
    for (batch, prompt, output), measured in MIXTRAL.items():
        first = pm.prefill(mixtral, a100, prompt=prompt, batch=batch, **known)
        step = pm.decode(mixtral, a100, batch=batch, context=prompt + output // 2, **known)
        expected = first.time + (output - 1) * step.time
        assert 0.84 < expected / measured < 1.15
    own = pm.efficiency(a100, engine="trtllm").kernel("experts.bf16")
    assert own != pm.efficiency(a100, engine="sglang").kernel("experts.bf16")
    # Decode attention is not: what other engines reach on the chip says more.
    other = pm.efficiency(a100).kernel("latent-decode.fp8")
    assert pm.efficiency(a100, engine="vllm").kernel("latent-decode.fp8") == other


def test_tensorrt_llm_takes_tuned_kernels_in_four_bits_on_blackwell_alone():
    def kernels(gpu: str, engine: str) -> pm.Efficiency:
        return pm.efficiency(pm.gpu(gpu), engine=engine)

    # A chip of its own, and one of which only the family is known.
    for gpu in ("b200-sxm", "b100-sxm"):
        for name in ("matrix.nvfp4", "experts.nvfp4", "experts.mxfp4a16"):
            assert kernels(gpu, "trtllm").kernel(name) == kernels(gpu, "sglang").kernel(name)
        for name in ("matrix.bf16", "experts.fp8-block"):
            assert kernels(gpu, "trtllm").kernel(name) != kernels(gpu, "sglang").kernel(name)
    for gpu, name in (("h200-sxm", "experts.mxfp4a16"), ("rtx-pro-6000-server", "matrix.nvfp4")):
        assert kernels(gpu, "trtllm").kernel(name) != kernels(gpu, "sglang").kernel(name)


# -- MI300X ----------------------------------------------------------------------------------------

# Llama-3.1-70B in fp8, cache too, on eight MI300X with AMD's vLLM 0.8.5 (docs/dev-docker/README.md
# @16d2b92ebcf9) and 405B as dstack measured it in November 2024, from batch, prompt and output to
# the last token [s]: shapes and a model that no parameter was fitted to.
SHAPES = {
    (2, 128, 2048): 16.865,
    (128, 128, 2048): 43.898,
    (32, 2048, 2048): 26.729,
    (64, 128, 2048): 30.753,  # of 0.8.5 at another revision, as the next
    (4, 2048, 2048): 17.983,
}
DEEPER = {(8, 128, 2048): 68.698, (64, 128, 2048): 99.368}


@pytest.mark.parametrize(
    ("name", "rows", "low", "high"),
    [("llama-3.1-70b", SHAPES, 0.88, 1.12), ("llama-3.1-405b", DEEPER, 0.7, 1.0)],
)
def test_mi300x_carries_over_to_other_shapes_and_to_a_deeper_model(name, rows, low, high):
    chip = pm.gpu("mi300x")
    known = {"precision": "fp8+kv8", "parallelism": pm.Parallelism(tensor=8), "engine": "vllm"}
    for (batch, prompt, output), measured in rows.items():
        first = pm.prefill(pm.model(name), chip, prompt=prompt, batch=batch, **known)
        context = prompt + output // 2
        step = pm.decode(pm.model(name), chip, batch=batch, context=context, **known)
        assert low < (first.time + (output - 1) * step.time) / measured < high
    # As kernels of other chips are launched, and as their links carry, both are far too fast.
    elsewhere = pm.GpuSpec(**{**dict(chip), "key": ""})
    assert pm.decode(pm.model(name), elsewhere, batch=8, context=1152, **known).time < 0.85 * (
        pm.decode(pm.model(name), chip, batch=8, context=1152, **known).time
    )


def test_sweeps_expect_what_single_steps_do():
    sizes = np.array([1, 8, 64])
    table = pm.sweep(LLAMA, H100, batch=sizes, context=[100, 5000], engine="vllm")
    single = [
        pm.decode(LLAMA, H100, batch=int(b), context=c, engine="vllm").time
        for b in sizes
        for c in (100, 5000)
    ]
    assert np.allclose(table.time, single, rtol=1e-12)


def test_the_band_of_stages_is_that_of_the_one_that_takes_longest():
    ways = pm.Parallelism(pipeline=2)
    how = {"parallelism": ways, "engine": "vllm"}
    step = pm.prefill(LLAMA, H100, prompt=300, batch=4, **how)
    first, last = step._devices  # the last one has the head
    assert last.sums.time > first.sums.time
    shares = [stage.spread[1] / stage.sums.time for stage in (first, last)]
    assert not math.isclose(*shares, rel_tol=1e-4)
    assert math.isclose(step.high, step.time * (1 + shares[1]))
    frame = pm.sweep(LLAMA, H100, batch=[1, 4], prompt=[8, 300], **how).to_frame(["low", "high"])
    assert np.allclose(frame.iloc[-1], [step.low, step.high], rtol=1e-12)


def test_an_estimate_with_bands_survives_json():
    step = pm.decode(LLAMA, H100, batch=8, context=2048, engine="vllm")
    again = pm.Estimate.model_validate_json(step.model_dump_json())
    assert again == step
    assert (again.time, again.low, again.high) == (step.time, step.low, step.high)


# Time a token of TensorRT-LLM 1.0 on one H100, eight users, prompts of 1,024 tokens, bf16 [ms], by
# tokens of the output: a serving sample of aiconfigurator 0.12.0 (Apache-2.0). Prefills of other
# users are in it, so that it lies above a bare decode step, and less so for long outputs.
SERVED = {128: 7.944, 256: 7.549}


def test_a_served_step_is_expected_within_its_band_and_a_few_prefills():
    for output, measured in SERVED.items():
        step = pm.decode(LLAMA, H100, batch=8, context=1024 + output // 2, engine="trtllm")
        prompt = pm.prefill(LLAMA, H100, prompt=1024, engine="trtllm")
        # Each of the other users' prefills once in an output.
        expected = step.time + 7 * prompt.time / (output - 1)
        assert step.floor < measured * 1e-3
        assert step.low < measured * 1e-3 < 1.15 * expected


def test_the_products_of_experts_are_launched_once():
    # Two products of a layer's experts, with nothing but a launch of 30 us between them.
    form = pm.KernelForm(launch=30e-6)
    known = pm.Efficiency(kernels=(pm.KernelEfficiency(name="experts.bf16", form=form),))
    mixtral = pm.model("mixtral-8x7b")
    late = pm.decode(mixtral, H100, batch=1, context=1, precision="bf16", efficiency=known)
    ideal = pm.decode(mixtral, H100, batch=1, context=1, precision="bf16")
    assert math.isclose(late.time - ideal.time, 32 * 30e-6, rel_tol=1e-9)


def test_the_sizes_of_kernels_by_hand():
    step = pm.Step(groups=(pm.Group(count=3, new=1, past=99), pm.Group(count=1, new=1, past=299)))
    sizes = {op.name: op.sizes for op in pm.forward(pm.model("mixtral-8x7b"), step, "bf16")}
    assert (sizes["qkv"].inner, sizes["qkv"].prepared) == (4096, 4 * 4096)
    # Each of four tokens goes to two experts; their two products prepare a row once together.
    experts = sizes["experts_up"], sizes["experts_down"]
    # Each choice of each token is sent once, for both products.
    assert [size.prepared for size in experts] == [4 * 2 * 4096 / 2] * 2
    assert sum(size.launches for size in experts) == 1
    # Contexts of 100, 100, 100 and 300 tokens; eight KV heads of four sequences.
    assert (sizes["attention"].inner, sizes["attention"].tiles) == (600 / 4, 8 * 4)
    assert sizes["embedding"] == type(sizes["qkv"])()


def test_the_sizes_of_prefill_kernels_by_hand():
    # Two prompts of 129 tokens: two blocks of at most 128 queries each, for each of 32 heads.
    step = pm.Step(groups=(pm.Group(count=2, new=129),))
    sizes = {op.name: op.sizes for op in pm.forward(LLAMA, step, "bf16")}
    assert sizes["attention"].tiles == 32 * 2 * 2
    assert sizes["attention"].exponentials == 32 * 2 * 129 * 130 / 2
    assert sizes["attention"].inner == 0


@pytest.mark.parametrize("how", [{"efficiency": "auto"}, {"engine": "vllm"}, {"engine": "trtllm"}])
def test_a_model_of_totals_has_no_small_kernels(how):
    coarse = pm.ModelShape.from_totals(params=8e9)
    for step in (
        pm.decode(coarse, H100, batch=1, **how),
        pm.prefill(coarse, H100, prompt=9, **how),
    ):
        host = step.efficiency.host
        alone = 0.0 if host is None else host.time(sequences=1)
        assert math.isclose(step.time, sum(row.time for row in step.rows()) + alone, rel_tol=1e-12)
        assert step.floor <= step.low <= step.time <= step.high


def test_a_prompt_of_one_token_is_launched_as_prompts_are():
    one, two = (pm.prefill(LLAMA, H100, prompt=n, engine="vllm") for n in (1, 2))
    assert math.isclose(one.time, two.time, rel_tol=0.05)


def test_guesses_are_checked_as_tokens_are_written():
    def step(new: int, logits: int, past: int) -> pm.Estimate:
        group = pm.Group(count=4, new=new, past=past, logits=logits)
        return pm.estimate(LLAMA, H100, pm.Step(groups=(group,)), engine="vllm")

    # Small kernels and others, a hundred us or more at 2 us each, and 2.8 times that for prompts.
    checked, read = step(4, 4, 900), step(4, 1, 900)
    assert read.time - checked.time > 1e-3
    # A prompt that is scored throughout follows nothing.
    assert step(4, 4, 0).time > checked.time + 0.9e-3


@pytest.mark.parametrize("value", [None, 0, 1, "no"])
@pytest.mark.parametrize("engine", [None, "vllm", "llama.cpp"])
def test_graphs_are_replayed_or_not(value, engine):
    with pytest.raises(InvalidValueError, match="graphs: expected True or False, got"):
        pm.efficiency(H100, engine=engine, graphs=value)
    assert not pm.efficiency(H100, engine=engine, graphs=False).graphs


@pytest.mark.parametrize(
    ("chip", "engine", "said", "left_out"),
    [
        ("h100-sxm", "vllm", "kernels of vllm, fitted to this chip", ["sampling"]),
        ("h100-pcie", "sglang", "kernels of sglang, fitted to chips of its family", ["sampling"]),
        ("rtx-4090", "llama.cpp", "kernels of llama.cpp", ["sampling"]),
        ("h100-sxm", None, "kernels of all engines together", ["host time", "sampling"]),
    ],
)
def test_an_estimate_says_whose_kernels_it_expects(chip, engine, said, left_out):
    asked = {"engine": engine} if engine else {"efficiency": "auto"}
    step = pm.decode(pm.model("llama-3.1-8b"), pm.gpu(chip), batch=1, context=100, **asked)
    assert any(said in line for line in step.assumptions)
    missing = ", ".join([*left_out, "scheduling", "thermal limits"])
    assert step.assumptions[-1] == f"not modelled: {missing}"


def test_an_ideal_estimate_models_neither_launches_nor_host():
    step = pm.decode(pm.model("llama-3.1-8b"), pm.gpu("h100-sxm"), batch=1, context=100)
    assert step.assumptions[-1].startswith("not modelled: kernel launches, host time, sampling")
