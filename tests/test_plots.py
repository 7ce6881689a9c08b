"""What is drawn where: positions by hand, labels that keep apart, and nothing that leaks."""

from __future__ import annotations

import io
import json
import math
import subprocess
import sys
from itertools import combinations
from types import SimpleNamespace

import pytest

import perfmodel as pm

pytest.importorskip("matplotlib")
import matplotlib as mpl
from matplotlib.colors import to_hex, to_rgb
from matplotlib.figure import Figure

from perfmodel.interfaces.plots import _canvas

E = pm.errors
P = pm.plots

# Dense figures of the H100's data sheet, the SXM board.
H100 = pm.GpuSpec(
    name="H100",
    memory_bandwidth=3.35e12,
    memory_capacity=80e9,
    peak_flops={"bf16": 989.4e12, "fp8": 1978.9e12},
)
# Eight billion weights of two bytes, and 1e5 B of KV a token.
COARSE = pm.ModelShape.from_totals(params=8e9, kv_bytes_per_token=1e5)
LLAMA = pm.model("llama-3.1-8b")
PLANS = pm.largest_load(
    LLAMA,
    pm.Workload(prompt=1000, output=200, concurrency=1),
    slo=pm.Slo(tpot=0.02),
    devices=2,
    gpus=["h100-sxm", "l40s"],
    precisions=["bf16", "fp8"],
)
SWEEP = pm.sweep(LLAMA, pm.gpu("h100-sxm"), batch=[1, 64, 512, 4096], context=[16, 4096])
HELD = pm.memory(LLAMA, H100, batch=16, context=8192)

# Every chart, by what it needs.
CHARTS = {
    "roofline": lambda **how: P.roofline(H100, **how),
    "roofline of a step": lambda **how: P.roofline(
        H100, operations=pm.decode(LLAMA, H100, batch=8, context=512), **how
    ),
    "step_time": lambda **how: P.step_time(COARSE, H100, context=1000, **how),
    "kv_growth": lambda **how: P.kv_growth(COARSE, H100, batch=64, **how),
    "memory": lambda **how: P.memory(HELD, **how),
    "frontier": lambda **how: P.frontier(PLANS, **how),
    "heatmap": lambda **how: P.heatmap(SWEEP, x="batch", y="context", value="time", **how),
}


def texts(ax) -> list[str]:
    return [text.get_text() for text in ax.texts if text.get_text()]


def legend(ax) -> list[str]:
    return [text.get_text() for text in ax.get_legend().get_texts()]


def left(patch) -> float:
    """Where a patch begins, in the data's own numbers."""
    corner = patch.get_window_extent().min
    return patch.axes.transData.inverted().transform(corner)[0]


def line(ax, label):
    return next(one for one in ax.lines if one.get_label() == label)


# -- all of them -----------------------------------------------------------------------------------


@pytest.mark.parametrize("chart", CHARTS)
def test_a_chart_draws_where_it_is_told(chart):
    ax = Figure().add_subplot()
    assert CHARTS[chart](ax=ax) is ax
    assert ax.has_data()


@pytest.mark.parametrize("theme", ["light", "dark"])
@pytest.mark.parametrize("chart", CHARTS)
def test_a_chart_of_its_own_is_a_picture(chart, theme):
    ax = CHARTS[chart](theme=theme)
    file = io.BytesIO()
    ax.figure.savefig(file, format="svg")
    assert file.getvalue().startswith(b"<?xml")
    assert ax.get_title(loc="left")


@pytest.mark.parametrize("chart", CHARTS)
def test_no_text_hides_another(chart):
    ax = CHARTS[chart]()
    ax.figure.draw_without_rendering()
    found = [text for text in ax.texts if text.get_text()]
    boxes = {text.get_text(): text.get_window_extent() for text in found}
    if ax.get_legend():
        boxes["legend"] = ax.get_legend().get_window_extent()
    assert len(boxes) == len(found) + bool(ax.get_legend())
    hidden = [(a, b) for a, b in combinations(boxes, 2) if boxes[a].overlaps(boxes[b])]
    assert not hidden


