"""What every object of perfmodel is: frozen, strict, and explicit about units and origins."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from decimal import Decimal
from itertools import islice
from numbers import Real
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Final, Literal, Self, TypeAlias

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, ValidationError

from perfmodel.base._messages import from_pydantic, shown
from perfmodel.base._num import is_array, is_symbolic
from perfmodel.base.errors import InvalidValueError, PerfModelError, one_line

if TYPE_CHECKING:
    from perfmodel.base._html import Cells

# Far beyond any model or chip, and small enough that no product of counts leaves float range.
MAX_COUNT: Final = 10**15
MIN_QUANTITY: Final = 1e-9
MAX_QUANTITY: Final = 1e30
MAX_AMOUNT: Final = 10**150  # of products of several of them: their own product is a float still
MIN_RATE: Final = 1e6  # less is a figure in GB/s or TFLOP/s by mistake
MIN_CAPACITY: Final = 1e3  # less is a figure in GB or MB by mistake
MAX_LIST: Final = 10_000
MAX_TEXT: Final = 200


# What a Pydantic record consists of. Its slots set directly: no lookup, and frozen does not ask.
_set_fields = BaseModel.__dict__["__dict__"].__set__
_set_given = BaseModel.__dict__["__pydantic_fields_set__"].__set__
_set_extra = BaseModel.__dict__["__pydantic_extra__"].__set__
_set_private = BaseModel.__dict__["__pydantic_private__"].__set__


class Spec(BaseModel):
    """An immutable record that knows all its fields; an unknown one is an error."""

    model_config = ConfigDict(
        frozen=True,
        extra="forbid",
        ser_json_inf_nan="strings",
        arbitrary_types_allowed=False,
        defer_build=True,  # a validator is built when it is first used: imports stay quick
    )

    if TYPE_CHECKING:  # older Pydantic would take it for a private attribute
        _every_field: ClassVar[set[str]]  # shared by all that ``trusted`` makes

    @classmethod
    def __pydantic_init_subclass__(cls, **kwargs: Any) -> None:
        cls._every_field = set(cls.model_fields)

    def __init__(self, **data: Any) -> None:
        try:
            super().__init__(**data)
        except ValidationError as error:
            raise self._explained(error) from None
        except TypeError as error:
            if "keywords must be strings" not in str(error):
                raise
            message = (
                f"{type(self).__name__}: expected fields with names, got a key that is no text"
            )
            raise InvalidValueError(message) from None

    def __setattr__(self, name: str, value: Any) -> None:
        raise InvalidValueError(
            f"{type(self).__name__}.{name}: a record does not change; "
            "model_copy(update={...}) makes another"
        )

    def __delattr__(self, name: str) -> None:
        raise InvalidValueError(f"{type(self).__name__}.{name}: a record does not change")

    def __repr_args__(self) -> Iterator[tuple[str | None, Any]]:
        """The fields that differ from their defaults: a repr is one short line."""
        for name, field in type(self).model_fields.items():
            value = getattr(self, name)
            if field.repr and repr(value) != repr(field.default):
                yield name, value

    def __repr__(self) -> str:
        return one_line(super().__repr__(), MAX_TEXT)

    def __str__(self) -> str:
        return repr(self)

    def _repr_html_(self) -> str:
        """What a notebook shows: a small table under the record's name."""
        from perfmodel.base._html import table

        name = repr(self)
        return table(name[1:-1] if name[0] == "<" else type(self).__name__, *self._cells())

    def _cells(self) -> Cells:
        """Header and rows of that table."""
        from perfmodel.base._html import fields

        return fields(self)

    @classmethod
    def trusted(cls, **fields: Any) -> Self:
        """An instance of all its fields, unchecked: for numbers that have been checked before.

        This is how arrays and symbols enter, and it is what keeps an estimate cheap:
        ``model_construct`` without its search for defaults.
        """
        self = object.__new__(cls)
        _set_fields(self, fields)
        _set_given(self, cls._every_field)
        _set_extra(self, None)
        _set_private(self, None)
        return self

    def model_copy(self, *, update: Mapping[str, Any] | None = None, deep: bool = False) -> Self:
        """The same record with some fields changed, validated like any other.

        Parameters
        ----------
        update : mapping or None
            Fields to change.
        deep : bool
            Without effect: a record is immutable all the way down [flag].

        Returns
        -------
        Spec
            A new record; nothing computed from the old one clings to it.
        """
        update = {} if update is None else update
        if not isinstance(update, Mapping) or not all(isinstance(key, str) for key in update):
            raise InvalidValueError(f"update: expected a dict of fields, got {shown(update)}")
        fields = {name: getattr(self, name) for name in type(self).model_fields}
        return type(self)(**fields | dict(update))

    @classmethod
    def model_validate(cls, obj: Any, **kwargs: Any) -> Self:
        """Validate as Pydantic does, with perfmodel's errors."""
        if isinstance(obj, dict) and not all(isinstance(key, str) for key in obj):
            message = f"{cls.__name__}: expected fields with names, got a key that is no text"
            raise InvalidValueError(message)
        try:
            return super().model_validate(obj, **kwargs)
        except ValidationError as error:
            raise cls._explained(error) from None

    @classmethod
    def model_validate_json(cls, json_data: str | bytes | bytearray, **kwargs: Any) -> Self:
        """Validate JSON as Pydantic does, with perfmodel's errors."""
        try:
            return super().model_validate_json(json_data, **kwargs)
        except ValidationError as error:
            raise cls._explained(error) from None

    @classmethod
    def model_validate_strings(cls, obj: Any, **kwargs: Any) -> Self:
        """Validate as Pydantic does, with perfmodel's errors."""
        try:
            return super().model_validate_strings(obj, **kwargs)
        except ValidationError as error:
            raise cls._explained(error) from None

    @classmethod
    def _explained(cls, error: ValidationError) -> PerfModelError:
        return from_pydantic(error, cls.__name__, cls.model_fields)


