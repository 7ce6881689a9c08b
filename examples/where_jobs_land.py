"""Where each job of an LLM lands on the roofline chart: left or right of the ridge.

The jobs are those of a decode step, of a prompt, and of the small steps between the matrices;
the model is Llama-3.1-8B, the chips a two-core CPU in fp32 and an H100 in bf16.

A prompt of 256 tokens is past the CPU's ridge and short of the H100's: two-byte numbers double
its intensity, and the ridge lies 27 times further right.

Left out: the output head (in a prompt it runs for the last token alone) and the embedding lookup.
The FLOPs of a norm or an activation are nominal, a handful an element.
"""

from collections.abc import Iterator

import perfmodel as pm

MODEL = pm.model("llama-3.1-8b")
CONTEXT = 2048
# Measured by the roofline article of the "Word Factory" series; then the dense figures it uses.
CPU = pm.GpuSpec(name="two-core CPU", memory_bandwidth=15.0e9, peak_flops={"fp32": 164.3e9})
H100 = pm.GpuSpec(name="H100 SXM", memory_bandwidth=3.35e12, peak_flops={"bf16": 989e12})

TABLES = ("qkv", "output", "gate_up", "down")


def intensity(step: pm.Estimate, *names: str) -> float:
    """FLOPs per byte of some operations of a step, together [FLOP/B]."""
    rows = [row for row in step.rows() if row.operation.name in names]
    return sum(row.flops for row in rows) / sum(row.bytes for row in rows)


def jobs(chip: pm.GpuSpec, precision: str) -> Iterator[tuple[str, float]]:
    """Each job with its intensity [FLOP/B]."""

    def decode(users: int) -> pm.Estimate:
        asked = {"context": CONTEXT, "precision": precision, "small_steps": "separate"}
        return pm.decode(MODEL, chip, batch=users, **asked)

    def prompt(tokens: int) -> pm.Estimate:
        return pm.prefill(MODEL, chip, prompt=tokens, precision=precision)

    for users in (1, 8, 64, 512):
        yield f"tables, decode of {users}", intensity(decode(users), *TABLES)
    for tokens in (256, 1024):
        yield f"tables, prompt of {tokens}", intensity(prompt(tokens), *TABLES)
    for users in (1, 64):
        yield f"own KV, decode of {users}", intensity(decode(users), "attention")
    for name in ("residual", "activation", "norm"):
        yield f"small step, {name}", intensity(decode(1), name)


def print_chart(chip: pm.GpuSpec, precision: str) -> None:
    ridge = pm.ridge_intensity(chip, precision=precision)
    print(f"{chip.name}, {precision}: ridge at {ridge:.1f} FLOP/B")
    print(f"  {'job':<24}{'FLOP/B':>8}  {'side':<15}{'roof':>14}")
    for job, found in jobs(chip, precision):
        side = "left, memory" if found <= ridge else "right, compute"
        speed = pm.units.si(pm.roof(chip, intensity=found, precision=precision), "FLOP/s")
        print(f"  {job:<24}{found:>8.2f}  {side:<15}{speed:>14}")
    print()


def print_ratios() -> None:
    bandwidth = H100.memory_bandwidth / CPU.memory_bandwidth
    math = H100.peak("bf16") / CPU.peak("fp32")
    ridge = pm.ridge_intensity(H100, precision="bf16") / pm.ridge_intensity(CPU, precision="fp32")
    print(
        f"H100 over CPU: bandwidth {bandwidth:,.0f} times, math {math:,.0f} times, "
        f"so the ridge lies {ridge:.0f} times further right."
    )


def main() -> None:
    print_chart(CPU, "fp32")
    print_chart(H100, "bf16")
    print_ratios()


if __name__ == "__main__":
    main()
