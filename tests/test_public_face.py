"""The public names and their signatures, pinned: a change of the face is a choice.

After a deliberate change, run this file as a script and put what it prints below.
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import perfmodel as pm
from perfmodel.base.spec import Spec
from perfmodel.machine.efficiency import IDEAL

FACE = """
class AllReduceForm(launch, second, hop, share, half)
    .time(self, *, wire, others, bandwidth)
class Attention(norm, post_norm, scalars, reused, variant, kind, heads, kv_heads, head_dim, value_dim, window, chunk, source, indexer, shares_kv, keys_as_values, gate, qkv_bias, gate_bias, output_bias, qk_norm, differential, masks_keys, qk_shift)
    .DIVIDED
    .LACKS
    .REPEATED
    .ROUTING
    .active_params(self, hidden)
    .cache_bytes(self, group, kv)
    .clips
    .collectives(self, hidden, tokens, precision, calls, parallelism)
    .costs(self, hidden, precision)
    .embedding_params(self, hidden)
    .formats_of(self, matrix, precision)
    .has_cache
    .inner_steps(self, hidden, tokens, precision, calls)
    .kept(self, precision, conv, drafts)
    .kv_values
    .matrices(self, hidden)
    .operations(self, hidden, step, precision, calls)
    .params(self, hidden)
    .part(self, matrix)
    .query_width
    .reach
    .read_width(self, hidden)
    .result_width
    .share(self, parallelism)
    .small_steps(self, hidden, tokens, precision, calls)
    .state_bytes(self, precision)
    .title
    .token_cache(self, formats)
    .vectors(self, hidden)
    .weight_bytes(self, hidden, precision)
class Band(low, high)
class Calibration(gpu, base, efficiency, fits, left_out, source)
    .explain(self)
    .to_frame(self)
    .write(self, path)
class Cluster(gpu, per_node, nodes, link)
    .devices
class Collective(name, kind, nbytes, least_nbytes, group, calls, algorithm, tokens)
    .least_legs(self, near)
    .legs(self, near)
    .sends_to_all
class CollectiveEfficiency(kind, form, band)
class Comparison(rows)
    .to_frame(self)
class Demand(model, workload, slo, scheduler, speculation, efficiency, engine, server, policy)
    .is_open
    .load
    .loaded(self, load)
class DeviceMemory(precision, weights, kv, state, capacity, capacity_kind, policy, paged, allocated, activations, reserve, budget, remedies)
    .fits
    .free
    .limit
    .needed
    .shortfall(self)
class Disaggregated(prefill, decode, prefill_parallelism, transfer, sequences, reserves)
class Efficiency(compute, memory, call_overhead, step_overhead, exponent, link, kernels, collectives, host, graphs, block_overhead, decode_band, prefill_band, engine, known, origins)
    .collective(self, kind)
    .collective_time(self, kind, *, wire, others, bandwidth)
    .kernel(self, name)
    .kernel_time(self, name, gpu, *, compute, memory, activations=0, inner=0, prepared=0, tiles=0, exponentials=0, launches=1)
    .time(self, *, compute, memory)
class Embedding(positions, unused_positions, extra_rows, width, norm)
    .lookup(self, hidden, tokens, precision)
    .params(self, hidden, vocab)
    .project(self, hidden, tokens, precision)
    .table(self, hidden, vocab)
    .weight_bytes(self, hidden, vocab, precision)
class Estimate(phase, model, gpu, precision, step, efficiency, small_steps, weights_only, parallelism, cluster)
    .activation_traffic
    .assumptions
    .bound
    .bytes
    .collectives
    .compute_time
    .compute_utilization
    .devices
    .each_device
    .exchanges(self)
    .explain(self)
    .fits
    .floor
    .flops
    .high
    .ideal
    .intensity
    .kv_traffic
    .low
    .memory
    .memory_time
    .memory_utilization
    .network_time
    .operations
    .origins
    .rows(self)
    .sources
    .sums
    .time
    .to_frame(self)
    .tokens_per_second
    .weight_traffic
