"""Does a wrong formula fail? Deliberate mistakes, each of which the tests must notice.

Run as a script: every mutant is the package with one line changed, in a folder of its own, and
the physics tests run against it. A mutant that survives, or whose line is gone, is an error.
"""

from __future__ import annotations

import compileall
import os
import shutil
import subprocess
import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor
from itertools import repeat
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).resolve().parents[1]
# Part of the package: the tests that a mistake there should fail first.
NEAREST = {
    "answers/_device.py": "test_parallel.py",
    "answers/calibrating/": "test_calibrate.py",
    "work/collective.py": "test_parallel.py",
    "work/parallel.py": "test_parallel.py",
    "work/shard.py": "test_parallel.py",
    "answers/planning/": "test_planning.py",
    "answers/serving/": "test_serving.py",
    "answers/serving/workload.py": "test_workload.py",
    "answers/holding/stages.py": "test_memory.py",
    "answers/holding/activations.py": "test_memory.py",
    "answers/holding/paging.py": "test_memory.py",
    "answers/holding/policies.py": "test_memory.py",
    "answers/holding/pool.py": "test_memory.py",
    "answers/holding/remedies.py": "test_memory.py",
    "interfaces/measuring/": "test_measure.py",
    "interfaces/plots/": "test_plots.py",
    "interfaces/sweeping/": "test_sweep.py",
    "machine/efficiency.py": "test_efficiency.py",
    "machine/forms.py": "test_forms.py",
    "machine/stack.py": "test_stack.py",
    "sources/efficiency.py": "test_efficiency.py",
    "sources/huggingface/": "test_huggingface.py",
    "sources/huggingface/quantization.py": "test_quantization.py",
    "sources/huggingface/schemes.py": "test_quantization.py",
    "sources/prices.py": "test_prices.py",
    "work/layers/delta.py": "test_linear_attention.py",
    "work/layers/experts.py": "test_experts.py",
    "work/layers/latent.py": "test_latent.py",
    "work/layers/mamba.py": "test_recurrent.py",
    "work/layers/reach.py": "test_traps.py",
    "work/layers/recurrent.py": "test_recurrent.py",
    "work/gguf.py": "test_gguf.py",
    "work/shape.py": "test_traps.py",
}
# Quick ones first, and those that notice much.
THEN = (
    "test_witnesses.py",
    "test_efficiency.py",
    "test_parallel.py",
    "test_memory.py",
    "test_experts.py",
    "test_latent.py",
    "test_recurrent.py",
    "test_linear_attention.py",
    "test_traps.py",
    "test_quantization.py",
    "test_errors.py",
    "test_proofs.py",
    "test_worlds.py",
    "test_catalog.py",
    "test_chips.py",
    "test_huggingface.py",
    "test_invariants.py",
)


class Mutant(NamedTuple):
    """A mistake: in ``file``, ``old`` becomes ``new``."""

    mistake: str
    file: str
    old: str
    new: str

    @property
    def nearest(self) -> tuple[str, ...]:
        """The tests that know most about the file, and are run before all others."""
        longest = sorted(NEAREST, key=len, reverse=True)
        found = (NEAREST[part] for part in longest if self.file.startswith(part))
        return (next(found, "test_witnesses.py"), "test_conventions.py")


ATTENTION = "work/layers/attention.py"
LAYER = "work/layers/layer.py"
OPERATION = "work/operation.py"
ESTIMATE = "answers/estimate.py"
DEVICE = "answers/_device.py"
PARALLEL = "work/parallel.py"
SHARD = "work/shard.py"
COLLECTIVE = "work/collective.py"
PRECISION = "base/precision.py"
FORMATS = "../../catalogs/formats.toml"
REACH = "work/layers/reach.py"
EXPERTS = "work/layers/experts.py"
LATENT = "work/layers/latent.py"
RECURRENT = "work/layers/recurrent.py"
MAMBA = "work/layers/mamba.py"
DELTA = "work/layers/delta.py"
CALIBRATING = "answers/calibrating/"
STEADY = "answers/serving/steady.py"
MEASURING = "interfaces/measuring/"
FAMILIES = "sources/huggingface/families/"

