"""Four bits a weight are a quarter of the bytes, and not four times the throughput.

Somebody hoped for four times the tokens of gemma-2-9b on an A100 and got 1.16 times: 4,267.62
tokens/s in float16 and 4,963.73 with AWQ, at most 32 requests in a step and prompts of up to
3,000 tokens (TensorRT-LLM issue 2329, 2024).

Only the reading of weights shrinks, and of them not the vocabulary of 256,000. Prompts are
arithmetic, which AWQ leaves in 16 bits, and the cache of 32 requests is as large as before.

Assumed: prompts of 1,500 tokens on average and 200 out, for the lengths are not told.
"""

import perfmodel as pm

MODEL = pm.model("gemma-2-9b")
WORK = pm.Workload(prompt=1500, output=200, concurrency=32)
MEASURED = 4963.73 / 4267.62


def gains() -> dict[str, float]:
    """How many times as many tokens a second."""
    a100 = pm.gpu("a100-sxm-80gb")

    def steps(batch: int) -> float:
        long, short = (
            pm.decode(MODEL, a100, batch=batch, context=1700, precision=precision).time
            for precision in ("bf16", "w4a16")
        )
        return long / short

    full, half = (
        pm.serve(MODEL, a100, WORK, precision=precision).output_tokens_per_second
        for precision in ("bf16", "w4a16")
    )
    return {
        "a decode step of 1": steps(1),
        "a decode step of 32": steps(32),
        "32 requests, prompts too": half / full,
        "measured": MEASURED,
    }


def print_small_cards() -> None:
    chat = WORK.model_copy(update={"concurrency": 100})
    found = pm.plan(
        MODEL, chat, slo=pm.Slo(ttft=3.0, tpot=0.1), gpus=["a100-sxm-80gb", "l4", "l40s"],
        precisions=["bf16", "w4a16"], pools="together", engine="vllm",
    )  # fmt: skip
    seen = set()
    for plan in found.feasible:
        if (plan.gpu, plan.precision) not in seen:
            seen.add((plan.gpu, plan.precision))
            print(
                f"{plan.devices:>2} x {plan.gpu.key:<14}{plan.precision.name:<7}"
                f"{plan.cost_per_hour:>6.2f} USD/h, {plan.cost_per_million:.3f} USD a million"
            )


def main() -> None:
    print(f"{MODEL.name}, four bits in place of sixteen, at the roofs of an A100")
    for name, gain in gains().items():
        print(f"{name:<26}{gain:5.2f} times")
    print("\n100 users, 3 s to the first token, 100 ms a token: what to buy")
    print_small_cards()


if __name__ == "__main__":
    main()
