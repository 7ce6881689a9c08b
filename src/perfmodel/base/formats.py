"""How numbers are stored: the bits of one, and the scale that a block or a row of them shares.

Formats that are their bits alone stand here; those with scales are rows of
``catalogs/formats.toml``, which is read when one of them is first asked for.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import cached_property
from typing import Final, Self

from pydantic import Field, model_validator

from perfmodel.base._messages import did_you_mean, shown
from perfmodel.base._num import Num
from perfmodel.base.errors import InvalidValueError, UnknownKeyError
from perfmodel.base.spec import Count, CountOrZero, Name, Spec


class Format(Spec):
    """How one number is stored: its bits, and the scale that a block or a row of them shares."""

    name: Name
    """As it is written in a precision."""
    bits: Count = Field(description="Bits of one element [bit]")
    scale_bits: CountOrZero = Field(default=0, description="Bits of one scale [bit]")
    block: Count | None = Field(
        default=None, description="Elements that share a scale; None: one scale a matrix row [1]"
    )

    @model_validator(mode="after")
    def _block_needs_scale(self) -> Self:
        if self.block is not None and not self.scale_bits:
            raise InvalidValueError(
                f"Format.block: expected scale_bits above 0 beside it, got block={self.block}"
            )
        return self

    @property
    def per_row(self) -> bool:
        """Whether each matrix row has a scale of its own."""
        return self.scale_bits > 0 and self.block is None

    def nbytes(self, values: Num, rows: Num = 0) -> Num:
        """Bytes of so many values, scales included.

        Parameters
        ----------
        values : int or array or symbol
            Elements stored [1].
        rows : int or array or symbol
            Matrix rows among them, each with a scale if the format has one a row [1].

        Returns
        -------
        float or array or symbol
            Bytes [B]. A last, partial block counts in proportion.

        Examples
        --------
        >>> FORMATS["int4-g128"].nbytes(128)  # 64 bytes and one 16-bit scale
        66.0
        """
        if not self.scale_bits:
            return values * self.bits / 8
        if self.block is None:
            return (values * self.bits + rows * self.scale_bits) / 8
        # One division of integers: exact for symbols, correctly rounded for floats.
        return values * (self.bits * self.block + self.scale_bits) / (8 * self.block)


class _Formats(Mapping[str, Format]):
    """Every storage format by name."""

    # Unchecked, so that importing perfmodel builds no validator; a test checks all of them.
    _ALONE: Final = {
        name: Format.trusted(name=name, bits=bits, scale_bits=0, block=None)
        for name, bits in (
            ("fp32", 32),
            ("fp16", 16),
            ("bf16", 16),
            ("fp8", 8),
            ("int8", 8),
            ("int4", 4),
        )
    }

    def __getitem__(self, name: str) -> Format:
        alone = self._ALONE.get(name)
        return self._all[name] if alone is None else alone

    def __iter__(self) -> Iterator[str]:
        return iter(self._all)

    def __len__(self) -> int:
        return len(self._all)

    @cached_property
    def _all(self) -> dict[str, Format]:
        from perfmodel.base._data import catalogs, read_toml

        sources = read_toml(catalogs() / "formats.toml")["source"]
        rows = {name: row for source in sources for name, row in source["formats"].items()}
        scaled = {
            name: Format.trusted(
                name=name, bits=row["bits"], scale_bits=row["scale_bits"], block=row.get("block")
            )
            for name, row in rows.items()
        }
        return self._ALONE | scaled


FORMATS: Final[Mapping[str, Format]] = _Formats()


def format_named(name: str) -> Format:
    """The storage format of this name.

    Raises
    ------
    UnknownKeyError
        If there is none; the message names the nearest.
    """
    if not isinstance(name, str) or name not in FORMATS:
        raise UnknownKeyError(f"format: no format {shown(name)}; {did_you_mean(name, FORMATS)}")
    return FORMATS[name]
