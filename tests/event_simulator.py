"""A small discrete-event simulator of a server: the witness of ``serve``, and not shipped.

Time passes step by step. In each, the rules of a scheduler choose what runs; the library's own
estimate of exactly that step says how long it takes; tokens are handed out, requests end, and the
next ones come. Nothing is a mean here: every request has its own lengths, and its own times.
"""

from __future__ import annotations

import random
from collections import deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import lru_cache
from statistics import fmean

import perfmodel as pm


@dataclass
class Request:
    prompt: int
    output: int
    came: float
    read: int = 0  # tokens of the prompt that are cached
    written: int = 0
    first: float = 0.0
    last: float = 0.0

    @property
    def context(self) -> int:
        return self.prompt + self.written


@dataclass
class Rules:
    """What the scheduler may do."""

    kind: str = "chunked"  # or prefill-first
    budget: int = 8192  # tokens of a step
    room: float = float("inf")  # tokens that the cache holds, whole requests reserved
    prefix: int = 0  # tokens of every prompt that are cached already
    drafts: int = 0
    acceptance: float = 0.0


class Steps:
    """How long a step takes: attention of tokens and of prompts apart, all else together."""

    def __init__(self, model: pm.ModelShape, gpu: pm.GpuSpec, width: int = 1, **how) -> None:
        self.model, self.gpu, self.how, self.width = model, gpu, how, width
        self.decode = lru_cache(None)(self._decode)
        self.attention = lru_cache(None)(self._attention)

    def _estimate(self, *groups: pm.Group) -> pm.Estimate:
        return pm.estimate(self.model, self.gpu, pm.Step(groups=groups), **self.how)

    def _group(self, count: int, context: int) -> pm.Group:
        width = self.width
        return pm.Group(count=count, new=width, past=context, logits=width)

    def _decode(self, count: int, context: int) -> float:
        return self._estimate(self._group(count, context)).time

    def _attention(self, count: int, context: int) -> float:
        return attention_of(self._estimate(self._group(count, context)))

    def time(self, decoding: list[Request], chunks: list[tuple[Request, int]]) -> float:
        count = len(decoding)
        # Steps of nearly the same context are asked for once.
        mean = round(fmean(r.context for r in decoding) / 16) * 16 if count else 0
        if not chunks:
            return self.decode(count, mean)
        prompts = [
            pm.Group(count=1, new=size, past=r.read, logits=int(r.read + size >= r.prompt))
            for r, size in chunks
        ]
        if not count:
            return self._estimate(*prompts).time
        tokens = self._group(count, mean)
        together = self._estimate(tokens, *prompts)
        alone = attention_of(self._estimate(*prompts)) + self.attention(count, mean)
        return together.time - attention_of(together) + alone


def attention_of(found: pm.Estimate) -> float:
    return sum(row.time for row in found.rows() if row.operation.kind == "attention")