def luminance(colour: str) -> float:
    """Of sRGB, as the accessibility guidelines of the web (WCAG 2) define it."""
    r, g, b = (c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4 for c in to_rgb(colour))
    return 0.2126 * r + 0.7152 * g + 0.0722 * b


def contrast(one: str, other: str) -> float:
    dark, light = sorted((luminance(one), luminance(other)))
    return (light + 0.05) / (dark + 0.05)


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_colours_stand_out_on_both_papers(theme):
    paper = _canvas._PAPERS[theme]
    assert contrast(_canvas._INKS[theme], paper) > 7
    assert all(contrast(colour, paper) >= 3 for colour in _canvas.COLOURS)


def test_colours_are_those_of_okabe_and_ito():
    # The palette as the two published it in 2008, black and the three lightest left out.
    assert {to_hex(c) for c in _canvas.COLOURS} == {"#0072b2", "#d55e00", "#009e73", "#cc79a7"}


@pytest.mark.parametrize("chart", CHARTS)
def test_series_differ_without_colour(chart):
    ax = CHARTS[chart]()
    styles = [
        (one.get_linestyle(), one.get_linewidth()) for one in ax.lines if one.get_label()[0] != "_"
    ]
    assert len(set(styles)) == len(styles)


LEAKS = """
import io, json, sys
import matplotlib
before = matplotlib.rcParams.copy()
import perfmodel as pm
gpu, model = pm.gpu("h100-sxm"), pm.model("llama-3.1-8b")
step = pm.decode(model, gpu, batch=8, context=512)
pm.plots.roofline(gpu, operations=step).figure.savefig(io.BytesIO(), format="svg")
pm.plots.step_time(model, gpu, context=512, theme="dark")
pm.plots.kv_growth(model, gpu)
pm.plots.memory(pm.memory(model, gpu, batch=8, context=512))
table = pm.sweep(model, gpu, batch=[1, 8], context=[16, 512])
pm.plots.heatmap(table, x="batch", y="context", value="time")
print(json.dumps([
    "matplotlib.pyplot" in sys.modules,
    {name: dict.get(matplotlib.rcParams, name) == dict.get(before, name) for name in before},
]))
"""


def test_nothing_leaks():
    done = subprocess.run([sys.executable, "-c", LEAKS], capture_output=True, text=True, check=True)
    pyplot, same = json.loads(done.stdout)
    assert not pyplot
    assert "backend" in same
    assert all(same.values())


def test_the_face_loads_no_matplotlib():
    code = "import sys, perfmodel as pm; pm.plots; print('matplotlib' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "False"


@pytest.mark.parametrize("chart", CHARTS)
def test_without_matplotlib_the_extra_is_named(chart, monkeypatch):
    monkeypatch.setitem(sys.modules, "matplotlib.figure", None)
    with pytest.raises(E.MissingExtraError, match=r'pip install "perfmodel\[plots\]"'):
        CHARTS[chart]()


@pytest.mark.parametrize("chart", CHARTS)
@pytest.mark.parametrize(
    ("wrong", "expected"),
    [({"theme": "blue"}, "theme: expected one of light, dark, got 'blue'"), ({"ax": 3}, "ax: .*3")],
)
def test_a_wrong_theme_or_wrong_axes_are_named(chart, wrong, expected):
    with pytest.raises(E.InvalidValueError, match=expected):
        CHARTS[chart](**wrong)


@pytest.mark.parametrize("chart", CHARTS)
def test_axes_that_no_chart_fits_are_refused(chart):
    gone = Figure().add_subplot()
    gone.remove()
    for ax in (gone, *(Figure().add_subplot(projection=kind) for kind in ("polar", "3d"))):
        with pytest.raises(E.InvalidValueError, match="ax: expected plane axes of a figure"):
            CHARTS[chart](ax=ax)


def test_a_name_is_no_formula():
    evil = H100.model_copy(update={"name": r"$\frac{$ <b> 100$"})
    ax = P.roofline(evil)
    ax.figure.savefig(io.BytesIO(), format="svg")
    held = P.memory({r"$x^{$ \$ $": HELD, "y" * 5000: HELD})
    held.figure.savefig(io.BytesIO(), format="svg")
    assert len(held.get_yticklabels()[1].get_text()) <= 70


# -- the roofline ----------------------------------------------------------------------------------


