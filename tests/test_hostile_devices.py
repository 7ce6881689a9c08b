"""Hostile divisions, clusters and policies end in one error of one line, or in the right answer.

As ``test_hostile_input.py``, for many devices and for what fits: each section is a kind of fault
that was once found.
"""

from __future__ import annotations

import itertools
import json
import math

import numpy as np
import pytest

import perfmodel as pm
from perfmodel.base.formats import FORMATS

E = pm.errors
P = pm.Parallelism
HUGE = 10**400
LINK = pm.Link(name="links", bandwidth=4e11, domain=8)
GPU = pm.GpuSpec(
    name="mine",
    memory_bandwidth=1e12,
    memory_capacity=80e9,
    peak_flops={"bf16": 1e14},
    link=LINK,
)
MODEL = pm.ModelShape.dense(layers=4, hidden=96, heads=6, ffn=192, vocab=120)
LEARNED = MODEL.with_(positions=1024)
STATES = pm.model("jamba-1.5-mini")
POLICY = pm.MemoryPolicy.preset("vllm")
NETWORK = pm.Link(name="network", bandwidth=5e10)
CLUSTER = pm.Cluster(gpu=GPU, per_node=2, nodes=2, link=NETWORK)
SUM = pm.Collective(
    name="sum", kind="all-reduce", nbytes=8.0, least_nbytes=8.0, group=8, calls=1, tokens=1
)


def refused(ask, *words: str) -> None:
    with pytest.raises(E.InvalidValueError) as caught:
        ask()
    message = str(caught.value)
    assert message.isprintable()
    assert len(message) < 400
    for word in words:
        assert word in message, message


def decoded(gpu=GPU, **division) -> pm.Estimate:
    return pm.decode(MODEL, gpu, batch=8, context=64, parallelism=P(**division))


# -- divisions that contradict themselves, the model or the machine ---------------------------


@pytest.mark.parametrize(
    ("division", "words"),
    [
        ({"stages": (3,)}, ["Parallelism.stages", "4 blocks", "got 3"]),
        ({"stages": (3,), "data": 2}, ["Parallelism.stages", "4 blocks", "got 3"]),
        ({"stages": (1, 2), "pipeline": 2}, ["Parallelism.stages", "4 blocks", "got 3"]),
        ({"stages": (10**15,) * 2, "pipeline": 2}, ["Parallelism.stages", "4 blocks"]),
        ({"pipeline": 5}, ["Parallelism.pipeline", "at most 4 stages", "got 5"]),
        ({"pipeline": 10**6}, ["Parallelism.pipeline", "1000 stages", "got 1000000"]),
        ({"tensor": 4}, ["Parallelism.tensor", "heads=6", "as 3", "got 4"]),
        ({"tensor": 10**15}, ["Parallelism.tensor", "heads=6", "as 6"]),
        ({"expert": 10**9}, ["Parallelism.expert", "tensor=1", "data=1"]),
        ({"tensor": 2, "all_reduce": "in-switch"}, ["Parallelism.all_reduce", "ring or one-shot"]),
    ],
)
def test_divisions_that_contradict(division, words):
    refused(lambda: decoded(**division), *words)


@pytest.mark.parametrize("stages", [itertools.count(1), [1] * 10**6, "1", 1, [[1]], {1: 1}, [True]])
def test_stages_are_a_list_with_an_end(stages):
    refused(lambda: P(pipeline=2, stages=stages), "Parallelism.stages")


def test_a_thousand_equal_stages_are_counted_once():
    deep = pm.ModelShape.dense(layers=1000, hidden=64, heads=4, ffn=64, vocab=100)
    shapes = pm.shard(deep, P(pipeline=1000))
    assert len(shapes) == 1000
    assert len(set(map(id, shapes))) == 3  # the first, the last, and all between them


def test_no_switch_adds_up_where_every_device_stands_alone():
    adding = GPU.model_copy(update={"link": LINK.model_copy(update={"reduces": True})})
    assert decoded(adding, tensor=2, all_reduce="in-switch").network_time > 0
    alone = pm.Cluster(gpu=adding, per_node=1, nodes=2, link=NETWORK)
    refused(
        lambda: decoded(alone, tensor=2, all_reduce="in-switch"),
        *("Parallelism.all_reduce", "ring or one-shot", "got 'in-switch'"),
    )