class FeedForward(norm, post_norm, scalars, reused, variant, kind, width, gated, bias)
    .DIVIDED
    .LACKS
    .REPEATED
    .ROUTING
    .active_params(self, hidden)
    .cache_bytes(self, group, kv)
    .clips
    .collectives(self, hidden, tokens, precision, calls, parallelism)
    .costs(self, hidden, precision)
    .embedding_params(self, hidden)
    .formats_of(self, matrix, precision)
    .has_cache
    .inner_steps(self, hidden, tokens, precision, calls)
    .kept(self, precision, conv, drafts)
    .matrices(self, hidden)
    .operations(self, hidden, step, precision, calls)
    .params(self, hidden)
    .part(self, matrix)
    .read_width(self, hidden)
    .share(self, parallelism)
    .small_steps(self, hidden, tokens, precision, calls)
    .state_bytes(self, precision)
    .title
    .token_cache(self, formats)
    .up_width
    .vectors(self, hidden)
    .weight_bytes(self, hidden, precision)
class Format(name, bits, scale_bits, block)
    .nbytes(self, values, rows=0)
    .per_row
class Generation(prefill, last_step, output, decode_time)
    .explain(self)
    .fits
    .total
    .tpot
    .ttft
class GpuSpec(name, key, vendor, architecture, released, memory_bandwidth, peak_flops, memory_capacity, visible_capacity, l2_cache, last_level_cache, units, unit, boost_clock, matrix_clock, power, parts, link, host_link, origins)
    .capacity
    .capacity_kind
    .figures(self)
    .link_to(self, devices)
    .peak(self, compute)
class Group(count, new, past, logits, shared_past)
    .context
class Head(tied, norm, bias, width)
    .matrices(self, hidden, vocab)
    .params(self, hidden, vocab)
    .project(self, hidden, vocab, tokens, precision)
    .table(self, hidden, vocab)
    .weight_bytes(self, hidden, vocab, precision)
class HostForm(constant, sequence, launch_scale)
    .time(self, *, sequences)
class KernelEfficiency(name, form, band)
class KernelForm(compute, memory, launch, fill, exponent, prepare, tile, activation)
    .time(self, *, compute, memory, inner=0, inputs=0, activations=0, tiles=0)
class KvGrowth(batch, precision, weights, contexts, kv, overtakes)
    .to_frame(self)
class KvLayout(policy, precision, caches, states, paged)
class KvPool(policy, precision, available, block_tokens, block_bytes, tables, blocks, spare_blocks, tokens, longest, max_len, blocks_per_request)
    .allocated
    .concurrency
    .needed
class LatentAttention(norm, post_norm, scalars, reused, variant, kind, heads, query_rank, kv_rank, nope_dim, rope_dim, value_dim, window, indexer, form, gate, shares_kv, down_bias, output_bias)
    .DIVIDED
    .LACKS
    .REPEATED
    .ROUTING
    .active_params(self, hidden)
    .cache_bytes(self, group, kv)
    .cached
    .clips
    .collectives(self, hidden, tokens, precision, calls, parallelism)
    .costs(self, hidden, precision)
    .embedding_params(self, hidden)
    .formats_of(self, matrix, precision)
    .has_cache
    .inner_steps(self, hidden, tokens, precision, calls)
    .kept(self, precision, conv, drafts)
    .matrices(self, hidden)
    .operations(self, hidden, step, precision, calls)
    .params(self, hidden)
    .part(self, matrix)
    .reach
    .read_width(self, hidden)
    .share(self, parallelism)
    .small_steps(self, hidden, tokens, precision, calls)
    .state_bytes(self, precision)
    .title
    .token_cache(self, formats)
    .vectors(self, hidden)
    .weight_bytes(self, hidden, precision)
class Lengths(values, weights)
    .mean
    .mean_square
    .shares
class Link(name, bandwidth, latency, domain, topology, layout, reduces)
    .among(self, devices)
class LinkEfficiency(launch, hop, share, half)
    .time(self, *, wire, others, bandwidth)
class MeasuredModel(model, ran, steps, notes)
    .explain(self)
class Measurement(machine, date, precision, traffic, products, jobs, seconds, took, allocated, notes)
    .explain(self)
    .gpu
    .reading
    .roof(self, job)
    .share(self, job)
    .to_toml(self)
class MemoryPolicy(name, share_of, fraction, reserve, peak, step_tokens, logits, activation, block, latent_block, spare_blocks, windows, unified, latents, scaled_latents, keys, values, indexer, state_pages, spare_states, short_conv, conv, draft_tokens, printed)
    .cache_formats(self, precision)
    .pool_bytes(self, *, total, weights, activations=0.0, reserve=None)
    .preset(cls, name, /, **changes)
    .tokens_of_block(self, latent)
