"""A card serves as many users as it holds, or as many as it is fast enough for.

An article counts 49 users of 10,000 tokens for an 8-billion-parameter model on an A100 with 80 GB:
64 GB beside the weights, 0.00013 GB a token, 492,000 tokens (doubleword.ai, "Behind the stack",
episode 2). Unrounded they are 488,281 tokens and 48 users, and an engine keeps a tenth of the card
for itself: some 449,000 tokens, 44 users.

But users who are held are not users who are content: how many are served in time?
"""

import perfmodel as pm

COARSE = pm.ModelShape.from_totals(params=8e9, kv_bytes_per_token=131_072)
ROUND = pm.GpuSpec(
    name="80 GB", memory_bandwidth=2.039e12, memory_capacity=80e9, peak_flops={"bf16": 312e12}
)
MODEL, A100 = pm.model("llama-3.1-8b"), pm.gpu("a100-sxm-80gb")
CONTEXT, OUTPUT = 10_000, 500


def print_held() -> None:
    for title, model, chip, policy in (
        ("round figures", COARSE, ROUND, "logical"),
        ("the model, all of the card", MODEL, A100, "logical"),
        ("the model, under vLLM", MODEL, A100, "vllm"),
    ):
        tokens = pm.max_tokens(model, chip, context=CONTEXT, policy=policy)
        users = pm.max_batch(model, chip, context=CONTEXT, policy=policy)
        print(f"{title:<28}{tokens:>9,} tokens{users:>4} users")


def print_served() -> None:
    work = pm.Workload(prompt=CONTEXT - OUTPUT, output=OUTPUT, concurrency=1)
    print(f"{'a token in':>10}{'users':>7}{'tokens/s':>10}  limit")
    for tpot in (0.025, 0.050, 0.100, 0.200):
        best = pm.largest_load(
            MODEL, work, slo=pm.Slo(tpot=tpot), devices=1, gpus="a100-sxm-80gb", engine="vllm",
            policy="vllm",
        ).best  # fmt: skip
        print(
            f"{tpot * 1e3:>7.0f} ms{best.workload.concurrency:>7.0f}"
            f"{best.output_tokens_per_second:>10,.0f}  {best.binding}"
        )


def main() -> None:
    print(f"{MODEL.name} on one A100: users of {CONTEXT:,} tokens that it holds")
    print_held()
    print(f"\nand that it serves, {CONTEXT - OUTPUT:,} tokens in and {OUTPUT} out")
    print_served()


if __name__ == "__main__":
    main()