# -- clusters ---------------------------------------------------------------------------------


@pytest.mark.parametrize("topology", ["switch", "mesh", "ring"])
@pytest.mark.parametrize("domain", [1, 2])
def test_a_network_joins_all_nodes(domain, topology):
    # A mesh of one node divided by zero; one of two gave sixteen nodes fifteen times its links.
    network = pm.Link(name="network", bandwidth=5e10, domain=domain, topology=topology)
    refused(
        lambda: pm.Cluster(gpu=GPU, per_node=8, nodes=16, link=network),
        *("Cluster.nodes", f"at most {domain} nodes", "network", "got 16"),
    )


def test_a_node_holds_what_its_links_reach():
    refused(
        lambda: pm.Cluster(gpu=GPU, per_node=10**15),
        *("Cluster.per_node", "at most 8 chips", "links of mine", "nodes="),
    )


@pytest.mark.parametrize(
    ("update", "words"),
    [
        ({"parallelism": {"tensor": 2, "data": 100}}, ["parallelism", "4 devices", "got 200"]),
        ({"cluster": CLUSTER.model_copy(update={"nodes": 1})}, ["2 devices", "got 4"]),
        (
            {"gpu": GPU.model_copy(update={"memory_bandwidth": 2e12})},
            ["Estimate.cluster", "Estimate.gpu", "change both"],
        ),
        (
            {"cluster": CLUSTER.model_copy(update={"gpu": pm.gpu("h100-sxm")})},
            ["Estimate.cluster", "mine", "H100", "change both"],
        ),
    ],
)
def test_a_changed_estimate_has_its_devices(update, words):
    found = decoded(CLUSTER, tensor=2, data=2)
    refused(lambda: found.model_copy(update=update), *words)
    written = json.loads(found.model_dump_json())
    for field, value in update.items():
        written[field] = value if isinstance(value, dict) else json.loads(value.model_dump_json())
    refused(lambda: pm.Estimate.model_validate_json(json.dumps(written)), *words)


# -- what fits --------------------------------------------------------------------------------


def test_the_group_asked_about_is_tried_itself():
    # Neither six nor 128 is one of 1, 2, 4, ... 64, and "needs 7 MB, has 80 GB" was the refusal.
    assert pm.min_devices(MODEL, GPU, batch=1, context=8, parallelism=P(tensor=6)) == 6
    wide = pm.ModelShape.dense(layers=1, hidden=1024, heads=128, ffn=1024, vocab=1024)
    assert pm.min_devices(wide, GPU, batch=1, context=8, parallelism=P(tensor=128)) == 128


@pytest.mark.parametrize(
    "ask",
    [
        lambda: pm.memory(MODEL, GPU, batch=1, context=1025, draft=LEARNED),
        lambda: pm.max_batch(MODEL, GPU, context=1025, draft=LEARNED),
        lambda: pm.max_tokens(MODEL, GPU, context=1025, draft=LEARNED),
        lambda: pm.min_capacity(MODEL, batch=1, context=1025, draft=LEARNED),
        lambda: pm.min_devices(MODEL, GPU, batch=1, context=1025, draft=LEARNED),
        lambda: pm.kv_pool(MODEL, GPU, max_len=1025, draft=LEARNED),
        lambda: pm.kv_layout(MODEL, batch=1, context=1025, policy="vllm", draft=LEARNED),
    ],
)
def test_learned_positions_of_a_draft_end(ask):
    refused(ask, "context", "1024 learned positions", "1025")


def test_the_longest_context_is_one_that_a_draft_reaches():
    assert pm.max_context(MODEL, GPU, batch=1, draft=LEARNED) == 1024
    assert pm.max_context(MODEL.with_(positions=512), GPU, batch=1, draft=LEARNED) == 512


@pytest.mark.parametrize(
    "ask",
    [
        lambda: pm.memory(MODEL, GPU, batch=1, context=8, mtp=True),
        lambda: pm.min_capacity(MODEL, batch=1, context=8, mtp=True),
        lambda: pm.kv_pool(MODEL, GPU, mtp=True),
    ],
)
def test_extra_blocks_are_not_made_up(ask):
    refused(ask, "mtp", "no extra prediction blocks", "draft=")