def whole(value: Any, minimum: int = 1) -> int:
    """An integer from any real number without a fraction, NumPy's and Decimal's among them.

    A message says what was expected; the caller knows the field's name.
    """
    if type(value) is not int:
        value = _integral(value, minimum)
    if not minimum <= value <= MAX_COUNT:
        raise ValueError(f"expected a whole number from {minimum} to 1e15")
    return value  # type: ignore[no-any-return]


def _integral(value: Any, minimum: int) -> int:
    expected = f"expected a whole number from {minimum} to 1e15"
    if not _is_number(value):
        raise ValueError(expected)
    try:
        if not minimum <= float(value) <= MAX_COUNT:  # a Decimal may have a million digits
            raise ValueError(expected)
        number = int(value)
        if number == value:
            return number
    except Exception:  # NaN, infinity, or an object that only pretends to be a number
        raise ValueError(expected) from None
    raise ValueError(expected)


def _is_number(value: Any) -> bool:
    # numbers.Real knows NumPy's numbers. A truth value is none, whatever Python says, nor is a
    # duration, whatever NumPy says.
    known = isinstance(value, Real | Decimal) and not isinstance(value, bool)
    return known and type(value).__name__ != "timedelta64"


def positive(value: Any) -> float:
    """A float inside the range that physics needs: not zero, negative, NaN or infinite."""
    if type(value) is not float:
        value = _real(value)
    if not MIN_QUANTITY <= value <= MAX_QUANTITY:
        raise ValueError("expected a positive, finite number (1e-9 to 1e30)")
    return value  # type: ignore[no-any-return]


def _real(value: Any) -> float:
    if not _is_number(value):
        raise ValueError("expected a positive, finite number")
    try:
        return float(value)
    except Exception:  # too large for a float, or an object that only pretends to be a number
        raise ValueError("expected a positive, finite number") from None


