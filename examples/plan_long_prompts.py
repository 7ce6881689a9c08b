"""More requests at once are not more tokens where their prompts fill the memory.

Somebody ran Llama-3.3-70B in FP8 on one H200 with 32 requests at once, each of 16,384 tokens and
512 out, and lost 41 % of the throughput: requests were thrown out and read again (TensorRT-LLM
issue 16827, 2026). How many fit, and how many cards would hold all of them?

Left out: what an engine keeps for itself but where its name is given.
"""

import perfmodel as pm

MODEL = pm.model("llama-3.3-70b")
H200 = pm.gpu("h200-sxm")
USERS, PROMPT, OUTPUT = 32, 16_384, 512


def print_room() -> None:
    print(f"{'':<10}{'a token':>12}{'32 requests':>13}{'room':>6}{'vLLM':>6}")
    for precision in ("fp8+kv8", "fp8"):
        held = pm.memory(MODEL, H200, batch=USERS, context=PROMPT + OUTPUT, precision=precision)
        room, less = (
            pm.max_batch(MODEL, H200, context=PROMPT + OUTPUT, precision=precision, policy=policy)
            for policy in ("logical", "vllm")
        )
        each = MODEL.kv_bytes_per_token(precision)
        print(f"{precision:<10}{each:>10,.0f} B{held.kv / 1e9:>10.1f} GB{room:>6}{less:>6}")


def print_plans() -> None:
    work = pm.Workload(prompt=PROMPT, output=OUTPUT, concurrency=USERS)
    for precision in ("fp8+kv8", "fp8"):
        plans = pm.plan(
            MODEL, work, slo=pm.Slo(ttft=5.0, tpot=0.1), gpus="h200-sxm", precisions=precision,
            engine="vllm", policy="vllm", pools="together",
        )  # fmt: skip
        for plan in plans.feasible[:2]:
            print(
                f"{precision:<8}{plan.devices} x H200, {plan.division}: room for {plan.capacity}, "
                f"{plan.ttft:.2f} s, {plan.tpot * 1e3:.0f} ms a token, "
                f"{plan.output_tokens_per_second:.0f} tokens/s"
            )


def main() -> None:
    print(f"{USERS} requests of {PROMPT:,} + {OUTPUT} tokens, {MODEL.name} in FP8, one H200")
    print_room()
    print("\nCards that hold all of them, at 5 s to the first token and 100 ms a token")
    print_plans()


if __name__ == "__main__":
    main()