class MixtureOfExperts(norm, post_norm, scalars, reused, variant, kind, experts, top_k, width, gated, shared_width, shared_gate, zero_experts, latent, router_width, spread, gathered, router_bias, skew, bias, shared_bias)
    .DIVIDED
    .LACKS
    .REPEATED
    .ROUTING
    .active_params(self, hidden)
    .cache_bytes(self, group, kv)
    .choices
    .chosen
    .clips
    .collectives(self, hidden, tokens, precision, calls, parallelism)
    .costs(self, hidden, precision)
    .embedding_params(self, hidden)
    .formats_of(self, matrix, precision)
    .has_cache
    .inner_steps(self, hidden, tokens, precision, calls)
    .kept(self, precision, conv, drafts)
    .matrices(self, hidden)
    .operations(self, hidden, step, precision, calls)
    .params(self, hidden)
    .part(self, matrix)
    .read_width(self, hidden)
    .share(self, parallelism)
    .small_steps(self, hidden, tokens, precision, calls)
    .state_bytes(self, precision)
    .title
    .token_cache(self, formats)
    .touched(self, tokens)
    .vectors(self, hidden)
    .weight_bytes(self, hidden, precision)
class ModelShape(name, hidden, vocab, blocks, mtp, tower_params, embedding, head, max_context, precision, origins)
    .active_params
    .between
    .cache_by_kind(self, context, precision=None)
    .cache_bytes(self, context, precision=None)
    .cache_of(self, group, precision)
    .clips
    .dense(cls, *, layers, hidden, heads, ffn, kv_heads=None, head_dim=None, vocab=None, gated=True, tied=False, norm='rms', name='dense')
    .describe(self)
    .distinct_layers
    .from_totals(cls, *, params, layers=None, kv_heads=None, head_dim=None, kv_bytes_per_token=None, name='coarse')
    .has_cache
    .kv_bytes_per_token(self, precision=None, *, context=1)
    .layers
    .mtp_params
    .non_embedding_params
    .params
    .position_limit
    .require_cache(self)
    .require_positions(self, context)
    .resolve_precision(self, precision=None)
    .state_bytes(self, precision=None)
    .to_frame(self, precision=None)
    .weight_bytes(self, precision=None)
    .with_(self, **changes)
class Operation(name, kind, flops, weight_bytes, least_weight_bytes, activation_bytes, kv_bytes, calls, compute, tokens, weights, pairs, kernel)
    .intensity
    .is_product
    .nbytes
    .sizes
    .weights_only(self)
class Origin(field, kind, source, place, date, note)
class Parallelism(tensor, pipeline, expert, data, micro_batches, stages, all_reduce, communication)
    .devices
    .least_shares(self, step)
    .micro_batch(self, step)
    .micro_batches_of(self, sequences)
    .replica(self, step)
    .replicas(self, step)
    .replicas_per_expert
class PeakFlops(fp32, tf32, fp16, fp16_acc16, bf16, fp8, fp8_acc16, mxfp8, int8, mxfp6, mxfp4, nvfp4, int4)
    .formats
class Plan(demand, gpu, cluster, price, precision, parallelism, replicas, prefill_replicas, workload, ttft, tpot, requests_per_second, batch, capacity, prompt_share, used, broken, reason)
    .binding
    .cost_per_hour
    .cost_per_million
    .cost_per_million_input
    .cost_per_million_output
    .devices
    .division
    .elasticities(self)
    .end_to_end
    .energy_per_million
    .explain(self)
    .feasible
    .headroom
    .output_tokens_per_second
    .output_tokens_per_second_per_device
    .power
    .prompt_tokens_per_second
    .purchase
    .row(self)
    .scheduler
    .serving(self)
    .tokens_per_second_per_user
    .users
class Plans(rows, by, devices)
    .best
    .by_chip
    .explain(self)
    .feasible
    .pareto
    .to_frame(self)
    .winning_bandwidth(self, gpu)
    .winning_price(self, gpu)
class Precision(name, linear, head, kv, attention, state, parts)
    .computing(self, compute)
    .formats_of(self, part, default=None)
    .parse(cls, text)
    .preset(cls, name, *, kv=None, state=None, compute=None)
    .rest
    .uniform(cls, name)
class PrefillForm(compute, memory, launch, exponent, per_clock, tile)
    .time(self, *, compute, memory, exponentials=0, tiles=0)
