"""What a notebook and a prompt show: short, in SI units, and safe whoever wrote the names."""

from __future__ import annotations

from html.parser import HTMLParser

import pytest

import perfmodel as pm
from perfmodel.base._html import table, told

EVIL = "<script>alert('1 & 2')</script>"
CHIP = pm.GpuSpec(
    name=EVIL, memory_bandwidth=3.35e12, memory_capacity=80e9, peak_flops={"bf16": 989.4e12}
)
SHAPE = pm.ModelShape.dense(layers=2, hidden=64, heads=4, ffn=256, vocab=1000, name=EVIL)
WORK = pm.Workload(prompt=100, output=10, concurrency=2)
STEP = pm.decode(SHAPE, CHIP, batch=4, context=100)
SHOWN = [
    CHIP,
    SHAPE,
    STEP,
    STEP.operations[1],
    STEP.gpu.peak_flops,
    pm.Cluster(gpu=CHIP, per_node=8),
    pm.memory(SHAPE, CHIP, batch=4, context=100),
    pm.generate(SHAPE, CHIP, prompt=100, output=10),
    pm.kv_growth(SHAPE, contexts=[10, 100]),
    pm.compare(SHAPE, CHIP, batch=4, context=100, precisions=["bf16", "fp8"]),
    pm.sweep(SHAPE, CHIP, batch=[1, 2], context=[10, 20]),
    pm.serve(SHAPE, CHIP, WORK),
    pm.plan(SHAPE, WORK, slo=pm.Slo(tpot=1.0), gpus=CHIP),
    pm.plan(SHAPE, WORK, slo=pm.Slo(tpot=1.0), gpus=CHIP).rows[0],
    WORK,
    pm.Precision.preset("fp8"),
]


class Reader(HTMLParser):
    """The rows of a table, and every tag that occurs."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.open: list[str] = []
        self.tags: set[str] = set()
        self.rows: list[list[str]] = []
        self.caption = ""
        self.feed(text)
        self.close()

    def handle_starttag(self, tag, attrs):
        self.open.append(tag)
        self.tags.add(tag)
        for name, value in attrs:
            assert name == "style", "no handlers, no classes"
            assert "color" not in value, "the page's own ink"
        if tag == "tr":
            self.rows.append([])
        if tag in ("td", "th"):
            self.rows[-1].append("")

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        if self.open and self.open[-1] in ("td", "th"):
            self.rows[-1][-1] += data
        elif self.open and self.open[-1] == "caption":
            self.caption += data


def name(shown: object) -> str:
    return type(shown).__name__


@pytest.mark.parametrize("shown", SHOWN, ids=name)
def test_a_table_is_whole_and_runs_no_script(shown):
    found = Reader(shown._repr_html_())
    assert not found.open, "every tag is closed"
    assert found.tags <= {"table", "caption", "thead", "tbody", "tr", "th", "td"}
    assert found.caption
    assert found.rows or name(shown) == "Workload"


@pytest.mark.parametrize("shown", SHOWN, ids=name)
def test_a_repr_is_one_short_line(shown):
    assert len(repr(shown)) <= 260
    assert "\n" not in repr(shown)
    assert str(shown)


def test_a_name_stands_as_it_was_written():
    assert EVIL in Reader(CHIP._repr_html_()).caption
    assert EVIL not in CHIP._repr_html_()


def test_a_chip_shows_its_figures_in_si_units():
    rows = dict(Reader(pm.gpu("h100-sxm")._repr_html_()).rows)
    assert rows["memory bandwidth"] == "3.35 TB/s"
    assert rows["peak flops.bf16"] == "989 TFLOP/s"
    assert rows["vendor"] == "NVIDIA"
    assert repr(pm.gpu("h100-sxm")).startswith("<GpuSpec NVIDIA H100 SXM 80 GB: 3.35 TB/s, bf16")


def test_an_estimate_shows_its_operations():
    head, *rows = Reader(STEP._repr_html_()).rows
    assert head[0] == "operation"
    assert [row[0] for row in rows] == [one.name for one in STEP.operations]
    # One vocabulary of 1000 times a width of 64, for four sequences, two FLOPs each.
    assert rows[-1][:3] == ["head", "1", "512 kFLOP"]


def test_a_memory_says_what_its_bytes_are():
    rows = Reader(pm.memory(SHAPE, CHIP, batch=4, context=100)._repr_html_()).rows
    # Keys and values of two layers, 64 wide, two bytes each: 4 * 100 * 2 * 2 * 64 * 2.
    assert ["kv", "205 kB", "KV cache of all sequences"] in rows


def test_a_comparison_names_what_a_chip_lacks():
    _, has, lacks = Reader(SHOWN[9]._repr_html_()).rows
    assert has[5:] == ["memory", "True"]
    assert lacks[3].startswith(f"{EVIL} has no fp8 peak")


def test_a_long_table_is_cut_and_says_so():
    found = pm.sweep(SHAPE, CHIP, batch=range(1, 1001), context=range(1, 1001))
    rows = Reader(found._repr_html_()).rows
    assert len(rows) == 1 + 40 + 1
    assert rows[1][:2] == ["1", "1"]
    assert rows[-1] == ["and 999,960 more"]
    growth = pm.kv_growth(SHAPE, contexts=range(1, 71))
    assert Reader(growth._repr_html_()).rows[-1] == ["and 30 more"]


def test_a_long_record_has_a_short_repr():
    groups = tuple(pm.Group(count=1, new=1, past=n) for n in range(500))
    assert len(repr(pm.Step(groups=groups))) <= 200
    assert repr(pm.Step(groups=groups)).endswith("…")


def test_a_repr_leaves_out_what_is_as_ever():
    assert repr(pm.Group(count=3, new=1)) == "Group(count=3, new=1)"
    assert repr(pm.Group(count=3, new=1, past=9)) == "Group(count=3, new=1, past=9)"


@pytest.mark.parametrize(
    ("value", "unit", "expected"),
    [
        (None, "s", "-"),
        (0.00478, "s", "4.78 ms"),
        (1234567, "1", "1,234,567"),
        (0.123456, "1", "0.1235"),
        (1234.56789, "1/s", "1,235 1/s"),
        (2.5, "USD/h", "2.5 USD/h"),
        (True, "", "True"),
        ("memory", "", "memory"),
        ((1, 2), "", "(1, 2)"),
    ],
)
def test_cells_are_printed_as_people_read_them(value, unit, expected):
    assert told(value, unit) == expected


def test_a_table_without_rows_is_a_caption():
    assert Reader(table("none", (), [])).rows == []