@pytest.mark.parametrize("field", ["keys", "values", "indexer", "conv", "activation"])
def test_what_has_no_rows_has_no_scale_a_row(field):
    refused(
        lambda: pm.MemoryPolicy.preset("vllm", **{field: FORMATS["int8-row"]}),
        *(f"MemoryPolicy.{field}", "no rows", "got int8-row"),
    )


@pytest.mark.parametrize("field", ["kv", "state"])
def test_nor_where_a_precision_is_changed(field):
    half = pm.Precision.preset("bf16")
    refused(lambda: half.model_copy(update={field: FORMATS["int8-row"]}), "int8-row", "no rows")


def test_a_pool_has_more_than_its_spare_blocks():
    spare = pm.MemoryPolicy.preset("vllm", spare_blocks=5)
    refused(lambda: pm.kv_pool(MODEL, blocks=5, policy=spare), "blocks", "5", "got 5")
    assert pm.kv_pool(MODEL, blocks=6, policy=spare).blocks == 1


def test_pools_and_layouts_of_any_size_can_be_written():
    largest = 10**15
    pool = pm.kv_pool(MODEL, blocks=largest, max_len=largest)
    assert pm.KvPool.model_validate_json(pool.model_dump_json()) == pool
    for model, policy in ((MODEL, "llama.cpp-unified"), (STATES, "sglang")):
        held = pm.kv_layout(model, batch=largest, context=largest, policy=policy)
        assert pm.KvLayout.model_validate_json(held.model_dump_json()) == held


def test_tokens_of_states_need_the_length_of_a_request():
    # 2 pages of state a request under vllm: 100 tokens are two requests of 50.
    mamba = pm.model("mamba-1.4b")
    refused(lambda: pm.kv_pool(mamba, tokens=100), "tokens", "states", "max_len", "got 100")
    assert pm.kv_pool(mamba, tokens=100, max_len=50).blocks == 4


@pytest.mark.parametrize("policy", ["vllm", "logical"])
def test_no_policy_is_asked_for_that_was_given(policy):
    entries = pm.model("deepseek-v4-flash")
    refused(
        lambda: pm.kv_layout(entries, batch=1, context=8, policy=policy),
        *("several tokens", f"got {policy}", 'memory(..., policy="logical")'),
    )


def test_a_policy_can_have_another_name():
    assert pm.MemoryPolicy.preset("vllm", name="ours").name == "ours"


@pytest.mark.parametrize(
    "field", ["memory_capacity", "visible_capacity", "l2_cache", "last_level_cache"]
)
def test_capacities_in_gigabytes_are_noticed(field):
    refused(
        lambda: GPU.model_copy(update={field: 80}), f"GpuSpec.{field}", "80 GB is 80e9", "got 80"
    )


# -- methods of records -----------------------------------------------------------------------

NO_NUMBERS = [-1, math.nan, math.inf, "8", b"8", None, True, [], {}, 1j, object(), HUGE]
NO_NUMBERS += [np.array(["8"]), np.array([1j]), np.True_]
NO_COUNTS = [*NO_NUMBERS, 0, 1.5, np.array([1, 2])]


@pytest.mark.parametrize("bad", NO_COUNTS, ids=lambda bad: type(bad).__name__)
@pytest.mark.parametrize(
    ("name", "ask"),
    [
        ("devices", lambda bad: LINK.among(bad)),
        ("devices", lambda bad: GPU.link_to(bad)),
        ("near", lambda bad: SUM.legs(bad)),
        ("near", lambda bad: SUM.least_legs(bad)),
        ("step", lambda bad: P(data=2).replica(bad)),
        ("step", lambda bad: P(pipeline=2).micro_batch(bad)),
        ("latent", lambda bad: POLICY.tokens_of_block(1 if bad is True else bad)),
        ("precision", lambda bad: POLICY.cache_formats(bad)),
    ],
)
def test_methods_take_counts_and_records(name, ask, bad):
    refused(lambda: ask(bad), f"{name}: ")


