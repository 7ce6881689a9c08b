"""What six measured steps say about an engine, and about steps that nobody timed.

Llama 3 8B with llama.cpp on one A100 SXM, one user: milliseconds a token, as the
repository "GPU Benchmarks on LLM Inference" (XiongjieDai, 2024) publishes them. Contexts up to
2,048 tokens are fitted to; those of 4,096 are not.

Left out: prompts, more than one user, other builds of the engine.
"""

import pandas as pd

import perfmodel as pm

A100 = pm.gpu("a100-sxm-80gb")
LLAMA = pm.model("llama-3-8b")
# Precision, context [tokens], measured [ms].
MEASURED = (
    ("bf16", 256, 18.70),
    ("bf16", 512, 18.80),
    ("bf16", 2048, 19.22),
    ("q4_k_m", 256, 7.405),
    ("q4_k_m", 512, 7.497),
    ("q4_k_m", 2048, 7.994),
)
LONGER = (("bf16", 4096, 19.79), ("q4_k_m", 4096, 8.627))


def fitted() -> pm.Calibration:
    table = pd.DataFrame(
        {"phase": "decode", "precision": precision, "context": context, "seconds": ms * 1e-3}
        for precision, context, ms in MEASURED
    )
    return pm.calibrate(table, A100, model=LLAMA, base="ideal", source="six published steps")


def print_steps(known: pm.Efficiency) -> None:
    print(f"{'':8}{'context':>8}{'measured':>10}{'roofs':>8}{'fitted':>8}  ms")
    for precision, context, ms in (*MEASURED, *LONGER):
        at_roofs, expected = (
            pm.decode(
                LLAMA, A100, batch=1, context=context, precision=precision, efficiency=efficiency
            ).time
            for efficiency in ("ideal", known)
        )
        print(
            f"{precision:<8}{context:>8}{ms:>10.2f}{at_roofs * 1e3:>8.2f}{expected * 1e3:>8.2f}"
            f"  {expected * 1e3 / ms - 1:+.0%}"
        )


def main() -> None:
    found = fitted()
    (fit,) = found.fits
    told = {one.name: one.value for one in fit.parameters if one.found}
    print("told by the rows:", ", ".join(told))
    for name, value in told.items():
        if name == "memory":
            print(f"share of the bandwidth {value:.0%}")
        if name == "constant":
            print(f"a step adds {value * 1e3:.1f} ms: {value / LLAMA.layers * 1e6:.0f} us a layer")
    print_steps(found.efficiency)


if __name__ == "__main__":
    main()
