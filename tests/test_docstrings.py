"""Docstrings are contracts: what they list is what the signature takes, raises and returns."""

from __future__ import annotations

import ast
import importlib
import inspect
import pkgutil
import re
import textwrap
from collections.abc import Callable
from pathlib import Path
from typing import Any, Literal, get_args, get_origin

import pytest

import perfmodel as pm
from perfmodel.base.spec import Spec
from perfmodel.interfaces import plots, symbolic
from perfmodel.work.layers.layer import Layer

UNIT = re.compile(r"\[[^\]]+\]")
# What has a unit or a dimension; texts and flags say so in brackets as well.
NEEDS_UNIT = re.compile(r"\b(int|float|bool)\b")


def public_functions() -> dict[str, Callable[..., Any]]:
    found: dict[str, Callable[..., Any]] = {}
    for name in pm.__all__:
        value = getattr(pm, name)
        if inspect.isfunction(value):
            found[name] = value
        elif inspect.isclass(value) and value.__module__.startswith("perfmodel"):
            for attribute, raw in vars(value).items():
                method = raw.__func__ if isinstance(raw, classmethod) else raw
                if inspect.isfunction(method) and not attribute.startswith("_"):
                    found[f"{name}.{attribute}"] = method
    for module in (plots, symbolic):
        room = module.__name__.rpartition(".")[2]
        for name in module.__all__:
            if inspect.isfunction(value := getattr(module, name)):
                found[f"{room}.{name}"] = value
    for attribute, raw in vars(Layer).items():
        if inspect.isfunction(raw) and not attribute.startswith("_"):
            found[f"Layer.{attribute}"] = raw
    return found


def overrides(name: str) -> bool:
    """Whether a method redefines one of a class of perfmodel's."""
    owner, _, method = name.partition(".")
    found = getattr(pm, owner, None)
    bases = found.__mro__[1:] if inspect.isclass(found) else ()
    return any(method in vars(base) for base in bases if base.__module__.startswith("perfmodel"))


FUNCTIONS = public_functions()
TOP_LEVEL = [
    name for name in FUNCTIONS if "." not in name or name.startswith(("plots.", "symbolic."))
]


def sections(function: Callable[..., Any]) -> dict[str, str]:
    text = inspect.cleandoc(function.__doc__ or "")
    parts = re.split(r"^(\w[\w ]*)\n-+\n", text, flags=re.MULTILINE)
    return {"Summary": parts[0]} | dict(zip(parts[1::2], parts[2::2], strict=True))


def documented(section: str) -> dict[str, tuple[str, str]]:
    """Each entry's names with its type and its description."""
    found = {}
    for entry in re.split(r"\n(?=\S)", section.strip()):
        head, _, body = entry.partition("\n")
        names, _, kind = head.partition(" : ")
        for name in names.split(", "):
            found[name] = (kind, textwrap.dedent(body))
    return found


def arguments(function: Callable[..., Any]) -> list[str]:
    stars = {inspect.Parameter.VAR_KEYWORD: "**", inspect.Parameter.VAR_POSITIONAL: "*"}
    parameters = inspect.signature(function).parameters.values()
    return [stars.get(p.kind, "") + p.name for p in parameters if p.name not in ("self", "cls")]


@pytest.mark.parametrize("name", FUNCTIONS)
def test_every_public_function_says_in_one_sentence_what_it_does(name):
    first = sections(FUNCTIONS[name])["Summary"].partition("\n\n")[0]
    assert first
    assert first.rstrip().endswith((".", "]")) or "``" in first


@pytest.mark.parametrize("name", FUNCTIONS)
def test_parameters_are_those_of_the_signature_in_order(name):
    if not (expected := arguments(FUNCTIONS[name])):
        return
    if overrides(name):
        return  # the contract stands where the method is first declared
    listed = documented(sections(FUNCTIONS[name]).get("Parameters", ""))
    assert [key for key in listed if key] == expected


@pytest.mark.parametrize("name", FUNCTIONS)
def test_numbers_have_units(name):
    for argument, (kind, body) in documented(
        sections(FUNCTIONS[name]).get("Parameters", "")
    ).items():
        if NEEDS_UNIT.search(kind):
            assert UNIT.search(body), f"{name}: {argument} has no unit in brackets"


@pytest.mark.parametrize("name", TOP_LEVEL)
def test_top_level_functions_say_what_they_return_and_show_an_example(name):
    found = sections(FUNCTIONS[name])
    assert found["Returns"].strip()
    if name not in (
        "read_efficiency",
        "read_gpu",
        "read_prices",
        "symbolic.exact",
        "symbolic.any_gpu",
        "symbolic.any_model",
    ):
        assert ">>>" in found["Examples"]


@pytest.mark.parametrize("name", FUNCTIONS)
def test_errors_raised_in_the_body_are_listed(name):
    tree = ast.parse(textwrap.dedent(inspect.getsource(FUNCTIONS[name])))
    raised = {
        node.exc.func.id
        for node in ast.walk(tree)
        if isinstance(node, ast.Raise)
        and isinstance(node.exc, ast.Call)
        and isinstance(node.exc.func, ast.Name)
    }
    listed = set(documented(sections(FUNCTIONS[name]).get("Raises", "")))
    assert raised <= listed
    assert all(hasattr(pm.errors, error) for error in listed - {""})


def all_specs() -> list[type[Spec]]:
    found, waiting = [], [Spec]
    while waiting:
        children = waiting.pop().__subclasses__()
        found += [child for child in children if child.__module__.startswith("perfmodel")]
        waiting += children
    return found


@pytest.mark.parametrize("spec", all_specs(), ids=lambda spec: spec.__name__)
def test_quantities_declare_symbol_unit_and_meaning(spec):
    assert spec.__doc__
    for name, field in spec.model_fields.items():
        if not isinstance(field.json_schema_extra, dict):
            continue
        assert field.json_schema_extra["symbol"], name
        assert (field.description or "").endswith(f"[{field.json_schema_extra['unit']}]"), name


@pytest.mark.parametrize("name", [n for n in FUNCTIONS if "precision" in arguments(FUNCTIONS[n])])
def test_an_unknown_preset_is_listed_where_a_name_is_taken(name):
    if overrides(name):
        return
    found = sections(FUNCTIONS[name])
    if "str" in documented(found["Parameters"])["precision"][0]:
        assert "UnknownKeyError" in documented(found.get("Raises", ""))


def choices() -> dict[str, set[str]]:
    """The names that a field of a record may be one of, module by module."""
    found = {}
    for module in pkgutil.walk_packages(pm.__path__, "perfmodel."):
        if module.name.startswith(("perfmodel.sources", "perfmodel.__main__")):
            continue
        if module.name.endswith("._torch"):  # its library may be missing
            continue
        for name, value in vars(importlib.import_module(module.name)).items():
            if name[0].isupper() and get_origin(value) is Literal:
                found[name] = set(get_args(value))
    return found


@pytest.mark.parametrize(("name", "names"), choices().items())
def test_the_page_of_records_lists_each_choice(name, names):
    text = (Path(__file__).parents[1] / "docs/reference/records.md").read_text(encoding="utf-8")
    if name == "OriginKind":
        rows = re.findall(r'^\| `"([\w-]+)"` \|', text, re.MULTILINE)
        assert set(rows) == names
        return
    (row,) = re.findall(rf"^\| `{name}` \| (.*) \|$", text, re.MULTILINE)
    assert set(re.findall(r'"([^"]+)"', row)) == names
