"""Which roof stops each job of a CPU, and how near to its roof each job comes.

A table of 10,000 x 10,000 float32 numbers meets 1 to 512 tokens, users read their own KV, two
lists are added. The library counts FLOPs and bytes, the chip's two measured roofs give the best
speed, and what was measured stands beside it.

Measured figures are those of the roofline article of the "Word Factory" series (part 4: float32
NumPy on a two-core cloud CPU, every job too large for its caches). Left out: whatever keeps a
real job below its roof.
"""

import perfmodel as pm

FP32 = pm.Precision.preset("fp32")
CPU = pm.GpuSpec(name="two-core CPU", memory_bandwidth=15.0e9, peak_flops={"fp32": 164.3e9})
# The article prints 15.0 GB/s, and roofs that follow from the figure before rounding: 14.96 GB/s
# gives all of them.
UNROUNDED = CPU.model_copy(update={"memory_bandwidth": 14.96e9})

# Measured [GFLOP/s]; the article's KV job is the scores alone, k @ q over 25 MB of keys.
TOKENS = (1, 2, 4, 8, 16, 32, 64, 128, 256, 512)
TABLE_MEASURED = (7.7, 6.4, 14.2, 27.7, 49.5, 77.6, 103.1, 118.8, 143.2, 156.0)
KV_MEASURED = {16: 6.9, 64: 6.6}
ADDITION_MEASURED = 0.8

# One layer whose heads each have their own keys and values: 25 MB at 4,096 tokens.
OWN_KV = pm.ModelShape.dense(layers=1, hidden=768, heads=12, ffn=3072)
CONTEXT = 4096
LLAMA = pm.model("llama-3.1-8b")


def table(tokens: int) -> pm.Operation:
    """Tokens through the table of 400 MB."""
    return pm.gemm(inner=10_000, outer=10_000, tokens=tokens, precision=FP32)


def kv_read(model: pm.ModelShape, users: int) -> pm.Operation:
    """One query of each user over that user's own KV."""
    step = pm.decode(model, CPU, batch=users, context=CONTEXT, precision=FP32)
    return next(op for op in step.operations if op.kind == "attention")


def addition() -> pm.Operation:
    """Two lists read, one written: the residual addition of a block."""
    step = pm.decode(OWN_KV, CPU, batch=1, context=1, precision=FP32, small_steps="separate")
    return next(op for op in step.operations if op.name == "residual")


def best(op: pm.Operation, chip: pm.GpuSpec = CPU) -> float:
    """The roof above an operation [FLOP/s]."""
    return pm.roof(chip, intensity=op.intensity, precision=FP32)


def print_table() -> None:
    print(f"{'tokens':>6}{'FLOP/B':>9}{'roof':>8}{'article':>9}{'measured':>10}{'share':>7}")
    for tokens, measured in zip(TOKENS, TABLE_MEASURED, strict=True):
        op = table(tokens)
        print(
            f"{tokens:>6}{op.intensity:>9.2f}{best(op) / 1e9:>8.1f}"
            f"{best(op, UNROUNDED) / 1e9:>9.1f}{measured:>10.1f}{measured * 1e9 / best(op):>7.0%}"
        )
    print("speeds in GFLOP/s; 'article': the roofs it prints, those of 14.96 GB/s")


def print_kv() -> None:
    print(f"{'users':>6}{'FLOP/B':>9}{'roof':>8}{'measured':>10}{'share':>7}")
    for users, measured in KV_MEASURED.items():
        op = kv_read(OWN_KV, users)
        print(
            f"{users:>6}{op.intensity:>9.2f}{best(op) / 1e9:>8.1f}"
            f"{measured:>10.1f}{measured * 1e9 / best(op):>7.0%}"
        )
    print(f"{'query heads':>12}{'KV heads':>10}{'FLOP/B':>9}  Llama-3.1-8B, any number of users")
    for kv_heads in (32, 8):
        op = kv_read(LLAMA.with_(kv_heads=kv_heads), users=16)
        print(f"{32:>12}{kv_heads:>10}{op.intensity:>9.2f}")


def print_addition() -> None:
    op = addition()
    print(f"1 FLOP per {op.nbytes / op.flops:.0f} bytes, {op.intensity:.3f} FLOP/B")
    print(f"roof {best(op) / 1e9:.2f} GFLOP/s, measured {ADDITION_MEASURED}")


def main() -> None:
    ridge = pm.ridge_intensity(CPU, precision=FP32)
    print(f"15.0 GB/s and 164.3 GFLOP/s meet at {ridge:.2f} FLOP/B")
    print("\nA table of 10,000 x 10,000, shared by all tokens")
    print_table()
    print("\nEach user's own KV, shared by none")
    print_kv()
    print("\nAdding two lists")
    print_addition()


if __name__ == "__main__":
    main()
