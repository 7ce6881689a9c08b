"""A config as questions: each key is asked for with its kind and its default."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Any, Final, TypeAlias

from perfmodel.base._messages import did_you_mean, plain, shown
from perfmodel.base.errors import InvalidValueError
from perfmodel.base.spec import MAX_TEXT, whole

REQUIRED: Final = object()
MAX_LAYERS: Final = 10_000  # a list of layer kinds is walked once

# Where the decoder of a model with towers is described.
TEXT_SECTIONS: Final = ("text_config", "llm_config", "language_config", "thinker_config")

# Other names of a size, most of them from the ``attribute_map`` of a config class.
Names: TypeAlias = Mapping[str, tuple[str, ...]]

# The names that mean the same wherever they stand.
COMMON_NAMES: Final[Names] = {
    "num_experts": ("num_local_experts", "n_routed_experts", "moe_num_experts"),
    "num_experts_per_tok": ("moe_top_k", "moe_topk", "moe_k", "top_k_experts"),
    "n_shared_experts": ("num_shared_experts", "moe_num_shared_experts"),
}


class Config:
    """The keys of a config, or of a section of one.

    Parameters
    ----------
    values : mapping
        What the file says.
    names : mapping of str to tuple of str
        From the name that most classes use to those that this class uses.
    defaults : mapping
        What the class says of sizes that its published configs leave out.
    path : str
        What messages write before a key [text].
    """

    def __init__(
        self,
        values: Mapping[str, Any],
        names: Names = COMMON_NAMES,
        defaults: Mapping[str, Any] = MappingProxyType({}),
        path: str = "config",
    ) -> None:
        self._values = values
        self._names = names if names is COMMON_NAMES else {**COMMON_NAMES, **names}
        self._defaults = defaults
        self._path = self.path = path
        self.asked: set[str] = set()

    # -- one key --------------------------------------------------------------------------------

    def get(self, key: str) -> Any:
        """Whatever stands under a key or one of its other names, or None; all must agree."""
        self.asked.add(key)
        found = self._values.get(key)
        for other in self._names.get(key, ()):
            if other not in self._values:
                continue
            self.asked.add(other)
            alias = self._values[other]
            if found is not None and alias is not None and differ(found, alias):
                raise InvalidValueError(
                    f"{self._path}.{key}: {shown(found)} contradicts {other}, "
                    f"which is {shown(alias)}"
                )
            found = alias if found is None else found
        return found

    def has(self, key: str) -> bool:
        """Whether the key or one of its other names is there, be it null."""
        return any(name in self._values for name in (key, *self._names.get(key, ())))

    def called(self, key: str) -> str:
        """The name that stands in the file, else the one that the class itself uses."""
        names = (key, *self._names.get(key, ()))
        stated = [name for name in names if self._values.get(name) is not None]
        present = stated or [name for name in names if name in self._values]
        own = names[0] if names[1:] == COMMON_NAMES.get(key, ()) else names[1]
        return present[0] if present else own

    def _place(self, key: str) -> str:
        return f"{self._path}.{self.called(key)}"

    def count(self, key: str, default: Any = REQUIRED) -> int:
        """A positive whole number; null means the default."""
        return self._whole(key, default, 1)

    def count_or_zero(self, key: str, default: Any = REQUIRED) -> int:
        """A whole number, or 0; null means the default."""
        return self._whole(key, default, 0)

    def optional_count(self, key: str, default: int | None) -> int | None:
        """A positive whole number, or null, which is not the same as being absent."""
        if self.get(key) is not None:
            return self.count(key)
        return None if self.has(key) else self._defaults.get(key, default)

    def flag(self, key: str, default: Any = REQUIRED) -> bool:
        """True or false; null means the default."""
        found = self._found(key, default)
        if not isinstance(found, bool):
            raise self.wrong(key, "true or false")
        return found

    def choice(self, key: str, choices: Sequence[str], default: Any = REQUIRED) -> str:
        """One of several words; null means the default."""
        found = self._found(key, default)
        if not isinstance(found, str) or found not in choices:
            known = did_you_mean(found, choices)
            raise InvalidValueError(f"{self._place(key)}: {shown(found)} is not read; {known}")
        return found

    def text(self, key: str) -> str:
        """A text that can be printed, or an empty one."""
        found = self.get(key)
        return plain(found, MAX_TEXT) if isinstance(found, str) else ""

    def factor(self, key: str, default: Any = REQUIRED) -> float:
        """A positive, finite number; null means the default."""
        found = self._found(key, default)
        good = isinstance(found, int | float) and not isinstance(found, bool)
        if not (good and 1e-6 <= found <= 1e6):
            raise self.wrong(key, "a number from 1e-6 to 1e6")
        return float(found)

    # -- lists ----------------------------------------------------------------------------------

    def kinds(self, key: str, length: int, known: Sequence[str]) -> list[str] | None:
        """A list of words, one a layer, each of them known; None where the key is absent."""
        found = self._list(key, length, "kinds")
        if found is None:
            return None
        for kind in found:
            if not isinstance(kind, str) or kind not in known:
                raise InvalidValueError(
                    f"{self._place(key)}: {shown(kind)} is not read; {did_you_mean(kind, known)}"
                )
        return found

    def counts(self, key: str, length: int) -> list[int] | None:
        """A list of whole numbers or zeros, one a layer; None where the key is absent."""
        found = self._list(key, length, "numbers")
        return None if found is None else [self._each(key, value) for value in found]

    def indices(self, key: str, length: int) -> frozenset[int]:
        """A list of layers by number, from 0; empty where the key is absent."""
        found = self.get(key)
        if found is None:
            return frozenset()
        if not isinstance(found, list) or len(found) > MAX_LAYERS:
            raise self.wrong(key, "a list of layer numbers")
        numbers = frozenset(self._each(key, value) for value in found)
        if numbers and max(numbers) >= length:
            raise self.wrong(key, f"layer numbers below {length}")
        return numbers

    def _list(self, key: str, length: int, what: str) -> list[Any] | None:
        found = self.get(key)
        if found is None:
            return None
        if not isinstance(found, list) or len(found) != length:
            raise self.wrong(key, f"a list of num_hidden_layers={length} {what}")
        return found

    def _each(self, key: str, value: Any) -> int:
        try:
            return whole(value, 0)
        except ValueError as error:
            raise InvalidValueError(f"{self._place(key)}: {error}, got {shown(value)}") from None

    # -- sections -------------------------------------------------------------------------------

    def section(
        self,
        key: str,
        names: Names = COMMON_NAMES,
        defaults: Mapping[str, Any] = MappingProxyType({}),
    ) -> Config:
        """A config within the config, which must be there."""
        found = self.get(key)
        if not isinstance(found, Mapping):
            raise self.wrong(key, "a config of its own", found)
        inner = Config(found, names, defaults, f"{self._path}.{key}")
        inner.asked = _Prefixed(self.asked, key)
        return inner

    def has_section(self, key: str) -> bool:
        """Whether there is a config under the key."""
        return isinstance(self.get(key), Mapping)

    def optional_section(self, key: str) -> Config | None:
        """A config within the config; None where the key is absent or null."""
        return None if self.get(key) is None else self.section(key)

    def told(self) -> list[tuple[str, Mapping[str, Any]]]:
        """The config and its sections that describe a text model, each with its path."""
        found: list[tuple[str, Mapping[str, Any]]] = [("", self._values)]
        for path, values in found[:]:
            found += _text_sections(path, values)
        for path, values in found[1:]:
            found += _text_sections(path, values)
        return found

    # -- words for errors -----------------------------------------------------------------------

    def wrong(self, key: str, expected: str, got: Any = REQUIRED) -> InvalidValueError:
        """The error for a value that is not what it should be."""
        found = self.get(key) if got is REQUIRED else got
        if found is None:
            return InvalidValueError(f"{self._place(key)}: required, but missing")
        return InvalidValueError(f"{self._place(key)}: expected {expected}, got {shown(found)}")

    def _found(self, key: str, default: Any) -> Any:
        found = self.get(key)
        if found is not None:
            return found
        default = self._defaults.get(key, default)
        if default is REQUIRED:
            raise InvalidValueError(f"{self._place(key)}: required, but missing")
        return default

    def _whole(self, key: str, default: Any, minimum: int) -> int:
        found = self._found(key, default)
        try:
            return whole(found, minimum)
        except ValueError as error:
            raise InvalidValueError(f"{self._place(key)}: {error}, got {shown(found)}") from None


class _Prefixed(set[str]):
    """What a section was asked, noted in the whole config's set as ``section.key``."""

    def __init__(self, outer: set[str], prefix: str) -> None:
        super().__init__()
        self._outer, self._prefix = outer, prefix

    def add(self, key: str) -> None:
        self._outer.add(f"{self._prefix}.{key}")

    def update(self, *keys: Any) -> None:
        for several in keys:
            for key in several:
                self.add(key)


def differ(one: Any, other: Any) -> bool:
    """Whether two values are not the same, whatever they are; what cannot tell is."""
    try:
        return bool(one != other)
    except Exception:  # arrays, and objects whose comparison fails
        return True


def _text_sections(path: str, values: Mapping[str, Any]) -> list[tuple[str, Mapping[str, Any]]]:
    inner = ((key, values.get(key)) for key in TEXT_SECTIONS)
    return [(f"{path}{key}.", part) for key, part in inner if isinstance(part, Mapping)]
