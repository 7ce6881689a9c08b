"""The public names and their signatures, pinned: a change of the face is a choice.

After a deliberate change, run this file as a script and put what it prints below.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator
from typing import Any

import perfmodel as pm
from perfmodel.base.spec import Spec
from perfmodel.machine.efficiency import IDEAL

FACE = """
"""


def signature(name: str) -> list[str]:
    value = getattr(pm, name)
    if inspect.isfunction(value):
        return [f"{name}{parameters(value)}"]
    if inspect.isclass(value):
        fields = ", ".join(getattr(value, "model_fields", ()))
        return [f"class {name}({fields})", *(f"    .{member}" for member in members(value))]
    return [f"module {name}"]


def parameters(function: Callable[..., Any]) -> str:
    # Types are the type checker's business; names, order, kinds and defaults are the face.
    bare = [
        p.replace(annotation=p.empty, default="IDEAL" if p.default is IDEAL else p.default)
        for p in inspect.signature(function).parameters.values()
    ]
    return str(inspect.Signature(bare)).replace("'IDEAL'", "IDEAL")


def members(kind: type) -> Iterator[str]:
    """Public members that a class of perfmodel's adds to what Pydantic gives every record."""
    for name in sorted(set(dir(kind)) - set(dir(Spec)) - set(getattr(kind, "model_fields", ()))):
        member = inspect.getattr_static(kind, name)
        if isinstance(member, classmethod):
            member = member.__func__
        if not name.startswith("_"):
            yield name + (parameters(member) if inspect.isfunction(member) else "")


def face() -> list[str]:
    return [line for name in pm.__all__ for line in signature(name)]


def test_the_face():
    assert face() == FACE.strip("\n").splitlines()


def test_names_are_sorted_and_exist():
    assert pm.__all__ == sorted(pm.__all__)
    assert set(pm.__all__) <= set(dir(pm))


def test_the_version_is_a_release():
    assert pm.__version__.count(".") == 2


if __name__ == "__main__":
    print("\n".join(face()))