class Price(low_per_hour, high_per_hour, date, sources, note)
class Remedy(change, to, needed)
class Scheduler(kind, budget, sequences, reserves)
class ServerForm(steps, delay, interference)
    .time(self, *, step)
class Serving(model, gpu, cluster, parallelism, precision, efficiency, workload, scheduler, speculation, server, ttft, tpot, requests_per_second, decoding, together, waiting, capacity, plain, iteration, load, transfer, pools)
    .assumptions
    .balanced_pools
    .bound
    .breakeven_acceptance
    .compute_utilization
    .devices
    .end_to_end
    .explain(self)
    .interference
    .kv_utilization
    .memory_utilization
    .network_utilization
    .output_tokens_per_second
    .output_tokens_per_second_per_device
    .output_tokens_per_second_per_replica
    .prefill
    .prompt_tokens_per_second
    .replicas
    .step
    .tokens_per_second_per_user
    .total_tokens_per_second
    .users
class Slo(ttft, tpot, end_to_end)
    .targets
class Source(key, title, publisher, url, date)
class Speculation(tokens, acceptance, draft)
    .breakeven_acceptance(self, cost)
    .expected_tokens
class Step(groups)
    .logit_tokens
    .mean_tokens
    .sequences
    .tokens
class Sweep()
    .blocks(self, columns=None)
    .columns
    .precision
    .skipped
    .to_frame(self, columns=None)
    .to_parquet(self, path, *, columns=None, progress=False)
class Totals(norm, post_norm, scalars, reused, variant, kind, matrix_weights, kv_values_per_token, kv_bytes_per_token)
    .DIVIDED
    .LACKS
    .REPEATED
    .ROUTING
    .active_params(self, hidden)
    .cache_bytes(self, group, kv)
    .clips
    .collectives(self, hidden, tokens, precision, calls, parallelism)
    .costs(self, hidden, precision)
    .embedding_params(self, hidden)
    .formats_of(self, matrix, precision)
    .has_cache
    .inner_steps(self, hidden, tokens, precision, calls)
    .kept(self, precision, conv, drafts)
    .matrices(self, hidden)
    .operations(self, hidden, step, precision, calls)
    .params(self, hidden)
    .part(self, matrix)
    .read_width(self, hidden)
    .share(self, parallelism)
    .small_steps(self, hidden, tokens, precision, calls)
    .state_bytes(self, precision)
    .title
    .token_cache(self, formats)
    .vectors(self, hidden)
    .weight_bytes(self, hidden, precision)
class Workload(prompt, output, prefix, concurrency, rate, rounds, paired)
    .contexts
    .decode_tokens
    .from_trace(cls, path, *, concurrency=None, rate=None, prefix=0)
    .longest_context
    .mean_context
    .new_tokens
    .prompt_pairs
    .prompts
    .requests
    .reserved_context