@pytest.mark.parametrize("bad", NO_NUMBERS, ids=lambda bad: type(bad).__name__)
@pytest.mark.parametrize(
    ("name", "ask"),
    [
        ("sequences", lambda bad: P(pipeline=2).micro_batches_of(bad)),
        ("wire", lambda bad: pm.LinkEfficiency().time(wire=bad, others=1, bandwidth=1e9)),
        ("others", lambda bad: pm.LinkEfficiency().time(wire=1.0, others=bad, bandwidth=1e9)),
        ("bandwidth", lambda bad: pm.LinkEfficiency().time(wire=1.0, others=1, bandwidth=bad)),
        ("total", lambda bad: POLICY.pool_bytes(total=bad, weights=1.0)),
        ("weights", lambda bad: POLICY.pool_bytes(total=1e9, weights=bad)),
        ("activations", lambda bad: POLICY.pool_bytes(total=1e9, weights=1.0, activations=bad)),
        ("reserve", lambda bad: POLICY.pool_bytes(total=1e9, weights=0, reserve=bad or -1)),
    ],
)
def test_methods_take_numbers(name, ask, bad):
    refused(lambda: ask(bad), f"{name}: ")


def test_methods_take_numbers_of_any_kind():
    wires = np.array([1e6, 2e6])
    half = pm.LinkEfficiency(half=1e6)
    refused(lambda: half.time(wire=1e300, others=7, bandwidth=1e9), "wire", "1e+300")
    for wire, time in zip(wires, half.time(wire=wires, others=7, bandwidth=1e9), strict=True):
        assert half.time(wire=float(wire), others=7, bandwidth=1e9) == time
    assert P(pipeline=4).micro_batches_of(np.array([1, 8])).tolist() == [1, 4]
    assert LINK.among(np.int64(2)) == LINK.bandwidth


def test_a_group_is_no_larger_than_it_is():
    mesh = pm.Link(bandwidth=7e10, domain=8, topology="mesh")
    assert mesh.among(8) == 7e10
    refused(lambda: mesh.among(9), "devices", "at most 8", "got 9")
    refused(lambda: SUM.legs(16), "near", "8 devices", "got 16")
    refused(lambda: SUM.model_copy(update={"least_nbytes": 9.0}), "least_nbytes", "(8)", "got 9")


# -- files ------------------------------------------------------------------------------------

TOML = "memory_bandwidth = 1e12\n{}\n[peak_flops]\nbf16 = 1e14\n"


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("link = []", ["link", "expected a table", "got []"]),
        ("link = [{bandwidth = 1e11}]", ["link", "expected a table"]),
        ("link = {}", ["Link.bandwidth", "required"]),
        ("[link]\n", ["Link.bandwidth", "required"]),
        ("[host_link]\nlatency = 1e-6", ["Link.bandwidth", "required"]),
        ("[link]\nbandwidth = 450", ["Link.bandwidth", "SI base units", "got 450"]),
        ("[link]\nbandwidth = {value = 450, unit = 'GB/s'}", ["link.bandwidth.unit", "'B/s'"]),
        ("[link]\nbandwidth = 2020-01-01", ["Link.bandwidth", "datetime.date"]),
        ("[link]\nbandwidth = 1e11\nlatency = -1", ["Link.latency", "0 or a positive", "got -1"]),
        ("[link]\nbandwidth = 1e11\ndomain = 1.5", ["Link.domain", "whole number", "1.5"]),
        ("[link]\nbandwith = 1e11", ["link.bandwith", "did you mean 'bandwidth'"]),
        ("[link]\nbandwidth = 1e11\nlink = {}", ["link.link", "unknown field"]),
        ("[link]\nbandwidth.value.value = 1e11", ["Link.bandwidth", "positive"]),
        ("[link]\nbandwidth = 1\n[link]\nbandwidth = 2", ["expected TOML", "twice"]),
    ],
)
def test_tables_of_links(tmp_path, text, words):
    path = tmp_path / "mine.toml"
    path.write_text(TOML.format(text), encoding="utf-8")
    with pytest.raises(E.PerfModelError) as caught:
        pm.read_gpu(path)
    for word in words:
        assert word in str(caught.value), caught.value


def test_dates_of_toml_are_days(tmp_path):
    path = tmp_path / "mine.toml"
    path.write_text(TOML.format("released = 2026-11-30"), encoding="utf-8")
    assert pm.read_gpu(path).released == "2026-11-30"
    path.write_text("x = {low_per_hour = 1, high_per_hour = 2, date = 2026-11-30T01:02:03}\n")
    assert pm.read_prices(path)["x"].date == "2026-11-30"
