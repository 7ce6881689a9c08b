"""What can be bought: chips, what an hour of one costs, and how many may share a model."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Final, NamedTuple, TypeAlias

from perfmodel.base._messages import did_you_mean, shown
from perfmodel.base.errors import InvalidValueError, UnknownKeyError
from perfmodel.base.spec import checked_kind, checked_list
from perfmodel.machine.hardware import Cluster, GpuSpec
from perfmodel.sources.catalog import gpu as chip_of
from perfmodel.sources.catalog import gpus as keys
from perfmodel.sources.prices import Price
from perfmodel.sources.prices import prices as shipped
from perfmodel.work.layers.experts import MixtureOfExperts
from perfmodel.work.parallel import Parallelism
from perfmodel.work.shape import ModelShape

NODE: Final = 8  # chips of one machine, where their links do not say how many they join
WIDEST: Final = 16  # chips that share a model, without a cluster

Chips: TypeAlias = str | GpuSpec | Cluster
Prices: TypeAlias = Mapping[str, float | Price]


class Offer(NamedTuple):
    """A chip, how its nodes are joined, and what an hour of one costs."""

    gpu: GpuSpec
    cluster: Cluster | None
    price: Price | None

    @property
    def widest(self) -> int:
        """Chips that may share one replica: all of a cluster, else those that links join."""
        if self.cluster is not None:
            return self.cluster.devices
        link = self.gpu.link
        domain = NODE if link is None else link.domain or NODE
        if link is not None and link.topology == "bridge":
            domain = NODE  # past the bridge, over the host
        return min(domain, WIDEST)


def offers(gpus: Chips | Iterable[Chips] | None, prices: Prices | None) -> list[Offer]:
    """The chips asked about, each with its price where there is one.

    Raises
    ------
    UnknownKeyError
        If there is no chip of a key, or a price of a chip that is none.
    InvalidValueError
        If a chip or a price is something else, or a chip is named twice.
    """
    asked = list(keys()) if gpus is None else _listed(gpus)
    chips = [chip_of(one) if isinstance(one, str) else one for one in asked]
    for one in chips:
        if not isinstance(one, GpuSpec | Cluster):
            raise InvalidValueError(
                f"gpus: expected keys, GpuSpec or Cluster (pm.gpu(key)), got {shown(one)}"
            )
    known = [one.gpu if isinstance(one, Cluster) else one for one in chips]
    refuse_twice(
        "gpus",
        [
            (gpu.key or gpu.name)
            + (f" in {one.nodes} nodes of {one.per_node}" if isinstance(one, Cluster) else "")
            for gpu, one in zip(known, chips, strict=True)
        ],
        "; model_copy(update={'key': '', 'name': ...}) tells another apart",
    )
    priced = _priced(prices, known)
    return [
        Offer(chip, one if isinstance(one, Cluster) else None, _price_of(chip, priced))
        for chip, one in zip(known, chips, strict=True)
    ]


def refuse_twice(name: str, told: list[str], hint: str = "") -> None:
    """Refuse a list that names something twice: its plans would not be told apart."""
    twice = next((one for one in told if told.count(one) > 1), None)
    if twice is not None:
        raise InvalidValueError(f"{name}: expected each once, got {twice} twice{hint}")


def _listed(gpus: Any) -> list[Any]:
    return [gpus] if isinstance(gpus, str | GpuSpec | Cluster) else checked_list("gpus", gpus)


def _priced(prices: Prices | None, chips: list[GpuSpec]) -> dict[str, Price]:
    if prices is None:
        return shipped()
    checked_kind("prices", prices, Mapping, '{"h100-sxm": 2.5}, in USD an hour and device')
    names = {*keys(), *(chip.key for chip in chips), *(chip.name for chip in chips)} - {""}
    found = {}
    for name, price in prices.items():
        if not isinstance(name, str):
            raise InvalidValueError(
                f"prices: expected keys or names of chips, as 'h100-sxm', got {shown(name)}"
            )
        if name not in names:
            raise UnknownKeyError(f"prices: no chip {shown(name)}; {did_you_mean(name, names)}")
        found[name] = price if isinstance(price, Price) else _price(name, price)
    return found


def _price(name: str, per_hour: float) -> Price:
    try:
        return Price(low_per_hour=per_hour, high_per_hour=per_hour)
    except InvalidValueError:
        raise InvalidValueError(
            f"prices: expected USD an hour of one {name}, 0 or more, got {shown(per_hour)}"
        ) from None


def _price_of(chip: GpuSpec, priced: dict[str, Price]) -> Price | None:
    return priced.get(chip.key) or priced.get(chip.name)


def divisions(model: ModelShape, widest: int) -> Iterator[Parallelism]:
    """The ways in which one replica is divided over up to so many chips: powers of two.

    Matrices and blocks are divided; experts within the chips that share a matrix, or over several
    groups of them, whose tokens then meet at the experts.
    """
    sizes = [2**i for i in range(widest.bit_length())]
    sparse = any(isinstance(layer, MixtureOfExperts) for _, layer in model.distinct_layers)
    for pipeline in sizes:
        for tensor in sizes:
            if tensor * pipeline > widest or pipeline > model.layers:
                continue
            yield Parallelism(tensor=tensor, pipeline=pipeline)
            if not sparse:
                continue
            if tensor > 1:
                yield Parallelism(tensor=tensor, pipeline=pipeline, expert=tensor)
            for lanes in sizes[1:]:
                if pipeline == 1 and tensor * lanes <= widest:
                    yield Parallelism(tensor=tensor, data=lanes, expert=tensor * lanes)