calibrate(measurements, gpu, *, model=None, precision=None, parallelism=<Parallelism one device>, base='auto', engine=None, source='')
compare(model, gpu, *, batch, context=None, precisions=(None,), efficiency=IDEAL, engine=None, parallelism=<Parallelism one device>)
critical_context(model, gpu, *, precision=None)
decode(model, gpu, *, batch, context=None, shared_past=0, precision=None, efficiency=IDEAL, engine=None, small_steps='fused', weights_only=False, parallelism=<Parallelism one device>)
efficiency(gpu, *, engine=None, graphs=True)
engines()
module errors
estimate(model, gpu, step, *, precision=None, efficiency=IDEAL, engine=None, small_steps='fused', weights_only=False, parallelism=<Parallelism one device>)
forward(model, step, precision=None, *, small_steps='fused')
gemm(*, inner, outer, tokens, precision='bf16')
gemm_ridge_batch(gpu, *, inner, outer, precision='bf16')
generate(model, gpu, *, prompt, output, batch=1, precision=None, efficiency=IDEAL, engine=None, small_steps='fused', parallelism=<Parallelism one device>)
gpu(key)
gpus()
kv_growth(model, *, contexts, batch=1, precision=None)
kv_layout(model, *, batch, context, policy, precision=None, parallelism=<Parallelism one device>, draft=None, mtp=False, stage=0)
kv_pool(model, gpu=None, *, available=None, blocks=None, tokens=None, max_len=None, policy='vllm', precision=None, parallelism=<Parallelism one device>, draft=None, mtp=False)
largest_load(model, workload, *, slo, devices, gpus=None, precisions=None, parallelisms=None, pools='both', prices=None, scheduler=None, efficiency=IDEAL, engine=None, server=None, speculation=None, policy='logical')
module layers
max_batch(model, gpu, *, context, precision=None, policy='logical', parallelism=<Parallelism one device>, draft=None, mtp=False)
max_context(model, gpu, *, batch, precision=None, policy='logical', parallelism=<Parallelism one device>, draft=None, mtp=False)
max_tokens(model, gpu, *, context, precision=None, policy='logical', parallelism=<Parallelism one device>, draft=None, mtp=False)
measure(*, seconds=60.0, memory=None, backend='numpy', device='cpu', threads=None, precision='fp32', jobs=True, progress=None)
measure_model(model, machine, *, batch=1, context=512, prompt=256, seconds=60.0, memory=None, predicted=None, progress=None)
memory(model, gpu, *, batch, context=None, shared_past=0, precision=None, policy='logical', parallelism=<Parallelism one device>, draft=None, mtp=False)
min_capacity(model, *, batch, context=None, precision=None, policy='logical', parallelism=<Parallelism one device>, draft=None, mtp=False)
min_devices(model, gpu, *, batch, context=None, precision=None, policy='logical', parallelism=<Parallelism one device>, draft=None, mtp=False)
model(key)
models()
plan(model, workload, *, slo, gpus=None, precisions=None, parallelisms=None, pools='both', max_devices=None, prices=None, scheduler=None, efficiency=IDEAL, engine=None, server=None, speculation=None, policy='logical')
module plots
prefill(model, gpu, *, prompt, batch=1, past=0, shared_past=0, logits='last', precision=None, efficiency=IDEAL, engine=None, small_steps='fused', weights_only=False, parallelism=<Parallelism one device>)
prices()
read_efficiency(path)
read_gpu(path)
read_hf(source)
read_precision(source)
read_prices(path)
ridge_batch(model, gpu, *, precision=None)
ridge_intensity(gpu, *, precision='bf16')
roof(gpu, *, intensity, precision='bf16')
serve(model, gpu, workload, *, parallelism=<Parallelism one device>, precision=None, scheduler='chunked', efficiency=IDEAL, engine=None, server=None, speculation=None, policy='logical')
shard(model, parallelism)
step_ridge_batch(model, gpu, *, context, precision=None)
sweep(model, gpu, *, batch, context=None, prompt=None, grid=True, precision=None, efficiency=IDEAL, engine=None, parallelism=<Parallelism one device>, skip=False, client=None)
module symbolic
module units
"""


def signature(name: str) -> list[str]:
    value = getattr(pm, name)
    if inspect.isfunction(value):
        return [f"{name}{parameters(value)}"]
    if inspect.isclass(value):
        fields = ", ".join(getattr(value, "model_fields", ()))
        return [f"class {name}({fields})", *(f"    .{member}" for member in members(value))]
    return [f"module {name}"]


def parameters(function: Callable[..., Any]) -> str:
    # Types are the type checker's business; names, order, kinds and defaults are the face.
    bare = [
        p.replace(annotation=p.empty, default="IDEAL" if p.default is IDEAL else p.default)
        for p in inspect.signature(function).parameters.values()
    ]
    return str(inspect.Signature(bare)).replace("'IDEAL'", "IDEAL")


def members(kind: type) -> Iterator[str]:
    """Public members that a class of perfmodel's adds to what Pydantic gives every record."""
    for name in sorted(set(dir(kind)) - set(dir(Spec)) - set(getattr(kind, "model_fields", ()))):
        member = inspect.getattr_static(kind, name)
        if isinstance(member, classmethod):
            member = member.__func__
        if not name.startswith("_"):
            yield name + (parameters(member) if inspect.isfunction(member) else "")


def face() -> list[str]:
    return [line for name in pm.__all__ for line in signature(name)]


def test_the_face():
    assert face() == FACE.strip("\n").splitlines()


def test_the_version_is_a_release():
    assert pm.__version__.count(".") == 2


def test_every_public_name_is_in_the_reference():
    pages = Path(__file__).parents[1].glob("docs/reference/*.md")
    text = "\n".join(page.read_text(encoding="utf-8") for page in pages)
    listed = set(re.findall(r"[A-Za-z0-9_]+", text))
    assert set(pm.__all__) - listed == set()
    assert set(pm.layers.__all__) - listed == {"AnyLayer"}


if __name__ == "__main__":
    print("\n".join(face()))