def non_negative(value: Any) -> float:
    """Zero, or a positive float inside the range that physics needs."""
    try:
        number = value if type(value) is float else _real(value)
        return 0.0 if number == 0 else positive(number)
    except ValueError as error:
        raise ValueError(str(error).replace("expected a", "expected 0 or a")) from None


def rate(value: Any) -> float:
    """A bandwidth or a peak: in B/s and FLOP/s, they are never small."""
    number = positive(value)
    if number < MIN_RATE:
        raise ValueError("expected at least 1e6, in SI base units (1 TB/s is 1e12, 1 TFLOP/s 1e12)")
    return number


def capacity(value: Any) -> float:
    """A memory or a cache of a chip: in B, it is never small."""
    number = positive(value)
    if number < MIN_CAPACITY:
        raise ValueError("expected at least 1e3, in SI base units (80 GB is 80e9)")
    return number


def share(value: Any) -> float:
    """A factor above 0 and at most 1."""
    number = positive(value)
    if number > 1:
        raise ValueError("expected a factor above 0 and at most 1")
    return number


def exponent(value: Any) -> float:
    """At least 1, or infinite, which JSON writes as "Infinity"."""
    if isinstance(value, float | str) and value in (math.inf, "Infinity"):
        return math.inf
    number = positive(value)
    if number < 1:
        raise ValueError("expected a number of at least 1, or infinity")
    return number


def checked_count(name: str, value: Any, minimum: int = 1) -> int:
    """A function's argument as a count, or an error that names it.

    Raises
    ------
    InvalidValueError
        If the value is not a whole number of at least ``minimum``.
    """
    try:
        return whole(value, minimum)
    except ValueError as error:
        raise InvalidValueError(f"{name}: {error}, got {shown(value)}") from None


def checked_positive(name: str, value: Any) -> float:
    """A function's argument as a positive float, or an error that names it.

    Raises
    ------
    InvalidValueError
        If the value is not a positive, finite number.
    """
    try:
        return positive(value)
    except ValueError as error:
        raise InvalidValueError(f"{name}: {error}, got {shown(value)}") from None


def checked_non_negative(name: str, value: Any) -> float:
    """A function's argument as a float of at least 0, or an error that names it.

    Raises
    ------
    InvalidValueError
        If the value is not zero, nor a positive, finite number.
    """
    try:
        return non_negative(value)
    except ValueError as error:
        raise InvalidValueError(f"{name}: {error}, got {shown(value)}") from None


def checked_num(name: str, value: Any, *, zero: bool = True) -> None:
    """Refuse what is no number: arrays and symbols are, and pass unchecked.

    Raises
    ------
    InvalidValueError
        If a plain number is negative, NaN or too large, or zero where that is not allowed.
    """
    if is_array(value) or is_symbolic(value):
        return
    expected = "a finite number of at least 0" if zero else "a finite number above 0"
    try:
        number = _real(value)
    except ValueError:
        number = math.nan
    if not (0 <= number <= MAX_AMOUNT and (zero or number)):
        raise InvalidValueError(f"{name}: expected {expected}, got {shown(value)}")


def checked_choice(name: str, value: Any, choices: tuple[str, ...]) -> None:
    """Refuse an option that is not one of its choices.

    Raises
    ------
    InvalidValueError
        If the value is not one of ``choices``.
    """
    if not isinstance(value, str) or value not in choices:
        raise InvalidValueError(f"{name}: expected one of {', '.join(choices)}, got {shown(value)}")


def checked_kind(name: str, value: Any, kind: type, hint: str = "") -> None:
    """Refuse an argument that is not of a class; the hint says where to get one.

    Raises
    ------
    InvalidValueError
        If the value is of another kind.
    """
    if not isinstance(value, kind):
        where = f" ({hint})" if hint else ""
        raise InvalidValueError(f"{name}: expected {kind.__name__}{where}, got {shown(value)}")


def checked_flag(name: str, value: Any) -> None:
    """Refuse a flag that is neither True nor False: the text "no" would count as yes.

    Raises
    ------
    InvalidValueError
        If the value is anything else.
    """
    if value is not True and value is not False:
        raise InvalidValueError(f"{name}: expected True or False, got {shown(value)}")


