"""Parameters of the tower that folds patches into channels, layer by layer."""

from __future__ import annotations

import math
from itertools import pairwise
from typing import NamedTuple

from perfmodel.sources.huggingface.config import Config
from perfmodel.sources.huggingface.towers.parts import linear, norm


class _Scale(NamedTuple):
    """What a layer has folded: frames, one side of a patch, and channels that hold them."""

    frames: int
    side: int
    channels: int

    @property
    def folded(self) -> int:
        return self.frames * self.side**2


def inkling(c: Config, out: int) -> int:
    """InklingVisionConfig: each layer projects what it folds; the last onto ``out``, normed."""
    layers = c.count("num_hidden_layers", 24)
    if layers > 200:
        raise c.wrong("num_hidden_layers", "at most 200 layers that fold", layers)
    plan = _plan(c, layers)
    total = norm(out, "rms")
    for index, (before, after) in enumerate(pairwise(plan)):
        last = index == layers - 1
        width = out if last else after.channels
        folds = (after.frames // before.frames) * (after.side // before.side) ** 2
        total += linear(before.channels * folds, width, bias=False)
        total += 0 if last else norm(width, "rms")
    return total


def _plan(c: Config, layers: int) -> list[_Scale]:
    """The scale before the first layer and after each: as evenly spaced as there are scales."""
    scales = _scales(c)
    patch, frames = c.count("patch_size", 40), c.count("temporal_patch_size", 2)
    span = math.log(patch * patch * frames * c.count("num_channels", 3))
    ideal = [span * index / layers for index in range(layers + 1)]
    costs = [[abs(goal - math.log(scale.folded)) for scale in scales] for goal in ideal]
    enough = layers >= len(scales)
    chosen = [row.index(min(row)) for row in costs] if enough else _assigned(costs)
    chosen[0], chosen[-1] = 0, len(scales) - 1
    return [scales[index] for index in chosen]


def _scales(c: Config) -> list[_Scale]:
    """Nothing folded, then the patch by its prime factors, the largest first, then the frames."""
    channels = c.count("num_channels", 3)
    found, side, frames = [_Scale(1, 1, channels)], 1, 1
    for factor in reversed(_prime_factors(c, "patch_size", 40)):
        side *= factor
        found.append(_Scale(1, side, 64 * -(-side * side * channels // 64)))
    for factor in reversed(_prime_factors(c, "temporal_patch_size", 2)):
        frames *= factor
        found.append(_Scale(frames, side, 64 * side * side * channels * frames))
    return found


def _prime_factors(c: Config, key: str, default: int) -> list[int]:
    rest, found = c.count(key, default), []
    if rest > 10_000:
        raise c.wrong(key, "at most 10000", rest)
    for factor in range(2, rest + 1):
        while rest % factor == 0:
            found.append(factor)
            rest //= factor
    return found


def _assigned(costs: list[list[float]]) -> list[int]:
    """One scale a row, none twice and in order, such that the costs add up to the least."""
    rows, columns = len(costs), len(costs[0])
    best = [0.0] * (columns + 1)
    taken: list[list[bool]] = []
    for row in range(rows):
        now, took = [math.inf] * (columns + 1), [False] * (columns + 1)
        for column in range(row + 1, columns + 1):
            here = best[column - 1] + costs[row][column - 1]
            took[column] = here < now[column - 1]
            now[column] = min(here, now[column - 1])
        best = now
        taken.append(took)
    chosen, column = [0] * rows, columns
    for row in reversed(range(rows)):
        while not taken[row][column]:
            column -= 1
        column -= 1
        chosen[row] = column
    return chosen