@dataclass
class Run:
    """One replica at work. Users in a closed loop, or arrivals at given times."""

    steps: Steps
    rules: Rules
    lengths: Callable[[], tuple[int, int]]
    users: int = 0
    arrivals: Iterator[float] | None = None
    seed: int = 0
    stagger: bool = True  # users begin one after another, and not at once
    delay: float = 0.0  # a user's next request is on its way for so long
    done: list[Request] = field(default_factory=list)

    def until(self, requests: int, skip: int = 0) -> Means:
        chance = random.Random(self.seed)
        now, queue, decoding = 0.0, deque[Request](), list[Request]()
        away = deque[Request]()
        reading: list[Request] = []
        coming = self.arrivals
        due = next(coming) if coming else float("inf")
        starts = deque(range(self.users))
        steps = 0
        while len(self.done) < requests:
            if starts and (not self.stagger or steps % 3 == 0):
                for _ in range(1 if self.stagger else self.users):
                    starts.popleft()
                    queue.append(self._new(now))
            while due <= now and coming:
                queue.append(self._new(due))
                due = next(coming)
            while away and away[0].came + self.delay <= now:
                queue.append(away.popleft())
            self._admit(queue, reading, decoding)
            chunks = self._chunks(reading, len(decoding))
            running = decoding if self.rules.kind == "chunked" or not chunks else []
            if not running and not chunks:
                idle = away[0].came + self.delay if away else now
                now, steps = due if coming else idle, steps + 1
                continue
            now += self.steps.time(running, chunks)
            steps += 1
            ended = []
            for one in running:
                one.written = min(one.output, one.written + self._tokens(chance))
                if one.written >= one.output:
                    one.last = now
                    ended.append(one)
            for one, size in chunks:
                one.read += size
                if one.read >= one.prompt:
                    reading.remove(one)
                    one.first, one.written = now, 1
                    decoding.append(one)
            for one in ended:
                decoding.remove(one)
                self.done.append(one)
                if self.users:
                    away.append(self._new(now))
        return Means(self.done[skip:])

    def _new(self, now: float) -> Request:
        prompt, output = self.lengths()
        return Request(prompt, max(2, output), now, read=self.rules.prefix)

    def _tokens(self, chance: random.Random) -> int:
        """Guesses are checked in order; the first wrong one is replaced, and ends the step."""
        right = 0
        while right < self.rules.drafts and chance.random() < self.rules.acceptance:
            right += 1
        return right + 1

    def _admit(
        self, queue: deque[Request], reading: list[Request], decoding: list[Request]
    ) -> None:
        held = sum(r.prompt + r.output for r in (*reading, *decoding))
        while queue and held + queue[0].prompt + queue[0].output <= self.rules.room:
            held += queue[0].prompt + queue[0].output
            reading.append(queue.popleft())

    def _chunks(self, reading: list[Request], decoding: int) -> list[tuple[Request, int]]:
        """First come, first served, as far as the budget goes; the last one may be cut."""
        tokens = decoding * (self.rules.drafts + 1) if self.rules.kind == "chunked" else 0
        left, found = max(self.rules.budget - tokens, 1), []
        for one in reading:
            if left <= 0:
                break
            size = min(left, one.prompt - one.read)
            found.append((one, size))
            left -= size
        return found


class Means:
    """What a benchmark would print of the requests that ended."""

    def __init__(self, done: list[Request]) -> None:
        self.ttft = fmean(r.first - r.came for r in done)
        # As serve: mean time of decoding over mean tokens, so that long outputs count more.
        self.tpot = sum(r.last - r.first for r in done) / sum(r.output - 1 for r in done)
        span = done[-1].last - done[0].last
        self.rate = (len(done) - 1) / span


def two_pools(
    prefill: Callable[[int], float],
    steps: Steps,
    lengths: Callable[[], tuple[int, int]],
    *,
    pools: tuple[int, int],
    transfer: float,
    arrivals: Iterator[float],
    requests: int,
    skip: int,
) -> Means:
    """Prompts wait for the first free prefill replica; tokens are written where fewest are."""
    free, came = [0.0] * pools[0], []
    for _ in range(requests):
        now = next(arrivals)
        prompt, output = lengths()
        at = min(range(pools[0]), key=free.__getitem__)
        free[at] = max(now, free[at]) + prefill(prompt)
        came.append(Request(prompt, max(2, output), now, first=free[at] + transfer, written=1))
    done: list[Request] = []
    waiting = deque(sorted(came, key=lambda r: r.first))
    clocks, lanes = [0.0] * pools[1], [list[Request]() for _ in range(pools[1])]
    while len(done) < requests:
        # The replica whose clock is behind steps next; an idle one waits for a request.
        busy = [i for i in range(pools[1]) if lanes[i]]
        lane = min(busy, key=clocks.__getitem__) if busy else None
        if waiting and (lane is None or waiting[0].first <= clocks[lane]):
            one = waiting.popleft()
            to = min(range(pools[1]), key=lambda i: len(lanes[i]))
            clocks[to] = max(clocks[to], one.first) if not lanes[to] else clocks[to]
            lanes[to].append(one)
            continue
        assert lane is not None
        clocks[lane] += steps.time(lanes[lane], [])
        for one in lanes[lane]:
            one.written += 1
            one.last = clocks[lane]
        done += [one for one in lanes[lane] if one.written >= one.output]
        lanes[lane] = [one for one in lanes[lane] if one.written < one.output]
    return Means(done[skip:])
