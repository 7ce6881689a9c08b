"""Does a wrong formula fail? Deliberate mistakes, each of which the tests must notice.

Run as a script: every mutant is the package with one line changed, in a folder of its own, and
the physics tests run against it. A mutant that survives, or whose line is gone, is an error.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).resolve().parents[1]
FIRST = ("test_witnesses.py", "test_conventions.py")  # kills most, and starts fast
THEN = (
    "test_proofs.py",
    "test_catalog.py",
    "test_errors.py",
    "test_huggingface.py",
    "test_worlds.py",
    "test_invariants.py",
)


class Mutant(NamedTuple):
    """A mistake: in ``file``, ``old`` becomes ``new``."""

    mistake: str
    file: str
    old: str
    new: str


ATTENTION = "work/layers/attention.py"
LAYER = "work/layers/layer.py"
OPERATION = "work/operation.py"
ESTIMATE = "answers/estimate.py"
PRECISION = "base/precision.py"
HF = "sources/huggingface.py"

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
        "weight_bytes=weight_bytes,",
        "weight_bytes=tokens * weight_bytes,",
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
        "flops=2 * self.query_width * twice_pairs",
        "flops=self.query_width * twice_pairs",
    ),
    Mutant(
        "the full square instead of the causal triangle",
        ATTENTION,
        "return new * (2 * past + new + 1)",
        "return 2 * new * (past + new)",
    ),
    Mutant(
        "grouped queries are ignored",
        ATTENTION,
        "return 2 * self.kv_heads * self.head_dim",
        "return 2 * self.heads * self.head_dim",
    ),
    Mutant(
        "values are forgotten beside keys",
        ATTENTION,
        "return 2 * self.kv_heads * self.head_dim",
        "return self.kv_heads * self.head_dim",
    ),
    Mutant(
        "the window clips no pair",
        ATTENTION,
        "+ 2 * (new - whole) * window",
        "+ 2 * (new - whole) * (past + new)",
    ),
    Mutant(
        "the window does not bound the cache",
        ATTENTION,
        "context = minimum(context, window)",
        "context = maximum(context, window)",
    ),
    Mutant(
        "the window does not bound the traffic",
        ATTENTION,
        "past = minimum(past, window - 1)",
        "past = maximum(past, window - 1)",
    ),
    Mutant(
        "the new token is not written to the cache",
        ATTENTION,
        "return shared + group.count * (past - shared + new)",
        "return shared + group.count * (past - shared)",
    ),
    Mutant(
        "a shared prefix is read by everyone",
        ATTENTION,
        "return shared + group.count * (past - shared + new)",
        "return group.count * (past + new)",
    ),
    Mutant(
        "the output projection is square",
        ATTENTION,
        '"output", self.query_width',
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
        "yield model.head.project(hidden, vocab, positions, precision)",
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
        "yield from layer.operations(hidden, step, precision, repeats)",
        "yield from layer.operations(hidden, step, precision, 1)",
    ),
    Mutant(
        "the embedding table is read whole",
        "work/layers/embedding.py",
        "weight_bytes=0,",
        "weight_bytes=precision.rest.nbytes(hidden * 128256),",
    ),
    Mutant(
        "tied weights count twice",
        "work/layers/embedding.py",
        "norm_params(self.norm, hidden) + (0 if self.tied else hidden * vocab)",
        "norm_params(self.norm, hidden) + hidden * vocab",
    ),
    Mutant(
        "tied weights are held twice",
        "work/layers/embedding.py",
        "table = 0 if self.tied else precision",
        "table = precision",
    ),
    Mutant(
        "learned positions have no weights",
        "work/layers/embedding.py",
        "return (vocab + (self.positions or 0)) * hidden",
        "return vocab * hidden",
    ),
    Mutant(
        "attention moves what linears read",
        ATTENTION,
        "precision.linear.outputs.nbytes(self.query_width, 1)",
        "precision.linear.inputs.nbytes(self.query_width, 1)",
    ),
    Mutant(
        "the window does not clip new tokens",
        ATTENTION,
        "new = minimum(new, window)",
        "new = maximum(new, window)",
    ),
    Mutant(
        "a window reads all of a shared prefix",
        ATTENTION,
        "shared = maximum(shared - maximum(past + 1 - window, 0), 0)",
        "shared = minimum(shared, past)",
    ),
    Mutant(
        "a tie is compute",
        ESTIMATE,
        "where(self.compute_time > self",
        "where(self.compute_time >= self",
    ),
    Mutant(
        "norms of queries and keys are no step",
        ATTENTION,
        "        if self.qk_norm:\n            yield norm_step(",
        "        if False:\n            yield norm_step(",
    ),
    Mutant(
        "fp8 attention computes in fp8",
        PRECISION,
        '"fp8": (("fp8", "fp8", "bf16", "fp8"), _HALF, "bf16", "bf16")',
        '"fp8": (("fp8", "fp8", "bf16", "fp8"), _HALF, "bf16", "fp8")',
    ),
    Mutant("a gigabyte is 2**30", "base/units.py", "GB: Final = 1e9", "GB: Final = 2.0**30"),
    Mutant("a LayerNorm has no shift", LAYER, '{"rms": 1, "layer": 2}', '{"rms": 1, "layer": 1}'),
    Mutant(
        "fp8 takes two bytes",
        PRECISION,
        '("fp8", 8, 0, None)',
        '("fp8", 16, 0, None)',
    ),
    Mutant(
        "int4 has no scales",
        PRECISION,
        '("int4-g128", 4, 16, 128)',
        '("int4-g128", 4, 0, None)',
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
    Mutant("integers wrap around in a sweep", "base/_num.py", "dtype=np.float64", "dtype=np.int32"),
    Mutant(
        "calls are forgotten",
        ESTIMATE,
        "OperationTime(op, calls * compute, calls * memory, calls * time)",
        "OperationTime(op, calls * compute, calls * memory, time)",
    ),
    Mutant(
        "activations are compulsory",
        ESTIMATE,
        "compulsory = self.sums.weight_bytes + self.sums.kv_bytes",
        "compulsory = self.bytes * 1.5",
    ),
    Mutant(
        "an efficiency is a speed-up",
        "machine/efficiency.py",
        "compute / self.compute, memory / self.memory",
        "compute * self.compute, memory * self.memory",
    ),
    Mutant(
        "the roofs join below the larger",
        "machine/efficiency.py",
        "(1 + ratio**self.exponent)",
        "(1 - ratio**self.exponent)",
    ),
    Mutant(
        "the overhead of a call is forgotten",
        "machine/efficiency.py",
        "** (1 / self.exponent) + self.call_overhead",
        "** (1 / self.exponent)",
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
        "answers/memory.py",
        "self.weights + self.kv + self.state",
        "self.weights",
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
    Mutant(
        "KV heads default to query heads",
        HF,
        "_kv_heads(config, 8)",
        "_kv_heads(config, 32)",
    ),
    Mutant(
        "a window is on by default", HF, '"use_sliding_window", False', '"use_sliding_window", True'
    ),
    Mutant(
        "ends are tied by default",
        HF,
        '"tie_word_embeddings", False',
        '"tie_word_embeddings", True',
    ),
    Mutant("queries and keys have no norm", HF, "qk_norm=True", "qk_norm=False"),
    Mutant(
        "a byte prefix of 1024",
        "sources/catalog.py",
        'return item["value"], _origin',
        'return item["value"] * 1.024, _origin',
    ),
)


CONTROL = Mutant("none: the package as it is", OPERATION, "class Matrix(", "class Matrix(")


def survives(mutant: Mutant, folder: Path) -> str | None:
    """What went wrong, or None if a test noticed the mistake."""
    package = folder / "src" / "perfmodel"
    shutil.copytree(ROOT / "src" / "perfmodel", package)
    shutil.copytree(ROOT / "catalogs", folder / "catalogs")
    target = package / mutant.file
    text = target.read_text(encoding="utf-8")
    if text.count(mutant.old) != 1:
        return f"its line stands {text.count(mutant.old)} times in {mutant.file}"
    target.write_text(text.replace(mutant.old, mutant.new), encoding="utf-8")
    return _unnoticed(folder, FIRST) and _unnoticed(folder, THEN)


def _unnoticed(folder: Path, tests: tuple[str, ...]) -> str | None:
    """How the tests ended, or None if one of them failed."""
    # CI: the same cases every time, so that no mutant lives or dies by luck.
    environment = dict(os.environ, PYTHONPATH=str(folder / "src"), CI="1")
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
    if done.returncode == 1 and "failed" in done.stdout:
        return None
    return f"pytest ended with {done.returncode}: {done.stdout[-300:]}"


def main() -> None:
    """Run all mutants, or those whose mistake contains the first argument."""
    wanted = [m for m in MUTANTS if not sys.argv[1:] or sys.argv[1] in m.mistake]
    failures = 0
    with tempfile.TemporaryDirectory() as work, ThreadPoolExecutor(os.cpu_count()) as pool:
        if survives(CONTROL, Path(work) / "control") is None:
            sys.exit("a test fails without any mistake: nothing that it kills counts")
        folders = [Path(work) / str(number) for number in range(len(wanted))]
        for mutant, problem in zip(wanted, pool.map(survives, wanted, folders), strict=True):
            print(f"{'killed' if problem is None else 'SURVIVED':<10}{mutant.mistake}", flush=True)
            if problem is not None:
                print(f"          {problem}")
                failures += 1
    print(f"{len(wanted) - failures} of {len(wanted)} mutants killed")
    sys.exit(1 if failures else 0)


if __name__ == "__main__":
    main()