def test_the_roofs_meet_at_the_ridge():
    ax = P.roofline(H100, precisions=["bf16"])
    slope, flat, ridge = ax.lines
    # 989.4e12 FLOP/s over 3.35e12 B/s.
    turn = pytest.approx((295.343, 989.4e12), rel=1e-5)
    assert tuple(slope.get_xydata()[-1]) == turn
    assert tuple(flat.get_xydata()[0]) == turn
    assert tuple(ridge.get_xydata()[0]) == turn
    # One FLOP a byte: as many FLOPs as the memory moves bytes.
    (x, y), _ = slope.get_xydata()
    assert y / x == pytest.approx(3.35e12)
    assert flat.get_xydata()[1][1] == 989.4e12
    assert ax.get_xscale() == ax.get_yscale() == "log"
    assert texts(ax) == ["memory: 3.35 TB/s", "bf16: 989 TFLOP/s", "295.3 FLOP/B"]


def test_every_format_has_its_roof():
    ax = P.roofline(H100)
    assert [one.get_ydata()[-1] for one in ax.lines[1::2]] == [1978.9e12, 989.4e12]
    assert {"fp8: 1.98 PFLOP/s", "bf16: 989 TFLOP/s", "590.7 FLOP/B"} <= set(texts(ax))


def test_formats_of_one_peak_share_a_roof():
    chip = pm.GpuSpec(
        name="x",
        memory_bandwidth=1e12,
        peak_flops={"fp16": 1e14, "bf16": 1e14, "fp8": 2e14, "int8": 2e14, "mxfp8": 2e14},
    )
    assert {"fp16, bf16: 100 TFLOP/s", "fp8, mxfp8 and 1 more: 200 TFLOP/s"} <= set(
        texts(P.roofline(chip))
    )


@pytest.mark.parametrize("key", pm.gpus()[::10])
def test_every_peak_of_a_chip_is_labelled(key):
    gpu = pm.gpu(key)
    found = texts(P.roofline(gpu))
    peaks = {gpu.peak(name) for name in gpu.peak_flops.formats}
    assert sum("FLOP/s" in text for text in found) == len(peaks), found
    assert sum("FLOP/B" in text for text in found) == len(peaks), found


def test_points_of_an_ideal_step_lie_on_the_roofs():
    step = pm.decode(LLAMA, H100, batch=64, context=4096)
    ax = P.roofline(H100, operations=step)
    (drawn,) = ax.collections
    for intensity, rate in drawn.get_offsets():
        assert rate == pytest.approx(min(989.4e12, 3.35e12 * intensity), rel=1e-9)
    # Decode attention: four query heads share a KV head, so 4 FLOPs a byte, less the little traffic
    # of queries and outputs.
    attention = drawn.get_offsets()[0]
    assert 3.98 < attention[0] < 4
    assert "attention, 10.3 ms" in texts(ax)
    # Only the format that the step computes in.
    assert len(ax.lines) == 3


def test_points_fall_below_the_roofs_by_the_efficiency():
    half = pm.Efficiency(compute=0.5, memory=0.5)
    step = pm.decode(LLAMA, H100, batch=64, context=4096, efficiency=half)
    (drawn,) = P.roofline(H100, operations=step).collections
    for intensity, rate in drawn.get_offsets():
        assert rate == pytest.approx(min(989.4e12, 3.35e12 * intensity) / 2, rel=1e-9)


def test_operations_of_a_kind_are_one_point():
    step = pm.decode(LLAMA, H100, batch=64, context=4096)
    ax = P.roofline(H100, operations=step)
    (drawn,) = ax.collections
    assert len(drawn.get_offsets()) == 2
    assert any(text.startswith("gate_up, down and 3 more, ") for text in texts(ax))
    # A prompt's head works on one token alone: another place, another point.
    prompt = pm.prefill(LLAMA, H100, prompt=2048)
    (drawn,) = P.roofline(H100, operations=prompt).collections
    assert len(drawn.get_offsets()) == 3
    assert drawn.get_offsets()[:, 0].min() == pytest.approx(1, rel=0.01)


