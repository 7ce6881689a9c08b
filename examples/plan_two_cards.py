"""Two cards read half as much each, and are not twice as fast: 1.71 times.

Somebody ran Qwen3.5-9B in bf16 on one card of 1.79 TB/s and on two, for one user, 128 tokens in and
64 out: 11.56 and 6.76 ms a token (public log 55002292133, 2026). Each of 32 blocks sums its halves
twice, so that a token waits for 64 sums, and for one at each end. There are no direct copies
between the cards, and a sum of so few numbers takes some 15 us, however fast the link.

The share of the bandwidth that kernels reach is that of the measured single card, 77 %. The 15 us
of a sum were worked out from these very two cards, so that their time is explained here and not
foretold; that of four is.

Left out: the picture tower, 1 GB that no token reads; the host, which is a part of the 77 % and
does not halve; that a share falls as each card's matrices get smaller.
"""

import perfmodel as pm

CARD = pm.gpu("rtx-5090")
MEASURED = {1: 11.56e-3, 2: 6.76e-3}  # s a token
LINEAR = pm.layers.GatedDeltaNet(key_heads=16, value_heads=32, key_dim=128, value_dim=128)
FULL = pm.Attention(heads=16, kv_heads=4, head_dim=256, gate="value")
NETWORK = pm.FeedForward(width=12_288)
MODEL = pm.ModelShape(
    name="Qwen3.5-9B",
    hidden=4096,
    vocab=248_320,
    embedding=pm.Embedding(),
    head=pm.Head(),
    blocks=((24, (LINEAR, NETWORK)), (8, (FULL, NETWORK))),
)
CONTEXT = 128 + 32  # tokens in the middle of the answer


def token(cards: int, known: pm.Efficiency | None = None) -> pm.Estimate:
    """A token of one user, at the roofs or as far below them as is known."""
    ways = pm.Parallelism(tensor=cards)
    return pm.decode(
        MODEL, CARD, batch=1, context=CONTEXT, parallelism=ways, efficiency=known or "ideal"
    )


def main() -> None:
    reached = token(1).time / MEASURED[1]
    known = pm.Efficiency(memory=reached, link=pm.LinkEfficiency(launch=15e-6, share=1.0))
    print(f"{MODEL.name} on {CARD.name}, one user, {reached:.0%} of the bandwidth")
    print(f"{'cards':>5}{'read by each':>14}{'sums':>9}{'a token':>10}{'faster':>8}   measured")
    for cards in (1, 2, 4):
        found = token(cards, known)
        seen = MEASURED.get(cards)
        print(
            f"{cards:>5}{found.weight_traffic / 1e9:>11.2f} GB{found.network_time * 1e3:>6.2f} ms"
            f"{found.time * 1e3:>7.2f} ms{MEASURED[1] / found.time:>8.2f}"
            + (f"   {seen * 1e3:.2f} ms, {MEASURED[1] / seen:.2f} times" if seen else "")
        )
    work = pm.Workload(prompt=128, output=64, concurrency=1)
    plans = pm.plan(
        MODEL, work, slo=pm.Slo(tpot=0.008), gpus=CARD, efficiency=known, pools="together",
        parallelisms=[pm.Parallelism(tensor=n) for n in (1, 2, 4)],
    )  # fmt: skip
    print("\nWithin 8 ms a token")
    for plan in plans.rows:
        print(f"{plan.devices} x {plan.gpu.name}: {plan.reason or 'will do'}")


if __name__ == "__main__":
    main()
