"""How fast 8 billion parameters can go, before anything is run.

Two figures of a chip (dense peak, bandwidth) and one of a model (its parameters) predict the
time of a step for any number of tokens in it, and where the limit changes sides.

Left out: KV cache, attention, activations, and everything that keeps an engine below the roofs.
The figures are ceilings.
"""

import perfmodel as pm

MODEL = pm.ModelShape.from_totals(params=8e9)

# Dense peaks [FLOP/s] and bandwidths [B/s] as the roofline articles state them: rounded, and the
# B200's at launch. The catalog, pm.gpu("h100-sxm"), is more exact and names its sources.
H100 = pm.GpuSpec(
    name="H100 SXM", memory_bandwidth=3.35e12, peak_flops={"bf16": 989e12, "fp8": 1978e12}
)
B200 = pm.GpuSpec(name="B200", memory_bandwidth=8e12, peak_flops={"bf16": 2250e12})
A100 = pm.GpuSpec(name="A100 SXM 80 GB", memory_bandwidth=2.039e12, peak_flops={"bf16": 312e12})
# Measured by part 3 of the "Word Factory" series: a two-core cloud CPU, float32.
CPU = pm.GpuSpec(name="two-core CPU", memory_bandwidth=12e9, peak_flops={"fp32": 121e9})


def print_steps() -> None:
    print(f"{'tokens':>6}{'step ms':>9}{'fetch ms':>10}{'math ms':>9}{'tokens/s':>10}  limit")
    for tokens in (1, 8, 64, 256, 512, 1024):
        step = pm.decode(MODEL, H100, batch=tokens, precision="bf16")
        print(
            f"{tokens:>6}{step.time * 1e3:>9.2f}{step.memory_time * 1e3:>10.2f}"
            f"{step.compute_time * 1e3:>9.2f}{step.tokens_per_second:>10,.0f}  {step.bound}"
        )


def print_formats() -> None:
    for format_name in ("bf16", "fp8"):
        precision = pm.Precision.uniform(format_name)
        step = pm.decode(MODEL, H100, batch=1, precision=precision)
        ridge = pm.ridge_batch(MODEL, H100, precision=precision)
        print(
            f"{format_name:<5}{MODEL.weight_bytes(precision) / 1e9:>3.0f} GB: "
            f"{step.time * 1e3:.2f} ms a token, at most {step.tokens_per_second:.0f} tokens/s; "
            f"the ridge needs {ridge:.0f} tokens a step"
        )


def print_ridges() -> None:
    print(f"{'chip':<16}{'FLOP/B':>8}")
    for chip, precision in ((H100, "bf16"), (B200, "bf16"), (A100, "bf16"), (CPU, "fp32")):
        ridge = pm.ridge_intensity(chip, precision=precision)
        print(f"{chip.name:<16}{ridge:>8.1f}  {precision}")


def main() -> None:
    print(f"8 billion parameters in bf16 on one {H100.name}, the weights alone")
    print_steps()
    print("\nOne user, fewer bytes a number: the time halves and the ridge stays where it is")
    print_formats()
    print("\nWhere the two roofs meet")
    print_ridges()


if __name__ == "__main__":
    main()