def test_the_area_of_a_point_grows_with_its_time():
    jobs = [P.Point("a", 1, 1e12, 1.0), P.Point("b", 10, 1e13, 2.0), P.Point("c", 99, 1e14, 5.0)]
    (drawn,) = P.roofline(H100, operations=jobs).collections
    a, b, c = drawn.get_sizes()
    assert (c - a) == pytest.approx(4 * (b - a))


def test_operations_by_themselves_lie_on_the_roofs():
    step = pm.decode(LLAMA, H100, batch=64, context=4096, efficiency=pm.Efficiency(memory=0.5))
    (drawn,) = P.roofline(H100, operations=step.operations).collections
    for intensity, rate in drawn.get_offsets():
        assert rate == pytest.approx(min(989.4e12, 3.35e12 * intensity), rel=1e-9)


def test_measured_points_are_anything_with_four_fields():
    job = SimpleNamespace(name="table x 512", intensity=232.22, rate=156e9, time=0.65)
    cpu = pm.GpuSpec(name="CPU", memory_bandwidth=15e9, peak_flops={"fp32": 164.3e9})
    ax = P.roofline(cpu, operations=[job, P.Point("lists", 0.083, 0.8e9, 0.06)])
    (drawn,) = ax.collections
    assert drawn.get_offsets().tolist() == [[232.22, 156e9], [0.083, 0.8e9]]
    assert ax.get_xlim()[0] < 0.083
    assert {"table x 512, 650 ms", "lists, 60.0 ms", "10.95 FLOP/B"} <= set(texts(ax))


def test_several_steps_have_markers_of_their_own():
    steps = [pm.decode(LLAMA, H100, batch=64, context=4096), pm.prefill(LLAMA, H100, prompt=2048)]
    ax = P.roofline(H100, operations=steps)
    decode, prefill = ax.collections
    assert decode.get_paths()[0].vertices.shape != prefill.get_paths()[0].vertices.shape
    assert legend(ax) == ["decode, bf16, 64 x 4,096 tokens", "prefill, bf16, 1 x 2,048 tokens"]


POINT = P.Point("x", 1.0, 1e9, 1.0)


@pytest.mark.parametrize(
    ("wrong", "expected"),
    [
        ({"operations": 3}, "operations: expected a list, got 3"),
        ({"operations": "decode"}, "operations: expected a list"),
        ({"operations": []}, "operations: expected from 1 to 10000 items, got none"),
        ({"operations": [POINT] * 10_001}, "from 1 to 10000 items, got more"),
        ({"operations": [object()]}, "operations: expected estimates, operations, or points"),
        ({"operations": [POINT._replace(intensity=0.0)]}, "intensity: expected a positive"),
        ({"operations": [POINT._replace(rate=math.inf)]}, "rate: expected a positive"),
        ({"operations": [POINT._replace(time=-1.0)]}, "time: expected a positive"),
        ({"operations": [POINT._replace(name=None)]}, "name: expected a text, got None"),
        ({"precisions": []}, "precisions: expected from 1"),
        ({"precisions": "bf16"}, "precisions: expected a list"),
        ({"precisions": ["bf61"]}, "no preset 'bf61'; did you mean 'bf16'"),
        ({"precisions": ["int8"]}, "H100 has no int8 peak; it has: bf16, fp8"),
        ({"precisions": [[]]}, "precision"),
    ],
)
def test_what_cannot_be_drawn_is_named(wrong, expected):
    with pytest.raises(E.PerfModelError, match=expected):
        P.roofline(H100, **wrong)


def test_an_estimate_of_another_chip_is_refused():
    other = H100.model_copy(update={"memory_bandwidth": 2e12, "name": "other"})
    step = pm.decode(LLAMA, other, batch=1, context=16)
    with pytest.raises(E.InvalidValueError, match="expected estimates of H100, got one of other"):
        P.roofline(H100, operations=step)


def test_ten_thousand_points_are_drawn_and_the_longest_labelled():
    jobs = [P.Point(f"job {n}", 1 + n / 10, 1e12, 1 + n / 1e4) for n in range(10_000)]
    ax = P.roofline(H100, operations=jobs)
    assert len(ax.collections[0].get_offsets()) == 10_000
    assert len(texts(ax)) < 40


# -- the step and its batch ------------------------------------------------------------------------


