"""What an hour of a chip costs: indicative, dated, and never part of a chip."""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import Annotated, Any, Self

from pydantic import BeforeValidator, Field, model_validator

from perfmodel.base._data import catalogs, printable, read_toml
from perfmodel.base._messages import did_you_mean, plain, shown
from perfmodel.base.errors import ConfigError, InvalidValueError
from perfmodel.base.spec import (
    MAX_TEXT,
    Name,
    QuantityOrZero,
    Source,
    Spec,
    quantity,
    text,
)
from perfmodel.sources.catalog import catalog_sources, iso_day


class Price(Spec):
    """What clouds ask for one device and hour, on demand: the lowest and the highest seen.

    An hour, and not a second, because that is how it is quoted: divide by 3600.

    Examples
    --------
    >>> Price(low_per_hour=2.0, high_per_hour=4.0, date="2026-11-01").low_per_hour
    2.0
    """

    low_per_hour: QuantityOrZero = quantity("c_{low}", "USD/h", "Lowest price of one device")
    high_per_hour: QuantityOrZero = quantity("c_{high}", "USD/h", "Highest price of one device")
    date: Name = ""
    """The day for which it is stated, as YYYY-MM-DD."""
    sources: tuple[Source, ...] = Field(default=(), repr=False)
    """Who states it."""
    note: Annotated[str, BeforeValidator(lambda value: text(value, 2000))] = ""
    """Who asked what, and what else is in the price."""

    @model_validator(mode="after")
    def _is_a_range(self) -> Self:
        if self.low_per_hour > self.high_per_hour:
            raise InvalidValueError(
                f"Price.low_per_hour: expected at most high_per_hour ({self.high_per_hour:g}), "
                f"got {self.low_per_hour:g}"
            )
        return self


def prices() -> dict[str, Price]:
    """Indicative prices of chips of the catalog, by key; many chips have none.

    They are what some clouds asked on the day that each price names, gathered by hand. A price of
    your own replaces one of these like any entry of a dict.

    Returns
    -------
    dict of str to Price
        A new dict each time; its keys are among ``gpus()``.

    Examples
    --------
    >>> prices()["tpu-v6e"].low_per_hour
    2.7
    >>> mine = prices() | {"h100-sxm": Price(low_per_hour=1.9, high_per_hour=1.9)}
    """
    return dict(_shipped())


def read_prices(path: str | Path) -> dict[str, Price]:
    """A user's own prices from a TOML file in the catalog's form.

    Parameters
    ----------
    path : str or Path
        The file. For each chip a bare number of USD an hour, or a table with ``low_per_hour``,
        ``high_per_hour``, ``date``, ``sources`` and ``note`` [text].

    Returns
    -------
    dict of str to Price
        ``prices() | read_prices(path)`` puts them over the shipped ones.

    Raises
    ------
    ConfigError
        If the file cannot be read or has a part that is not a price.
    InvalidValueError
        If a value is missing or out of range.
    """
    if not isinstance(path, str | Path):
        raise ConfigError(f"prices: expected the path of a TOML file, got {shown(path)}")
    return _read(Path(path), sources=None)


@cache
def _shipped() -> dict[str, Price]:
    return _read(catalogs() / "prices.toml", sources=catalog_sources())


def _read(path: Path, sources: dict[str, Source] | None) -> dict[str, Price]:
    """Prices from a file; with ``sources``, each source must be a key of them."""
    return {
        plain(key, MAX_TEXT): _price(f"{printable(path)}: {plain(key)}", item, sources)
        for key, item in read_toml(path).items()
    }


def _price(where: str, item: Any, sources: dict[str, Source] | None) -> Price:
    if not isinstance(item, dict):
        item = {"low_per_hour": item, "high_per_hour": item}
    for field in item:
        if field not in Price.model_fields:
            near = did_you_mean(field, Price.model_fields)
            raise ConfigError(f"{where}.{plain(field)}: unknown; {near}")
    fields = dict(item)
    fields["date"] = iso_day(fields.get("date", ""))
    named = fields.pop("sources", [])
    if not isinstance(named, list):
        raise ConfigError(f"{where}.sources: expected a list of texts, got {shown(named)}")
    fields["sources"] = tuple(_source(where, name, sources) for name in named)
    try:
        return Price(**fields)
    except InvalidValueError as error:
        raise InvalidValueError(f"{where}: {error}") from None


def _source(where: str, name: Any, sources: dict[str, Source] | None) -> Source:
    if not isinstance(name, str):
        raise ConfigError(f"{where}.sources: expected a list of texts, got {shown(name)} in it")
    if sources is None:  # a user names the source in words
        return Source(key=plain(name, MAX_TEXT), title=plain(name, MAX_TEXT))
    if name not in sources:
        raise ConfigError(f"{where}.sources: no source {name!r} in sources.toml")
    return sources[name]