MUTANTS = (
    Mutant(
        "a multiply-add is one FLOP",
        OPERATION,
        "flops=2 * weights * tokens",
        "flops=weights * tokens",
    ),
    Mutant(
        "weights are read again for every token",
        OPERATION,
        "        weight_bytes=weight_bytes,\n",
        "        weight_bytes=tokens * weight_bytes,\n",
    ),
    Mutant(
        "outputs are not written",
        OPERATION,
        " + formats.outputs.nbytes(outer, 1)",
        "",
    ),
    Mutant(
        "activations take the weights' format",
        OPERATION,
        "formats.inputs.nbytes(inner, 1)",
        "formats.weights.nbytes(inner, 1)",
    ),
    Mutant(
        "attention has half its FLOPs",
        ATTENTION,
        "flops=passes * queries_and_result * twice_pairs",
        "flops=passes * self.query_width * twice_pairs",
    ),
    Mutant(
        "the full square instead of the causal triangle",
        REACH,
        "return new * (2 * past + new + 1)",
        "return 2 * new * (past + new)",
    ),
    Mutant(
        "grouped queries are ignored",
        ATTENTION,
        "return self.kv_heads * (self.head_dim + self._value_dim)",
        "return self.heads * (self.head_dim + self._value_dim)",
    ),
    Mutant(
        "values are forgotten beside keys",
        ATTENTION,
        "return self.kv_heads * (self.head_dim + self._value_dim)",
        "return self.kv_heads * self.head_dim",
    ),
    Mutant(
        "the window clips no pair",
        REACH,
        "+ 2 * (new - whole) * limit",
        "+ 2 * (new - whole) * (past + new)",
    ),
    Mutant(
        "the window does not bound the cache",
        REACH,
        "context = minimum(context, limit)",
        "context = maximum(context, limit)",
    ),
    Mutant(
        "the window does not bound the traffic",
        REACH,
        "past = minimum(past, self.window - 1)",
        "past = maximum(past, self.window - 1)",
    ),
    Mutant(
        "the new token is not written to the cache",
        REACH,
        "return self.read(group) + self.written(group)",
        "return self.read(group)",
    ),
    Mutant(
        "a shared prefix is read by everyone",
        REACH,
        "return shared + group.count * (past - shared)\n\n    def written",
        "return group.count * past\n\n    def written",
    ),
    Mutant(
        "the output projection is square",
        ATTENTION,
        '"output", self.result_width',
        '"output", hidden',
    ),
    Mutant(
        "the gate is forgotten",
        "work/layers/feedforward.py",
        "return 2 * self.width if self.gated else self.width",
        "return self.width",
    ),
    Mutant(
        "the head is left out",
        "work/forward.py",
        "yield from model.head.project(hidden, vocab, positions, precision)",
        "pass",
    ),
    Mutant(
        "logits for every prompt token",
        "work/step.py",
        "return sum([group.count * group.logits for group in self.groups])",
        "return sum([group.count * group.new for group in self.groups])",
    ),
    Mutant(
        "one block instead of all",
        "work/forward.py",
        "layer.operations(hidden, step, precision, count)",
        "layer.operations(hidden, step, precision, 1)",
    ),
    Mutant(
        "the embedding table is read whole",
        "work/layers/embedding.py",
        "            weight_bytes=0,\n",
        "            weight_bytes=precision.rest.nbytes(hidden * 128256),\n",
    ),
    Mutant(
        "tied weights count twice",
        "work/layers/embedding.py",
        "return 0 if self.tied else table.inner * table.outer",
        "return table.inner * table.outer",
    ),
    Mutant(
        "tied weights are held twice",
        "work/layers/embedding.py",
        "table = 0 if self.tied else stored.nbytes(",
        "table = stored.nbytes(vocab * hidden) if self.tied else stored.nbytes(",
    ),
    Mutant(
        "learned positions have no weights",
        "work/layers/embedding.py",
        "return tokens + ((self.positions or 0) + self.unused_positions) * hidden",
        "return tokens",
    ),
    Mutant(
        "attention moves what linears read",
        ATTENTION,
        "precision.linear.outputs.nbytes(self.query_width",
        "precision.linear.inputs.nbytes(self.query_width",
    ),
    Mutant(
        "the window does not clip new tokens",
        REACH,
        "else minimum(group.new, limit)",
        "else maximum(group.new, limit)",
    ),
    Mutant(
        "a window reads all of a shared prefix",
        REACH,
        "shared = maximum(shared - maximum(past + 1 - self.window, 0), 0)",
        "shared = minimum(shared, past)",
    ),
    Mutant(
        "a tie is compute",
        ESTIMATE,
        "where(compute > memory",
        "where(compute >= memory",
    ),
    Mutant(
        "norms of queries and keys are no step",
        ATTENTION,
        "        if self.qk_norm:\n            keys",
        "        if False:\n            keys",
    ),
    Mutant(
        "fp8 attention computes in fp8",
        PRECISION,
        '"fp8": (("fp8", "fp8", "bf16", "fp8"), _HALF, "bf16", "bf16")',
        '"fp8": (("fp8", "fp8", "bf16", "fp8"), _HALF, "bf16", "fp8")',
    ),
    Mutant("a gigabyte is 2**30", "base/units.py", "GB: Final = 1e9", "GB: Final = 2.0**30"),
    Mutant(
        "a LayerNorm has no shift",
        LAYER,
        '"layer": 2,',
        '"layer": 1,',
    ),
    Mutant(
        "fp8 takes two bytes",
        "base/formats.py",
        '("fp8", 8)',
        '("fp8", 16)',
    ),
    Mutant(
        "int4 has no scales",
        FORMATS,
        "int4-g128 = { bits = 4, scale_bits = 16, block = 128 }",
        "int4-g128 = { bits = 4, scale_bits = 0 }",
    ),
    Mutant(
        "what computes wider moves inputs as before",
        PRECISION,
        'update={"inputs": format_named(_OPERANDS[compute]), "compute": compute}',
        'update={"compute": compute}',
    ),
    Mutant(
        "a block of GGUF is its elements alone",
        FORMATS,
        "q4_k = { bits = 4, scale_bits = 128, block = 256 }",
        "q4_k = { bits = 4, scale_bits = 0 }",
    ),
    Mutant(
        "the last layers of a GGUF file have no more bits",
        "work/gguf.py",
        "last = at.layer >= 7 * at.layers // 8",
        "last = False",
    ),
    Mutant(
        "a fused matrix is all values",
        "work/gguf.py",
        "yield mixed.base, weights - keys - values",
        'yield "q6_k", weights - keys - values',
    ),
    Mutant(
        "a GGUF head is like the table",
        "work/gguf.py",
        '_fitting("q6_k" if fits and mixed.base != "q8_0" else "q8_0", shape.hidden)',
        "_fitting(mixed.base, shape.hidden)",
    ),
    Mutant(
        "summing in 16 bits is widened away",
        PRECISION,
        "return compute if _WIDTHS[compute] >= _WIDTHS[now] else now",
        "return compute if _WIDTHS[compute] > _WIDTHS[now] else now",
    ),
    Mutant(
        "int4 weights compute at a rate of their own",
        PRECISION,
        '"w4a16": (("int4-g128", "bf16", "bf16", "bf16")',
        '"w4a16": (("int4-g128", "bf16", "bf16", "int8")',
    ),
    Mutant(
        "the fp8 preset quantizes the head",
        PRECISION,
        '"fp8": (("fp8", "fp8", "bf16", "fp8"), _HALF',
        '"fp8": (("fp8", "fp8", "bf16", "fp8"), ("fp8", "fp8", "bf16", "fp8")',
    ),
    Mutant(
        "compute and memory add up",
        "base/_num.py",
        "return a if a >= b else b",
        "return a + b",
    ),
    Mutant("arrays take the smaller roof", "base/_num.py", "np.maximum(a, b)", "np.minimum(a, b)"),
    Mutant("symbols take the smaller roof", "base/_num.py", "sympy.Max(a, b)", "sympy.Min(a, b)"),
    Mutant(
        "a copy measured as one list", MEASURING + "jobs.py", "moved=2, flops=0", "moved=1, flops=0"
    ),
    Mutant(
        "a triad measured as a copy", MEASURING + "jobs.py", "moved=3, flops=2", "moved=2, flops=2"
    ),
    Mutant(
        "measured users share their KV",
        MEASURING + "jobs.py",
        "Group(count=users, new=1, past=context - 1)",
        "Group(count=1, new=1, past=context - 1)",
    ),
    Mutant(
        "the first call is measured too",
        MEASURING + "stopwatch.py",
        "found: list[list[float]] = [[] for _ in calls]",
        "found: list[list[float]] = [[one] for one in first]",
    ),
    Mutant(
        "measured calls take no turns",
        MEASURING + "stopwatch.py",
        "if (times or [warm])[-1] <= self.left:",
        "while len(times) < REPEATS:",
    ),
    Mutant(
        "the mean of measured times in place of the median",
        MEASURING + "stopwatch.py",
        "return median(self.times)",
        "return sum(self.times) / len(self.times)",
    ),
    Mutant(
        "a copy sets the measured memory roof",
        MEASURING + "record.py",
        "max(self.traffic[:2],",
        "max(self.traffic,",
    ),
    Mutant(
        "the slower reading sets the memory roof",
        MEASURING + "record.py",
        "return max(self.traffic[:2],",
        "return min(self.traffic[:2],",
    ),
    Mutant(
        "a measured table as large as the cache",
        MEASURING + "sizing.py",
        "WANTED: Final = 4",
        "WANTED: Final = 1",
    ),
    Mutant(
        "a measured table that the cache holds",
        MEASURING + "sizing.py",
        "LEAST: Final = 2",
        "LEAST: Final = 1",
    ),
    Mutant(
        "the memory asked for leaves out what passes the table",
        MEASURING + "sizing.py",
        "side**2 * width + 2 * TOKENS[-1] * side * width + spare(side)",
        "side**2 * width + spare(side)",
    ),
    Mutant(
        "caches that processors share counted for each",
        MEASURING + "host.py",
        "setdefault(int(level), {})[shared]",
        "setdefault(int(level), {})[str(cache)]",
    ),
    Mutant(
        "the first cache in place of the last",
        MEASURING + "host.py",
        "return found[-1] or None",
        "return found[0] or None",
    ),
    Mutant(
        "the decoder's queries meet keys of the future",
        MEASURING + "_numpy.py",
        "if new > 1:",
        "if new > context:",
    ),
    Mutant(
        "the decoder forgets the cached keys",
        MEASURING + "decoder.py",
        "part[:, :, : past + new] for part in cache",
        "part[:, :, past : past + new] for part in cache",
    ),
    Mutant(
        "the decoder turns every chunk from the first position",
        MEASURING + "decoder.py",
        "[one[past : past + new] for one in self.turns[width]]",
        "[one[:new] for one in self.turns[width]]",
    ),
    Mutant(
        "fewer blocks that ran are not scaled",
        MEASURING + "model.py",
        'Estimate(**fields | {"model": model}).time / asked.time',
        "asked.time / asked.time",
    ),
    Mutant(
        "a measured ratio over the time at the roofs",
        MEASURING + "model.py",
        "return self.time / self.predicted.floor",
        "return self.time / self.predicted.time",
    ),
    Mutant(
        "a prefill holds its scores once",
        MEASURING + "model.py",
        "* 2 * prompt + getattr",
        "* prompt + getattr",
    ),
    Mutant(
        "lists on more threads than a product has",
        MEASURING + "_numpy.py",
        "min(running or self._threads, self._threads)",
        "self._threads",
    ),
    Mutant(
        "a cache in blocks drawn without them",
        "interfaces/plots/bars.py",
        "one.kv if one.paged is None else one.paged",
        "one.kv",
    ),
    Mutant(
        "KV drawn as slow as the weights",
        "interfaces/plots/curves.py",
        '"KV": memory_time(nbytes=kv,',
        '"KV": memory_time(nbytes=weights,',
    ),
    Mutant(
        "an unknown capacity fits in a sweep's file",
        "interfaces/sweeping/parquet.py",
        "pa.array(values > 0, mask=values < 0)",
        "pa.array(values != 0)",
    ),
    Mutant(
        "half a sweep is left as a file",
        "interfaces/sweeping/parquet.py",
        "beside.unlink(missing_ok=True)",
        "os.replace(beside, path)",
    ),
    Mutant(
        "the network never binds in a sweep",
        "interfaces/sweeping/grid.py",
        "return found + 2 * (names == BOUNDS[2]) if many else found",
        "return found",
    ),
    Mutant(
        "parts of a cluster come back as they are ready",
        "interfaces/sweeping/workers.py",
        "    while waiting:\n        yield waiting.popleft()",
        "    while waiting:\n        yield waiting.pop()",
    ),
    Mutant(
        "bands of a sweep are those of its fastest stage",
        DEVICE,
        "longer = own > time",
        "longer = (own < time) | (time == 0.0)",
    ),
    Mutant("integers wrap around in a sweep", "base/_num.py", "dtype=np.float64", "dtype=np.int32"),
    Mutant(
        "calls are forgotten",
        DEVICE,
        "OperationTime(op, calls * compute, calls * memory, calls * time)",
        "OperationTime(op, calls * compute, calls * memory, time)",
    ),
    Mutant(
        "activations are compulsory",
        DEVICE,
        "compulsory = sums.least_weight_bytes + sums.kv_bytes",
        "compulsory = 1.5 * (sums.weight_bytes + sums.kv_bytes + sums.activation_bytes)",
    ),
    Mutant(
        "a fit follows outliers",
        CALIBRATING + "fitting.py",
        'loss="soft_l1"',
        'loss="linear"',
    ),
    Mutant(
        "a fit is tested on what it has seen",
        CALIBRATING + "fitting.py",
        "fitted(lambda some: time(some)[~away], free, measured[~away])",
        "fitted(time, free, measured)",
    ),
    Mutant(
        "a parameter leaves the base though no row says so",
        CALIBRATING + "fitting.py",
        "_SURE: Final = 3.0",
        "_SURE: Final = 0.0",
    ),
    Mutant(
        "a fit is kept though the base is nearer",
        CALIBRATING + "kernel_fits.py",
        "better = loss(after, seconds) < loss(before, seconds)",
        "better = True",
    ),
    Mutant(
        "rows that beat their floor are fitted to",
        CALIBRATING + "checks.py",
        "beats = measured < floors",
        "beats = measured < 0 * floors",
    ),
    Mutant(
        "what a sequence adds is added once",
        CALIBRATING + "step_fits.py",
        "sequences=self._steps.sequences",
        "sequences=1",
    ),
    Mutant(
        "an efficiency is a speed-up",
        "machine/efficiency.py",
        "compute / self.compute, memory / self.memory",
        "compute * self.compute, memory * self.memory",
    ),
    Mutant(
        "the roofs join below the larger",
        "machine/forms.py",
        "(1 + ratio**exponent)",
        "(1 - ratio**exponent)",
    ),
    Mutant(
        "the overhead of a call is forgotten",
        "machine/efficiency.py",
        "joined(compute, memory, self.exponent) + self.call_overhead",
        "joined(compute, memory, self.exponent)",
    ),
    Mutant(
        "experts are launched for each of their products",
        "machine/efficiency.py",
        "return found - (1 - launches) * form.launch",
        "return found",
    ),
    Mutant(
        "experts prepare their rows for each of their products",
        OPERATION,
        "prepared = kernel.launches * rows * kernel.inner",
        "prepared = rows * kernel.inner",
    ),
    Mutant(
        "decode attention sums over all contexts",
        OPERATION,
        "inner=self.pairs / rows",
        "inner=self.pairs",
    ),
    Mutant(
        "all heads share the exponentials of one",
        OPERATION,
        "exponentials=kernel.heads * self.pairs",
        "exponentials=self.pairs",
    ),
    Mutant(
        "a form lets a kernel beat its roof",
        "machine/forms.py",
        "return ahead + maximum(busy, maximum(compute, memory))",
        "return ahead + busy",
    ),
    Mutant(
        "activations of a form move with the weights too",
        "machine/forms.py",
        "(memory - apart) / self.memory",
        "memory / self.memory",
    ),
    Mutant(
        "a form prepares its inputs for nothing",
        "machine/forms.py",
        "self.fill * inner + self.prepare * inputs / self.memory",
        "self.fill * inner",
    ),
    Mutant(
        "the tiles of decode attention are free",
        "machine/forms.py",
        "joined(busy, self.tile * tiles, self.exponent)",
        "joined(busy, 0 * tiles, self.exponent)",
    ),
    Mutant(
        "exponentials are free",
        "machine/forms.py",
        "busy = busy + exponentials / self.per_clock",
        "busy = busy + 0 * exponentials",
    ),
    Mutant(
        "a stream takes the larger limit",
        "machine/forms.py",
        "smaller = minimum(reached, carried)",
        "smaller = maximum(reached, carried)",
    ),
    Mutant(
        "one shot sends what a ring does",
        "machine/forms.py",
        "wire * (others + 1) / 2 / reached",
        "wire / reached",
    ),
    Mutant(
        "an engine's sequences are free",
        "machine/forms.py",
        "self.constant + self.sequence * sequences",
        "self.constant",
    ),
    Mutant(
        "the ridge is upside down",
        "roofline.py",
        "return peak / bandwidth",
        "return bandwidth / peak",
    ),
    Mutant(
        "break-even ignores what each unit moves",
        "roofline.py",
        "fixed_memory / (compute - memory)",
        "fixed_memory / compute",
    ),
    Mutant(
        "KV is left out of memory",
        "answers/holding/record.py",
        "self.weights + self.state + self.kv",
        "self.weights",
    ),
    Mutant(
        "a window begins where a block does",
        "answers/holding/paging.py",
        "return -(-held // table.tokens) + 1",
        "return -(-held // table.tokens)",
    ),
    Mutant(
        "a window is held without the step",
        "answers/holding/paging.py",
        "table.window - 1 + self.step_tokens",
        "table.window",
    ),
    Mutant(
        "a started block is not taken",
        "answers/holding/paging.py",
        "return -(-context // table.tokens)",
        "return context // table.tokens",
    ),
    Mutant(
        "groups are as large as the larger kind",
        "answers/holding/paging.py",
        "size = most if most < _NEARLY_EQUAL * least else least",
        "size = most",
    ),
    Mutant(
        "no state is spare",
        "answers/holding/paging.py",
        "return count + self.policy.spare_states",
        "return count",
    ),
    Mutant(
        "a block that holds a state has any number of tokens",
        "answers/holding/paging.py",
        "tokens = max(tokens, _rounded(-(-state // token), _KERNEL_TOKENS))",
        "tokens = max(tokens, int(-(-state // token)))",
    ),
    Mutant(
        "what is free is shared like the total",
        "answers/holding/policies.py",
        'if self.share_of == "free":',
        'if self.share_of == "none":',
    ),
    Mutant(
        "logits are counted in two bytes",
        "answers/holding/activations.py",
        '_LOGITS = FORMATS["fp32"]',
        '_LOGITS = FORMATS["bf16"]',
    ),
    Mutant(
        "no residual stream beside an operation",
        "answers/holding/activations.py",
        "widest + kept.linear.outputs.nbytes(tokens * (model.hidden or 0))",
        "widest",
    ),
    Mutant(
        "a convolution keeps the token to come",
        "work/layers/recurrent.py",
        "columns = self.conv_kernel - 1 + drafts",
        "columns = self.conv_kernel + drafts",
    ),
    Mutant(
        "spare blocks hold tokens",
        "answers/holding/pool.py",
        "int(room // pool.block_bytes) - policy.spare_blocks",
        "int(room // pool.block_bytes)",
    ),
    Mutant(
        "any device of a pipeline decides",
        "answers/holding/pool.py",
        "return min(pools, key=lambda found: found.tokens)",
        "return pools[0]",
    ),
    Mutant(
        "a draft is not held",
        "answers/holding/stages.py",
        "parts[-1] += (own,)  # type: ignore[assignment]",
        "parts[-1] += ()",
    ),
    Mutant(
        "the search stops one short",
        "answers/_search.py",
        "while high - low > 1:",
        "while high - low > 2:",
    ),
    Mutant(
        "decode keeps one context throughout",
        "answers/steps.py",
        "np.arange(first_context - 1, group.past + 1)",
        "np.full(group.past + 2 - first_context, group.past)",
    ),
    Mutant(
        "TPOT counts the first token", "answers/generate.py", "(self.output - 1)", "self.output"
    ),
    # -- layers of other kinds
    Mutant(
        "a batch touches no more experts than a token",
        EXPERTS,
        "expected=experts - missed,",
        "expected=chosen,",
    ),
    Mutant(
        "every batch touches all experts",
        EXPERTS,
        "expected=experts - missed,",
        "expected=experts,",
    ),
    Mutant(
        "as many experts as tokens choose",
        EXPERTS,
        "expected=experts - missed,",
        "expected=minimum(experts, top_k * tokens),",
    ),
    Mutant(
        "each token passes one expert",
        EXPERTS,
        "self._met * met\n",
        "met\n",
    ),
    Mutant(
        "all experts are active",
        EXPERTS,
        "return self.params(hidden) - idle * one",
        "return self.params(hidden)",
    ),
    Mutant(
        "the floor reads the expected experts",
        EXPERTS,
        "least_weight_bytes=touched.least * cost.weight_bytes",
        "least_weight_bytes=touched.expected * cost.weight_bytes",
    ),
    Mutant(
        "shared experts are forgotten",
        EXPERTS,
        "if self.shared_width:\n            found",
        "if False:\n            found",
    ),
    Mutant(
        "latent attention caches its heads",
        LATENT,
        "return self.kv_rank + self.rope_dim",
        "return 2 * self.heads * self.value_dim",
    ),
    Mutant(
        "the rotary key is not cached",
        LATENT,
        "return self.kv_rank + self.rope_dim",
        "return self.kv_rank",
    ),
    Mutant(
        "the absorbed form attends as narrow as the expanded one",
        LATENT,
        "self.heads * (self.cached + self.kv_rank) * twice_pairs",
        "self.heads * (self.nope_dim + self.rope_dim + self.value_dim) * twice_pairs",
    ),
    Mutant(
        "the expanded form expands only the new tokens",
        LATENT,
        "rows = within.moved(_past_of(group)) + new",
        "rows = new",
    ),
    Mutant("a chunk is a window", REACH, "rest = length % chunk", "rest = minimum(length, chunk)"),
    Mutant(
        "a state grows with the context",
        RECURRENT,
        "return self._conv_state_bytes(precision) + self._scan_state_bytes(precision)",
        "return 2 * self._scan_state_bytes(precision)",
    ),
    Mutant(
        "a state is never read",
        RECURRENT,
        "states_read(group) * state + group.count * new",
        "group.count * new",
    ),
    Mutant(
        "Mamba-2 has no maps of its state",
        MAMBA,
        "return self.inner + 2 * self.groups * self.state",
        "return self.inner",
    ),
    Mutant(
        "a delta net has one head's gate",
        DELTA,
        "self.conv_channels + self.value_width)",
        "self.conv_channels + self.value_dim)",
    ),
    Mutant(
        "towers are not held",
        "work/shape.py",
        "return total + towers.nbytes(self.tower_params)",
        "return total",
    ),
    Mutant(
        "zero points are free",
        "sources/huggingface/schemes.py",
        "scale = 16 + (bits if zero else 0)",
        "scale = 16",
    ),
    Mutant(
        "modules left alone are quantized too",
        "sources/huggingface/quantization.py",
        "if matrix in layer.ROUTING or scheme.kept.mean(block, names):",
        "if matrix in layer.ROUTING:",
    ),
    # -- many devices
    Mutant(
        "around a ring each share goes once",
        COLLECTIVE,
        "Leg(2 * others / devices * size, 2 * others)",
        "Leg(others / devices * size, others)",
    ),
    Mutant(
        "one shot sends a share of the vector",
        COLLECTIVE,
        'one = size / self.group if self.kind == "all-to-all" else size',
        "one = size / self.group",
    ),
    Mutant(
        "a switch hands sums on for nothing",
        COLLECTIVE,
        "(devices + 1) / devices * size, 2",
        "size, 2",
    ),
    Mutant(
        "nodes exchange the whole vector of every device",
        COLLECTIVE,
        '"ring", size / near, nodes)',
        '"ring", size, nodes)',
    ),
    Mutant(
        "what is near crosses the network too",
        COLLECTIVE,
        "(-self.group // near), self.group - near",
        "(-self.group // near), self.group - 1",
    ),
    Mutant(
        "a sum of rows cannot be avoided",
        COLLECTIVE,
        "least_nbytes=0 if avoidable else nbytes",
        "least_nbytes=nbytes",
    ),
    Mutant(
        "logits of one device are all",
        SHARD,
        "positions * shape.vocab * tensor",
        "positions * shape.vocab",
    ),
    Mutant(
        "one residual stream of many is handed over",
        SHARD,
        "tokens * hidden * _streams(shape)",
        "tokens * hidden",
    ),
    Mutant(
        "a narrow table is summed as wide as the model",
        SHARD,
        "tokens * width, tokens",
        "tokens * hidden, tokens",
    ),
    Mutant(
        "the last stage of a tied model holds no table",
        SHARD,
        "own_table=not first",
        "own_table=False",
    ),
    Mutant(
        "every stage holds the embedding",
        SHARD,
        "_embedding(model, tensor) if first else None",
        "_embedding(model, tensor)",
    ),
    Mutant(
        "the first stages hold what is left over",
        SHARD,
        "(pipeline - 1 - over <= i < pipeline - 1)",
        "(i < over)",
    ),
    Mutant(
        "the vocabulary does not divide",
        SHARD,
        "else ceil_div(model.vocab, tensor)",
        "else model.vocab",
    ),
    Mutant(
        "every replica holds every sequence",
        PARALLEL,
        "upto = [ceil_div(count - index, self.data) for count in dealt]",
        "upto = list(dealt)",
    ),
    Mutant(
        "micro-batches may be empty",
        PARALLEL,
        "minimum(wanted, ceil_div(sequences, self.data))",
        "wanted",
    ),
    Mutant(
        "a micro-batch is the whole batch",
        PARALLEL,
        "_counted(group, divide(group.count, parts))",
        "_counted(group, group.count)",
    ),
    Mutant(
        "short sequences are dealt first",
        PARALLEL,
        "(group.new, group.past), reverse=True)",
        "(group.new, group.past))",
    ),
    Mutant(
        "micro-batches run once",
        DEVICE,
        '{"calls": one.calls * times}',
        '{"calls": one.calls}',
    ),
    Mutant(
        "a pipeline fills twice",
        DEVICE,
        "one + (passes - 1) * longest / passes",
        "one + (passes + 1) * longest / passes",
    ),
    Mutant(
        "a token need not pass all stages",
        DEVICE,
        "maximum(one, longest) if repeats",
        "longest if repeats",
    ),
    Mutant(
        "a pipeline of tokens drains after each",
        DEVICE,
        "    return maximum(one, longest) if repeats else one",
        "    return one",
    ),
    Mutant(
        "a stage stands apart by its first device",
        DEVICE,
        "(self._stage + 2) * stage - 1",
        "(self._stage + 1) * stage",
    ),
    Mutant(
        "the quickest stage speaks for all",
        DEVICE,
        "longer = other.time > found.time",
        "longer = other.time < found.time",
    ),
    Mutant(
        "all ranks of a group stand in one node",
        DEVICE,
        "return gcd(one.group, cluster.per_node)",
        "return min(one.group, cluster.per_node)",
    ),
    Mutant(
        "communication costs nothing",
        DEVICE,
        "time = maximum(time, network) if beside else time + network",
        "time = maximum(time, network)",
    ),
    Mutant(
        "a pair of a mesh has all its links",
        "machine/hardware.py",
        "self.bandwidth * (devices - 1) / (self.domain - 1)",
        "self.bandwidth",
    ),
    Mutant(
        "KV heads are never held again",
        LAYER,
        "        if size % devices and devices % size:",
        "        if size % devices:",
    ),
    Mutant(
        "KV heads are all held by all",
        LAYER,
        "return max(1, size // devices)",
        "return size",
    ),
    Mutant(
        "no result is added up",
        LAYER,
        "if parallelism.tensor == 1 or not self.DIVIDED:",
        "if True:",
    ),
    Mutant(
        "devices hold the experts that are left over together",
        EXPERTS,
        "else ceil_div(self.experts, self.spread)",
        "else self.experts // self.spread",
    ),
    Mutant(
        "one device meets all experts of a token",
        EXPERTS,
        "least = ceil_div(every.least, self.spread)",
        "least = every.least",
    ),
    Mutant(
        "experts keep their width within a tensor group",
        EXPERTS,
        '"width": self._part("width", slices)',
        '"width": self.width',
    ),
    Mutant(
        "shared experts are held whole",
        EXPERTS,
        '"shared_width": self._part("shared_width", tensor)',
        '"shared_width": self.shared_width',
    ),
    Mutant(
        "each device of a tensor group sends all its tokens",
        EXPERTS,
        "copies = self.chosen * tokens / parallelism.tensor",
        "copies = self.chosen * tokens",
    ),
    Mutant(
        "only one replica's tokens meet at the experts",
        EXPERTS,
        "met = maximum(self.gathered * step.mean_tokens, tokens)",
        "met = tokens",
    ),
    Mutant(
        "the selection of a shared group is not added up",
        MAMBA,
        "if self.spread > 1:\n            size",
        "if self.spread > 99:\n            size",
    ),
    Mutant(
        "KV heads default to query heads",
        FAMILIES + "parts.py",
        'config.optional_count("num_key_value_heads", default) or heads',
        'config.optional_count("num_key_value_heads", None) or heads',
    ),
    Mutant(
        "a window is on by default",
        FAMILIES + "dense.py",
        '"use_sliding_window", False',
        '"use_sliding_window", True',
    ),
    Mutant(
        "ends are tied by default",
        FAMILIES + "parts.py",
        'config.flag("tie_word_embeddings", tied)',
        'config.flag("tie_word_embeddings", True)',
    ),
    Mutant(
        "queries and keys have no norm",
        FAMILIES + "dense.py",
        'head_dim=128, qk_norm="head"',
        "head_dim=128, qk_norm=None",
    ),
    Mutant(
        "the first dense layers are experts",
        FAMILIES + "sparse.py",
        "sparse if i >= start and i % step == 0",
        "sparse if i >= 0 and i % step == 0",
    ),
    Mutant(
        "a byte prefix of 1024",
        "sources/catalog.py",
        'return item["value"], _origin',
        'return item["value"] * 1.024, _origin',
    ),
    Mutant(
        "a price range that stands on its head",
        "sources/prices.py",
        "if self.low_per_hour > self.high_per_hour:",
        "if self.low_per_hour < 0:",
    ),
    Mutant(
        "the first token of a skewed choice meets no expert",
        EXPERTS,
        "missed = sum([(1 - p) ** tokens for",
        "missed = sum([(1 - p) ** (tokens - 1) for",
    ),
    Mutant(
        "small kernels of one layer stand for those of all",
        "work/forward.py",
        "sum([op.calls * op.activation_bytes for op in small])",
        "sum([op.activation_bytes for op in small])",
    ),
    Mutant(
        "prompts are as sure as tokens",
        DEVICE,
        "efficiency.prefill_band if self._prompts else",
        "efficiency.decode_band if self._prompts else",
    ),
    Mutant(
        "no kernel is carried over from other chips",
        "sources/efficiency.py",
        "near = tables if kind in carried",
        "near = tables[:1] if kind in carried",
    ),
    Mutant(
        "kernels are launched as on other chips",
        "sources/efficiency.py",
        '{"launch": table["launches"] * form["launch"]}',
        '{"launch": form["launch"]}',
    ),
    Mutant(
        "a user's cycle is all decoding",
        STEADY,
        "over = others * (1 + away / loop.steps) - (loop.users - 1)",
        "over = others - (loop.users - 1)",
    ),
    Mutant(
        "a user's cycle is counted in seconds",
        STEADY,
        "over = others * (1 + away / loop.steps) - (loop.users - 1)",
        "over = others * (1 + found.first / found.decoding) - (loop.users - 1)",
    ),
    Mutant(
        "prompts of one step do not wait for each other",
        STEADY,
        "wait, left, load = prompts_in_step(begin * (1 + fits) / 2, beside, 1), 0.0, begin * size",
        "wait, left, load = 0.0 * begin * fits, 0.0, begin * size",
    ),
    Mutant(
        "a second prompt costs a step what the first does",
        STEADY,
        "return [costs.one, *((b - a) / 2**i for i, (a, b) in enumerate(pairwise(known)))]",
        "return [costs.one] * len(known)",
    ),
    Mutant(
        "no prompt is left over for later steps",
        STEADY,
        "return maximum(square + kept**2 - kept, 0.0) / (2 * (1 - kept))",
        "return 0.0 * kept * square",
    ),
    Mutant(
        "who comes at any time waits for no step",
        STEADY,
        "first = busy * came.met / 2 + came.queue + beside.read",
        "first = came.queue + beside.read",
    ),
    Mutant(
        "those behind a prompt do not hold up its tokens",
        STEADY,
        "seen = maximum(begin + loop.rate * came.behind / loop.steps, 0.0)",
        "seen = begin",
    ),
    Mutant(
        "a chunk of a prompt is all of it",
        "answers/serving/costs.py",
        "one = (chunks * (longer[..., :kinds] + attention)) @ shares",
        "one = (longer[..., :kinds] + attention) @ shares",
    ),
    Mutant(
        "drafts cost nothing",
        "answers/serving/costs.py",
        "return speculation.tokens * time",
        "return 0.0 * time",
    ),
    Mutant(
        "contexts are a mean over requests",
        "answers/serving/workload.py",
        "weight = kinds.share * (kinds.output - 1)",
        "weight = kinds.share",
    ),
    Mutant(
        "keys and values move at no time",
        "answers/serving/pools.py",
        "return latency + max(stage.kv(one) + stage.state_bytes for stage in stages) / bandwidth",
        "return latency",
    ),
    Mutant(
        "who finds no room waits for nothing",
        "answers/serving/serve.py",
        "ttft + late + (users - held) / rate, rate)",
        "ttft + late, rate)",
    ),
    Mutant(
        "all chips of a stack are as fast as its first",
        "machine/stack.py",
        "_figure([chip.memory_bandwidth for chip in chips], axes)",
        "_figure([chips[0].memory_bandwidth for chip in chips], axes)",
    ),
    Mutant(
        "prompts and outputs both bear all of the cost",
        "answers/planning/record.py",
        "hourly * share / HOUR / rate * MILLION",
        "hourly / HOUR / rate * MILLION",
    ),
    Mutant(
        "a token takes a whole step",
        "answers/planning/solve.py",
        'own / (own + steps * numbers["plain"] / numbers["together"])',
        'own / (own + steps * numbers["plain"])',
    ),
    Mutant(
        "weights take no room from sequences",
        "answers/planning/candidates.py",
        "(capacity - weights) // each",
        "capacity // each",
    ),
    Mutant(
        "one replica too few is bought",
        "answers/planning/solve.py",
        "best = np.where(works(tried), np.minimum(tried, best), best)",
        "best = np.minimum(tried, best)",
    ),
    Mutant(
        "a chip wins at the price of its dearest plan",
        "answers/planning/whatif.py",
        "rival / min(spent)",
        "rival / max(spent)",
    ),
    Mutant(
        "the dearest hour comes first",
        "answers/planning/record.py",
        "spent = (measure(plan, by), ",
        "spent = (-measure(plan, by), ",
    ),
)