def test_a_step_against_its_batch():
    ax = P.step_time(COARSE, H100, context=1000, batches=[1, 10, 100])
    # 16e9 B of weights, and 1000 * 1e5 B of KV a sequence, at 3.35e12 B/s.
    assert line(ax, "weights").get_ydata() == pytest.approx([16e9 / 3.35e12] * 3)
    assert line(ax, "KV").get_ydata() == pytest.approx(
        [1e8 / 3.35e12, 1e9 / 3.35e12, 1e10 / 3.35e12]
    )
    # Two FLOPs a weight and sequence, at 989.4e12 FLOP/s; this shape has no attention to compute.
    assert line(ax, "arithmetic").get_ydata() == pytest.approx(
        [16e9 / 989.4e12, 16e10 / 989.4e12, 16e11 / 989.4e12]
    )
    assert line(ax, "step").get_xdata().tolist() == [1, 10, 100]
    assert (line(ax, "step").get_ydata() >= line(ax, "weights").get_ydata()).all()


def test_the_ridge_and_the_end_of_memory_are_marked():
    # A sequence of 100 tokens adds 1e7 B of KV, 2.985 us, and 16e9 FLOPs, 16.17 us: the weights'
    # 4.776 ms are made up for at 362 sequences. 80e9 - 16e9 B hold 6400 of them.
    ax = P.step_time(COARSE, H100, context=100)
    assert legend(ax)[4:] == ["ridge: batch 362", "memory is full: batch 6,400"]
    (hatched,) = ax.patches
    assert left(hatched) == pytest.approx(6400)
    assert ax.get_xlim()[1] > 6400


def test_past_the_critical_context_there_is_no_ridge():
    ax = P.step_time(COARSE, H100, context=10_000)
    # 64e9 B hold 64 sequences of 1e9 B.
    assert legend(ax)[4:] == ["memory is full: batch 64"]


def test_a_chip_of_unknown_capacity_has_no_end_of_memory():
    chip = H100.model_copy(update={"memory_capacity": None})
    assert legend(P.step_time(COARSE, chip, context=100))[4:] == ["ridge: batch 362"]


def test_a_model_that_does_not_fit_is_drawn_all_the_same():
    big = pm.ModelShape.from_totals(params=800e9, kv_bytes_per_token=1e5)
    ax = P.step_time(big, H100, context=1000)
    assert line(ax, "step").get_ydata()[0] > 0.4
    assert legend(ax)[-1] == "memory is full: batch 0"
    (hatched,) = ax.patches
    assert left(hatched) == pytest.approx(ax.get_xlim()[0])


def test_a_shape_without_a_cache_has_a_step_too():
    ax = P.step_time(pm.ModelShape.from_totals(params=8e9), H100, context=None)
    # 989.4e12 / 3.35e12 tokens, two bytes and two FLOPs a weight.
    assert legend(ax)[4:] == ["ridge: batch 295"]


def test_one_batch_is_a_point():
    ax = P.step_time(COARSE, H100, context=100, batches=[7])
    assert line(ax, "step").get_marker() == "."
    assert ax.get_xlim()[0] < 7 < ax.get_xlim()[1]


@pytest.mark.parametrize(
    ("wrong", "expected"),
    [
        ({"context": 0}, "context: expected a whole number from 1"),
        ({"context": 100, "batches": []}, "batch: expected at least one number"),
        ({"context": 100, "batches": [0]}, "batch: expected whole numbers from 1"),
        ({"context": 100, "batches": "12"}, "batch: expected a sequence"),
        ({"context": 100, "precision": "bf61"}, "no preset 'bf61'"),
        ({"context": 10**16}, "context: expected a whole number"),
    ],
)
def test_a_step_that_cannot_be_is_named(wrong, expected):
    with pytest.raises(E.PerfModelError, match=expected):
        P.step_time(COARSE, H100, **wrong)


# -- KV against weights ----------------------------------------------------------------------------


