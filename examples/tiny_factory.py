"""How near a measured decode step came to its roof, predicted from a few widths.

Twelve ungated blocks of width 768 in float32 decode one token after 512 tokens of context on a
CPU whose bandwidth was measured at 12 GB/s; then 64 users do the same.

Left out: embedding and head (the model has none), norms, and any reuse in the CPU's caches. The
37.5 ms, 12 GB/s and 121 GFLOP/s were measured by part 3 of the "Word Factory" series.
"""

import perfmodel as pm

MODEL = pm.ModelShape.dense(
    name="tiny factory", layers=12, hidden=768, heads=12, ffn=3072, gated=False, norm=None
)
CPU = pm.GpuSpec(name="two-core CPU", memory_bandwidth=12e9, peak_flops={"fp32": 121e9})
CONTEXT = 512
MEASURED = 37.5e-3  # s


def print_step() -> None:
    step = pm.decode(MODEL, CPU, batch=1, context=CONTEXT, precision="fp32")
    tables, kv = step.weight_traffic, step.kv_traffic
    print(f"{'tables':<24}{tables / 1e6:>8.1f} MB   {MODEL.params:,} weights")
    print(f"{'KV of ' + str(CONTEXT) + ' tokens':<24}{kv / 1e6:>8.1f} MB")
    print(f"{'to fetch for a token':<24}{(tables + kv) / 1e6:>8.1f} MB")
    print(f"{'no faster than':<24}{step.floor * 1e3:>8.1f} ms   bound by {step.bound}")
    print(f"{'measured':<24}{MEASURED * 1e3:>8.1f} ms")
    print(f"{'share of the roof':<24}{step.floor / MEASURED:>8.0%}")


def print_users() -> None:
    print(f"{'users':>5}{'KV MB':>10}{'KV over tables':>16}{'no faster than':>16}")
    for users in (1, 8, 64):
        held = pm.memory(MODEL, CPU, batch=users, context=CONTEXT, precision="fp32")
        step = pm.decode(MODEL, CPU, batch=users, context=CONTEXT, precision="fp32")
        print(
            f"{users:>5}{held.kv / 1e6:>10,.1f}{held.kv / held.weights:>16.1f}"
            f"{step.floor * 1e3:>13,.1f} ms"
        )


def main() -> None:
    print_step()
    print("\nThe tables are shared, the KV is not")
    print_users()


if __name__ == "__main__":
    main()