CONTROL = Mutant("none: the package as it is", OPERATION, "class Matrix(", "class Matrix(")


def survives(mutant: Mutant, original: Path, folder: Path) -> str | None:
    """What went wrong, or None if a test noticed the mistake."""
    shutil.copytree(original, folder)
    package = folder / "src" / "perfmodel"
    target = package / mutant.file
    text = target.read_text(encoding="utf-8")
    if text.count(mutant.old) != 1:
        return f"its line stands {text.count(mutant.old)} times in {mutant.file}"
    target.write_text(text.replace(mutant.old, mutant.new), encoding="utf-8")
    return _unnoticed(folder, mutant.nearest) and _unnoticed(folder, THEN)


def _unnoticed(folder: Path, tests: tuple[str, ...]) -> str | None:
    """How the tests ended, or None if one of them failed."""
    # CI: the same cases every time, so that no mutant lives or dies by luck.
    environment = dict(os.environ, PYTHONPATH=str(folder / "src"), CI="mutants")
    environment.pop("PYTHONDONTWRITEBYTECODE", None)  # compiled once, not for every mutant
    command = [sys.executable, "-m", "pytest", "-x", "-q", "-p", "no:cacheprovider"]
    done = subprocess.run(
        [*command, *(str(ROOT / "tests" / name) for name in tests)],
        cwd=ROOT,
        env=environment,
        capture_output=True,
        text=True,
        check=False,
        timeout=600,
    )
    # A test that fails, or tests that cannot even be collected.
    if done.returncode == 1 and ("failed" in done.stdout or " error" in done.stdout):
        return None
    return f"pytest ended with {done.returncode}: {done.stdout[-300:]}"


def main() -> None:
    """Run all mutants, or those whose mistake contains the first argument."""
    wanted = [m for m in MUTANTS if not sys.argv[1:] or sys.argv[1] in m.mistake]
    failures = 0
    with tempfile.TemporaryDirectory() as work, ThreadPoolExecutor(os.cpu_count()) as pool:
        original = Path(work) / "original"
        shutil.copytree(ROOT / "src" / "perfmodel", original / "src" / "perfmodel")
        shutil.copytree(ROOT / "catalogs", original / "catalogs")
        compileall.compile_dir(original, quiet=2)
        if survives(CONTROL, original, Path(work) / "control") is None:
            sys.exit("a test fails without any mistake: nothing that it kills counts")
        folders = [Path(work) / str(number) for number in range(len(wanted))]
        tried = pool.map(survives, wanted, repeat(original), folders)
        for mutant, problem in zip(wanted, tried, strict=True):
            print(f"{'killed' if problem is None else 'SURVIVED':<10}{mutant.mistake}", flush=True)
            if problem is not None:
                print(f"          {problem}")
                failures += 1
    print(f"{len(wanted) - failures} of {len(wanted)} mutants killed")
    sys.exit(1 if failures else 0)


if __name__ == "__main__":
    main()