def test_kv_overtakes_the_weights():
    ax = P.kv_growth(COARSE, batch=64, contexts=[4000, 1000])
    # 64 * 1e5 B a token: 16e9 B of weights are passed after 2500 tokens.
    assert line(ax, "KV").get_xydata().tolist() == [[1000, 6.4e9], [4000, 25.6e9]]
    assert set(line(ax, "weights").get_ydata()) == {16e9}
    assert texts(ax) == ["more KV than weights from 2,501 tokens on"]
    (mark,) = (one for one in ax.lines if one.get_marker() == "o")
    assert mark.get_xydata().tolist() == [[2501, 16e9]]


def test_the_context_at_which_memory_is_full():
    # 64e9 B beside the weights, 6.4e6 B a token of all sequences.
    ax = P.kv_growth(COARSE, H100, batch=64)
    assert "memory is full: context 10,000" in legend(ax)
    assert left(ax.patches[0]) == pytest.approx(10_000)


def test_a_crossing_outside_the_contexts_is_not_drawn():
    ax = P.kv_growth(COARSE, contexts=[10, 20])
    assert texts(ax) == []
    ax = P.kv_growth(COARSE, contexts=[100])
    assert ax.get_xlim()[0] < 100 < ax.get_xlim()[1]


def test_a_cache_that_does_not_grow_is_drawn():
    assert P.kv_growth(pm.model("mamba2-2.7b") if "mamba2-2.7b" in pm.models() else COARSE)


@pytest.mark.parametrize(
    ("wrong", "expected"),
    [
        ({"contexts": []}, "contexts: expected from 1"),
        ({"contexts": [0]}, "contexts: expected a whole number"),
        ({"contexts": ["a", 1]}, "contexts: expected a whole number"),
        ({"batch": 0}, "batch: expected a whole number"),
        ({"gpu": "h100"}, "gpu: expected GpuSpec"),
    ],
)
def test_growth_that_cannot_be_is_named(wrong, expected):
    with pytest.raises(E.PerfModelError, match=expected):
        P.kv_growth(COARSE, **wrong)


def test_growth_needs_a_cache():
    with pytest.raises(E.NoCacheError):
        P.kv_growth(pm.ModelShape.from_totals(params=8e9))


# -- memory ----------------------------------------------------------------------------------------


def bars(ax) -> dict[str, list[tuple[float, float]]]:
    """Start and width of every bar of each part."""
    return {
        part.get_label(): [(one.get_x(), one.get_width()) for one in part]
        for part in ax.containers
        if part.get_label()[0] != "_"
    }


def test_memory_is_stacked():
    # 16 sequences of 1000 tokens, 1e5 B each: 1.6e9 B on top of 16e9 B, of 80e9 B.
    ax = P.memory(pm.memory(COARSE, H100, batch=16, context=1000))
    assert bars(ax) == {"weights": [(0, 16e9)], "KV": [(16e9, 1.6e9)]}
    assert texts(ax) == ["62.4 GB free"]
    assert ax.lines[0].get_xdata().tolist() == [80e9, 80e9]
    free = ax.containers[-1][0]
    assert (free.get_x(), free.get_width()) == (17.6e9, pytest.approx(62.4e9))


def test_what_hangs_over_the_edge_is_framed():
    # 1000 sequences: 100e9 B of KV, 36e9 B more than there is.
    ax = P.memory(pm.memory(COARSE, H100, batch=1000, context=1000))
    assert texts(ax) == ["36.0 GB too much"]
    frame = ax.containers[-1][0]
    assert sorted((frame.get_x(), frame.get_x() + frame.get_width())) == [80e9, 116e9]
    assert frame.get_linewidth() > 2


def test_configurations_stand_below_each_other():
    held = {f"batch {n}": pm.memory(COARSE, H100, batch=n, context=1000) for n in (1, 10)}
    ax = P.memory(held)
    assert [text.get_text() for text in ax.get_yticklabels()] == ["batch 1", "batch 10"]
    top, bottom = ax.get_ylim()[1], ax.get_ylim()[0]
    assert top < 0 < 1 < bottom, "the first on top"
    ax = P.memory(list(held.values()))
    assert [text.get_text() for text in ax.get_yticklabels()] == ["bf16, logical"] * 2


