"""Four cards can be one fast server or four, and neither is best.

Somebody found gpt-oss-120b slower on two and on four A100s than on one: 90 tokens/s for a single
user, then 77 to 78 (vLLM issue 22331, 2025). A token reads 4.97 GB of active weights, 410 times a
second at 2.039 TB/s. Four cards read their parts in less time than they need for the 72 sums, one
after each half of a block, and the few between.

What four cards are for are more users.

Left out: that kernels for 4-bit experts were new when this was measured, far from any roof.
"""

import perfmodel as pm

MODEL, A100 = pm.model("gpt-oss-120b"), pm.gpu("a100-sxm-80gb")
MEASURED = {1: "90", 2: "77 to 78", 4: "77 to 78"}
# Assumed: 15 us for each sum, as others found (41 us without direct copies between cards).
SLOW = pm.Efficiency(link=pm.LinkEfficiency(launch=15e-6, share=0.8))


def print_single_user() -> None:
    print(f"{'cards':>5}{'at the roofs':>14}{'15 us a sum':>13}   measured")
    for cards in (1, 2, 4):
        ways = pm.Parallelism(tensor=cards)
        fast, slow = (
            pm.decode(MODEL, A100, batch=1, context=1, parallelism=ways, **known).tokens_per_second
            for known in ({}, {"efficiency": SLOW})
        )
        print(f"{cards:>5}{fast:>14.0f}{slow:>13.0f}   {MEASURED[cards]}")


def print_many_users() -> None:
    work = pm.Workload(prompt=2000, output=500, concurrency=1)
    found = pm.largest_load(
        MODEL, work, slo=pm.Slo(ttft=2.0, tpot=0.050), devices=4, gpus="a100-sxm-80gb",
        parallelisms=[pm.Parallelism(tensor=n) for n in (1, 2, 4)], pools="together",
        engine="vllm",
    )  # fmt: skip
    for plan in found.feasible:
        print(
            f"{plan.division:<27}{plan.workload.concurrency:>5.0f} users"
            f"{plan.output_tokens_per_second:>7,.0f} tokens/s, limit {plan.binding}"
        )


def main() -> None:
    print(f"{MODEL.name} on A100s, one user, tokens/s")
    print_single_user()
    print("\nFour cards, 2,000 tokens in and 500 out, 2 s to the first token, 50 ms a token")
    print_many_users()


if __name__ == "__main__":
    main()
