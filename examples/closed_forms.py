"""Which batch, which context, which format: the answers as formulas.

The formulas that give numbers are run on symbols and solved: B sequences, S tokens of context, a
k x n matrix, a step time t, a chip with peak F (2F in 8 bits) and bandwidth beta, a model with L
blocks of width d, h query heads and g KV heads of width d_h, inner width f and vocabulary V. Where
a model or a chip of numbers is given, its symbols are gone.

Left out: activations (but for the single matrix), and what keeps a real chip below its roofs.
"""

import perfmodel as pm

LLAMA = pm.model("llama-3.1-8b")
H100 = pm.GpuSpec(
    name="H100 SXM",
    memory_bandwidth=3.35e12,
    memory_capacity=80e9,
    peak_flops={"bf16": 989e12, "fp8": 1978e12},
)


def show(form: pm.symbolic.ClosedForm, **values: float) -> None:
    """Print a closed form, and its value where all its symbols have one."""
    print(f"{form.meaning} [{form.unit}]\n  {form.expression}")
    if set(values) == set(form.symbols):
        at = ", ".join(f"{name} = {value:g}" for name, value in values.items())
        print(f"  = {form(**values):,.1f}" + (f" at {at}" if at else ""))


def print_one_matrix() -> None:
    form = pm.symbolic.gemm_ridge_batch()
    show(form)
    print(f"  in LaTeX: {form.latex}")
    show(pm.symbolic.gemm_ridge_batch(gpu=H100), k=4096, n=4096)


def print_formats() -> None:
    print(f"{'wide matrix, precision':<24}{'ridge in tokens':<17}over bf16")
    bf16 = pm.symbolic.wide_gemm_ridge_batch(precision="bf16").expression
    for name in ("bf16", "fp8", "uniform-fp8", "int8", "w8a16", "w4a16"):
        ridge = pm.symbolic.wide_gemm_ridge_batch(precision=name).expression
        print(f"{name:<24}{ridge!s:<17}{ridge / bf16}")


def print_attention() -> None:
    show(pm.symbolic.attention_intensity())
    show(pm.symbolic.limit_of_attention_intensity())
    try:
        pm.symbolic.attention_ridge_batch(model=LLAMA, gpu=H100)
    except pm.errors.NoRidgeError as error:
        print(f"no ridge batch, for Llama-3.1-8B on an H100\n  {error}")


def print_step() -> None:
    show(pm.symbolic.critical_context())
    show(pm.symbolic.step_ridge_batch(model=LLAMA))
    show(pm.symbolic.step_ridge_batch(model=LLAMA, gpu=H100), S=256)
    show(pm.symbolic.critical_context(model=LLAMA))
    show(pm.symbolic.critical_context(model=LLAMA, gpu=H100))


def print_limits() -> None:
    show(pm.symbolic.kv_overtakes_weights(model=LLAMA), S=4096)
    show(pm.symbolic.max_batch_for_time(model=LLAMA, gpu=H100), t=0.010, S=4096)
    show(pm.symbolic.max_context_for_capacity(model=LLAMA, gpu=H100), B=16)


def main() -> None:
    for title, part in (
        ("One matrix", print_one_matrix),
        ("Fewer bits a number", print_formats),
        ("Attention", print_attention),
        (f"A decode step of {LLAMA.name}", print_step),
        ("Memory and time", print_limits),
    ):
        print(f"-- {title} --")
        part()
        print()


if __name__ == "__main__":
    main()