def test_whole_blocks_are_drawn_where_the_cache_is_in_blocks():
    """1,001 tokens fill 63 blocks of 16: 1,008 tokens of 131,072 B each, not 1,001."""
    held = pm.memory(LLAMA, H100, batch=1, context=1001, policy="vllm")
    assert held.kv == 1001 * 131_072
    kv = next(one for one in P.memory(held).containers if one.get_label() == "KV")
    assert [bar.get_width() for bar in kv] == [1008 * 131_072]


def test_an_engine_keeps_activations_and_a_reserve():
    held = pm.memory(LLAMA, pm.gpu("h100-sxm"), batch=8, context=1024, policy="llama.cpp")
    found = bars(P.memory(held))
    ends = [start + width for ((start, width),) in found.values()]
    assert max(ends) == pytest.approx(held.needed)
    assert ("activations" in found) == (held.activations > 0)
    assert ("reserve" in found) == (held.reserve > 0)


def test_memory_of_an_unknown_capacity_has_no_edge():
    chip = H100.model_copy(update={"memory_capacity": None})
    ax = P.memory(pm.memory(COARSE, chip, batch=16, context=1000))
    assert texts(ax) == ["17.6 GB"]
    assert not ax.lines


@pytest.mark.parametrize(
    ("wrong", "expected"),
    [
        ([], "held: expected from 1"),
        ({}, "held: expected from 1 to 40 bars, got 0"),
        ([HELD] * 41, "held: expected from 1 to 40 bars, got 41"),
        ([3], "held: expected DeviceMemory"),
        ({"a": None}, "held: expected DeviceMemory"),
        (None, "held: expected a list"),
    ],
)
def test_what_is_no_memory_is_named(wrong, expected):
    with pytest.raises(E.InvalidValueError, match=expected):
        P.memory(wrong)


# -- the front -------------------------------------------------------------------------------------


@pytest.mark.parametrize("y", ["output_tokens_per_second_per_device", "cost_per_million_output"])
def test_the_front_is_what_no_plan_beats(y):
    ax = P.frontier(PLANS, x="tpot", y=y)
    better = max if y.startswith("output") else min
    drawn = {(plan.tpot, getattr(plan, y)) for plan in PLANS.feasible if plan.price}
    front = {
        (x, value)
        for x, value in drawn
        if not any(a <= x and better(b, value) == b and (a, b) != (x, value) for a, b in drawn)
    }
    assert {tuple(point) for point in ax.lines[0].get_xydata()} == front
    points = [tuple(one) for part in ax.collections for one in part.get_offsets()]
    assert len(points) >= len(front)
    assert front <= set(points)


def test_each_chip_has_its_marker():
    ax = P.frontier(PLANS)
    assert [part.get_label() for part in ax.collections] == list(
        dict.fromkeys(plan.gpu.key for plan in PLANS.feasible)
    )


def test_a_chip_whose_name_hides_from_legends_is_in_this_one():
    """Matplotlib leaves out what begins with an underscore."""
    plans = pm.largest_load(
        COARSE,
        pm.Workload(prompt=99, output=9, concurrency=1),
        slo=pm.Slo(tpot=1.0),
        devices=1,
        gpus=H100.model_copy(update={"name": "_mine"}),
    )
    assert legend(P.frontier(plans)) == [" _mine"]


def test_no_plan_is_an_error():
    never = pm.plan(
        LLAMA,
        pm.Workload(prompt=1000, output=200, concurrency=8),
        slo=pm.Slo(tpot=1e-6),
        gpus="h100-sxm",
    )
    with pytest.raises(E.InvalidValueError, match="expected one that does what is asked, got none"):
        P.frontier(never)
    dear = pm.largest_load(
        COARSE,
        pm.Workload(prompt=99, output=9, concurrency=1),
        slo=pm.Slo(tpot=1.0),
        devices=1,
        gpus=H100,
    )
    assert P.frontier(dear)
    with pytest.raises(E.InvalidValueError, match="expected one with a price that does"):
        P.frontier(dear, y="cost_per_million")


@pytest.mark.parametrize(
    ("wrong", "expected"),
    [
        ({"plans": [1]}, "plans: expected Plans"),
        ({"plans": PLANS, "x": "speed"}, "x: expected one of tpot, ttft, end_to_end"),
        ({"plans": PLANS, "y": []}, "y: expected one of output_tokens"),
    ],
)
def test_what_is_no_front_is_named(wrong, expected):
    with pytest.raises(E.InvalidValueError, match=expected):
        P.frontier(**wrong)


