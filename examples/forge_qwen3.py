"""Why one token of a small model takes a thousand times longer than its arithmetic.

Qwen3-0.6B is read from its config. Then it is one lump of parameters with a KV cache, as the
roofline chapter of the book about the engine "forge" counts it (A100, one sequence of 4,096
tokens); then it is the full list of its operations, and the difference is explained.

Left out: everything that keeps a real engine below the roofs.
"""

import perfmodel as pm

CONFIG = {
    "architectures": ["Qwen3ForCausalLM"],
    "model_type": "qwen3",
    "hidden_size": 1024,
    "intermediate_size": 3072,
    "num_hidden_layers": 28,
    "num_attention_heads": 16,
    "num_key_value_heads": 8,
    "head_dim": 128,
    "vocab_size": 151936,
    "max_position_embeddings": 40960,
    "tie_word_embeddings": True,
    "torch_dtype": "bfloat16",
}
A100 = pm.GpuSpec(name="A100 SXM 80 GB", memory_bandwidth=2.039e12, peak_flops={"bf16": 312e12})
CONTEXT = 4096
PROMPT = 512


def coarse(model: pm.ModelShape) -> pm.ModelShape:
    """The same parameters and the same cache, and nothing else known."""
    return pm.ModelShape.from_totals(
        params=model.params,
        layers=CONFIG["num_hidden_layers"],
        kv_heads=CONFIG["num_key_value_heads"],
        head_dim=CONFIG["head_dim"],
    )


def print_size(model: pm.ModelShape) -> None:
    print(
        f"{model.params:,} parameters, {model.weight_bytes() / 1e9:.3f} GB in bf16, "
        f"{model.kv_bytes_per_token():,.0f} B of KV a token"
    )


def print_decode(step: pm.Estimate) -> None:
    ridge = pm.ridge_intensity(A100, precision=step.precision)
    print(f"  moves {step.bytes / 1e9:.3f} GB: {step.memory_time * 1e3:.3f} ms")
    print(f"  math  {step.flops / 1e9:.3f} GFLOP: {step.compute_time * 1e6:.1f} us")
    print(
        f"  {step.tokens_per_second:,.0f} tokens/s, bound by {step.bound}, "
        f"compute busy {step.compute_utilization:.1%}"
    )
    print(f"  intensity {step.intensity:.2f} FLOP/B against a ridge of {ridge:.0f}")


def print_prefill(model: pm.ModelShape) -> None:
    step = pm.prefill(model, A100, prompt=PROMPT, weights_only=True)
    print(f"  {step.time * 1e3:.2f} ms, bound by {step.bound}")
    print(f"  intensity {step.intensity:.0f} FLOP/B")


def print_operations(step: pm.Estimate) -> None:
    print(f"  {'operation':<11}{'MFLOP':>9}{'MB':>9}{'FLOP/B':>8}  share of FLOPs")
    for row in step.rows():
        op = row.operation
        print(
            f"  {op.name:<11}{row.flops / 1e6:>9.1f}{row.bytes / 1e6:>9.1f}{op.intensity:>8.2f}"
            f"  {row.flops / step.flops:>6.1%}"
        )


def print_difference(full: pm.Estimate, lump: pm.Estimate) -> None:
    attention = sum(row.flops for row in full.rows() if row.operation.kind == "attention")
    without = (full.flops - attention) / full.bytes
    print(f"{attention / 1e9:.2f} GFLOP are attention, which a count of parameters does not see:")
    print(f"  without them {without:.2f} FLOP/B, with them {full.intensity:.2f}")
    print(f"  the bytes hardly change, and so the time: {full.time / lump.time - 1:+.1%}")


def main() -> None:
    model = pm.read_hf(CONFIG)
    lump = pm.decode(coarse(model), A100, batch=1, context=CONTEXT)
    full = pm.decode(model, A100, batch=1, context=CONTEXT)
    print_size(model)
    print(f"\nDecode at {CONTEXT:,} tokens on an {A100.name}, the model as one lump")
    print_decode(lump)
    print(f"\nA prompt of {PROMPT} tokens, the weights alone")
    print_prefill(coarse(model))
    print("\nThe same decode step, operation by operation")
    print_operations(full)
    print_decode(full)
    print_difference(full, lump)


if __name__ == "__main__":
    main()