def checked_list(name: str, value: Any, one: type | None = None) -> list[Any]:
    """Several things as a list, or one of them alone; neither none nor too many.

    Raises
    ------
    InvalidValueError
        If the value is a text, a dict, not iterable, empty, or longer than 10,000.
    """
    if one is not None and isinstance(value, one):
        return [value]
    if isinstance(value, str | bytes | bytearray | memoryview | Mapping | type):
        raise InvalidValueError(f"{name}: expected a list, got {shown(value)}")
    try:
        found = list(islice(value, MAX_LIST + 1))
    except Exception:  # not iterable, or an iterator that fails
        raise InvalidValueError(f"{name}: expected a list, got {shown(value)}") from None
    if not 1 <= len(found) <= MAX_LIST:
        got = "none" if not found else "more"
        raise InvalidValueError(f"{name}: expected from 1 to {MAX_LIST} items, got {got}")
    return found


def text(value: Any, longest: int = MAX_TEXT) -> str:
    """A name that can stand in one line of a message, and in any file."""
    if not isinstance(value, str) or not value.isprintable() or len(value) > longest:
        raise ValueError(f"expected printable text of at most {longest} characters")
    return value


Count: TypeAlias = Annotated[int, BeforeValidator(whole)]
CountOrZero: TypeAlias = Annotated[int, BeforeValidator(lambda value: whole(value, 0))]
Quantity: TypeAlias = Annotated[float, BeforeValidator(positive)]
QuantityOrZero: TypeAlias = Annotated[float, BeforeValidator(non_negative)]
Rate: TypeAlias = Annotated[float, BeforeValidator(rate)]
Capacity: TypeAlias = Annotated[float, BeforeValidator(capacity)]
Share: TypeAlias = Annotated[float, BeforeValidator(share)]

Exponent: TypeAlias = Annotated[float, BeforeValidator(exponent)]
Flag: TypeAlias = Annotated[bool, Field(strict=True)]
Name: TypeAlias = Annotated[str, BeforeValidator(text)]

# What perfmodel itself computes from validated numbers: checked natively, because it is hot.
Amount: TypeAlias = Annotated[int, Field(ge=0, le=MAX_AMOUNT, strict=True)]
NonNegative: TypeAlias = Annotated[float, Field(ge=0, strict=True, allow_inf_nan=False)]


def quantity(symbol: str, unit: str, meaning: str, **kwargs: Any) -> Any:
    """A field's symbol (LaTeX), unit and meaning, declared once.

    The nomenclature page and the symbolic twins are generated from them.
    """
    return Field(
        description=f"{meaning} [{unit}]",
        json_schema_extra={"symbol": symbol, "unit": unit},
        **kwargs,
    )


OriginKind: TypeAlias = Literal[
    "datasheet",
    "quoted",
    "secondary",
    "derived",
    "device-reported",
    "assumed",
    "measured",
    "user",
]


class Source(Spec):
    """Something that states a value: a datasheet, a page, a repository, a device."""

    key: Name
    """Its name in the catalog."""
    title: Name
    """Its title."""
    publisher: Name = ""
    """Who published it."""
    url: Name = ""
    """Where it is."""
    date: Name = ""
    """When it was published or read, as YYYY-MM-DD."""


class Origin(Spec):
    """Where one field's value comes from."""

    field: Name
    """The field whose value it is, as ``peak_flops.bf16``."""
    kind: OriginKind
    """What stands behind the value."""
    source: Source | None = None
    """What states the value."""
    place: Name = ""
    """Where in the source, as ``page 2``."""
    date: Name = ""
    """When it was read or measured, as YYYY-MM-DD."""
    note: Annotated[str, BeforeValidator(lambda value: text(value, 2000))] = ""
    """What else one should know."""

    def __str__(self) -> str:
        where = [self.source.title if self.source else "", self.place, self.date, self.note]
        return f"{self.kind}: " + "; ".join(part for part in where if part)