# -- the map ---------------------------------------------------------------------------------------


def test_a_map_has_a_cell_for_each_configuration():
    ax = P.heatmap(SWEEP, x="batch", y="context", value="time")
    numbers = ax.collections[0].get_array()
    assert numbers.shape == (2, 4)
    for row, context in enumerate([16, 4096]):
        for column, batch in enumerate([1, 64, 512, 4096]):
            step = pm.decode(LLAMA, pm.gpu("h100-sxm"), batch=batch, context=context)
            assert numbers[row, column] == pytest.approx(step.time)
    assert [text.get_text() for text in ax.get_xticklabels()] == ["1", "64", "512", "4,096"]
    assert (ax.get_xlabel(), ax.get_ylabel()) == ("batch", "context")


def test_a_map_names_what_binds_and_what_does_not_fit():
    ax = P.heatmap(SWEEP, x="batch", y="context", value="time")
    # Past the ridge of some 300 sequences short contexts are compute-bound; 512 times 4096 tokens
    # of 131072 B each are 275 GB.
    assert sorted(texts(ax)) == ["compute-bound", "does not fit", "memory-bound"]
    full = ax.collections[1].get_array()
    assert (~full.mask).tolist() == [[False] * 4, [False, False, True, True]]


def test_a_map_of_precisions():
    table = pm.sweep(LLAMA, pm.gpu("h100-sxm"), batch=[1, 8], context=64, precision=["bf16", "fp8"])
    ax = P.heatmap(table, x="batch", y="precision", value="tokens_per_second")
    assert [text.get_text() for text in ax.get_yticklabels()] == ["bf16", "fp8"]


def test_a_map_of_a_chip_without_a_capacity():
    chip = H100.model_copy(update={"memory_capacity": None})
    table = pm.sweep(COARSE, chip, batch=[1, 8], context=[64, 128])
    assert texts(P.heatmap(table, x="batch", y="context", value="intensity")) == ["memory-bound"]


@pytest.mark.parametrize(
    ("wrong", "kind", "expected"),
    [
        ({"x": "batches"}, E.UnknownKeyError, "no column 'batches'; did you mean 'batch'"),
        (
            {"value": "bound"},
            E.InvalidValueError,
            "value: expected a column of numbers, got 'bound'",
        ),
        ({"x": "context"}, E.InvalidValueError, "x, y: expected two columns, got 'context' twice"),
        ({"x": None}, E.InvalidValueError, "x: expected str"),
        ({"value": "batch"}, E.InvalidValueError, "x, y: expected what was swept, got 'batch'"),
        ({"y": "fits"}, E.InvalidValueError, "x, y: expected what was swept, got 'fits'"),
        ({"y": "bound"}, E.InvalidValueError, "x, y: expected what was swept, got 'bound'"),
        ({"value": ["time"]}, E.InvalidValueError, "value: expected str .the name of a column."),
        ({"table": SWEEP.to_frame()}, E.InvalidValueError, "table: expected Sweep"),
    ],
)
def test_a_map_that_cannot_be_is_named(wrong, kind, expected):
    asked = {"table": SWEEP, "x": "batch", "y": "context", "value": "time"} | wrong
    with pytest.raises(kind, match=expected):
        P.heatmap(**asked)


def test_a_map_needs_one_configuration_a_cell():
    table = pm.sweep(LLAMA, H100, batch=[1, 8], context=[16, 64], precision=["bf16", "fp8"])
    with pytest.raises(E.InvalidValueError, match="one configuration for each batch and context"):
        P.heatmap(table, x="batch", y="context", value="time")
    huge = pm.sweep(LLAMA, H100, batch=range(1, 1001), context=range(1, 1001))
    with pytest.raises(E.InvalidValueError, match="table: expected at most 40,000 cells"):
        P.heatmap(huge, x="batch", y="context", value="time")


def test_settings_of_matplotlib_stay():
    before = dict(mpl.rcParams)
    for chart in CHARTS.values():
        chart(theme="dark")
    assert dict(mpl.rcParams) == before
