"""What holds eight users of 131,072 tokens, and what does it cost.

A guide counts the cache of Llama-3.1-70B for one user and for eight (spheron.network, "KV cache
optimization"): 1.3 GB at 4,096 tokens and 42.9 at 131,072, 343 for eight, beside 141 GB of
weights. They are decimal GB: 131,072 tokens are 40.0 GiB exactly.

Of the whole catalog, what is the cheapest that holds them, begins within half a minute and writes
ten tokens a second to each?
"""

import perfmodel as pm

MODEL = pm.model("llama-3.1-70b")


def print_caches() -> None:
    each = MODEL.kv_bytes_per_token()
    print(f"{each:,.0f} B a token; weights {MODEL.weight_bytes() / 1e9:.0f} GB")
    for context in (4_096, 16_384, 32_768, 131_072):
        one = MODEL.cache_bytes(context)
        print(
            f"{context:>9,} tokens{one / 1e9:>8.2f} GB, {one / 2**30:>5.2f} GiB, "
            f"of eight users{8 * one / 1e9:>8.1f} GB"
        )


def print_plans() -> None:
    work = pm.Workload(prompt=130_072, output=1000, concurrency=8)
    found = pm.plan(MODEL, work, slo=pm.Slo(ttft=30, tpot=0.1), engine="vllm", pools="together")
    print(f"{len(found.feasible):,} of {len(found):,} candidates do")
    for plan in [plan for plan in found.by_chip if plan.feasible and plan.price][:5]:
        print(
            f"{plan.devices:>3} x {plan.gpu.key:<15}{plan.cost_per_hour:>7.2f} USD/h, "
            f"{plan.ttft:>4.1f} s, {plan.tpot * 1e3:>3.0f} ms a token, {plan.division}"
        )


def main() -> None:
    print(f"{MODEL.name} in bf16")
    print_caches()
    print("\nEight users of 131,072 tokens, 30 s to the first, 100 ms each: the best of each chip")
    print_plans()


if __name__ == "__main__":
    main()
