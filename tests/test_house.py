"""Does the house stand as it was drawn? Floors, lazy imports, frozen records, the face."""

from __future__ import annotations

import ast
import gc
import subprocess
import sys
import weakref
from collections.abc import Iterator
from pathlib import Path

import pytest

import perfmodel as pm
from perfmodel.base._data import catalogs
from perfmodel.base.spec import Spec

SRC = Path(pm.__file__).parent
MODULES = sorted(SRC.rglob("*.py"), key=str)

FLOORS = {
    "base": 0,
    "work": 1,
    "machine": 1,
    "roofline": 2,
    "sources": 2,
    "answers": 3,
    "interfaces": 4,
    "__init__": 5,
    "__main__": 5,
}
HEAVY = {"numpy", "sympy", "pandas", "scipy", "typer", "rich", "matplotlib"}
HEAVY |= {"pyarrow", "tqdm", "dask", "distributed", "threadpoolctl", "torch"}
# The ways in and out that work with a heavy library throughout, and are loaded only when asked for.
MAY_LOAD = {
    "interfaces/plots/map.py": {"numpy"},
    "interfaces/sweep.py": {"numpy"},
    "interfaces/sweeping/frame.py": {"numpy"},
    "interfaces/sweeping/grid.py": {"numpy"},
    "interfaces/sweeping/parquet.py": {"numpy"},
    "interfaces/measuring/_numpy.py": {"numpy"},
    "interfaces/measuring/_torch.py": {"torch"},
    "interfaces/symbolic.py": {"sympy"},
    "interfaces/_symbols.py": {"sympy"},
    "interfaces/_closed_form.py": {"sympy"},
}
# The command line: it prints, and loads what it is made of.
CLI = "interfaces/cli/"
# Where numbers of unknown kind come in and are checked; past them, only ``_num`` may ask.
DOORS = ("base/_num.py", "base/spec.py", "sources/huggingface/", "interfaces/sweep.py")
KINDS = {
    "int", "float", "complex", "bool", "Integral", "Real", "Rational", "Number",
    "ndarray", "generic", "floating", "integer", "Basic", "Expr", "Symbol",
}  # fmt: skip


def where(module: Path) -> str:
    return module.relative_to(SRC).as_posix()


def tree(module: Path) -> ast.Module:
    return ast.parse(module.read_text(encoding="utf-8"))


def imported(node: ast.AST) -> Iterator[str]:
    """Full names of what an import statement names."""
    if isinstance(node, ast.Import):
        yield from (alias.name for alias in node.names)
    elif isinstance(node, ast.ImportFrom):
        assert node.level == 0, "imports are absolute: a reader sees the floor"
        yield from (f"{node.module}.{alias.name}" for alias in node.names)


def room(name: str) -> str:
    """The room of ``perfmodel.<room>...``; a name of the face is the face's."""
    found = name.split(".")[1] if "." in name else "__init__"
    return found if found in FLOORS else "__init__"


def own_room(module: Path) -> str:
    return module.relative_to(SRC).parts[0].removesuffix(".py")


def at_import(node: ast.AST) -> Iterator[ast.AST]:
    """Nodes that run when a module is imported: no function bodies, no type checking."""
    for child in ast.iter_child_nodes(node):
        if isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda):
            continue
        if isinstance(child, ast.If) and "TYPE_CHECKING" in ast.unparse(child.test):
            continue
        yield child
        yield from at_import(child)


# -- floors ----------------------------------------------------------------------------------------


def test_every_module_is_in_a_room():
    assert {own_room(module) for module in MODULES} == set(FLOORS)


def test_what_is_installed_weighs_less_than_two_megabytes():
    files = [*SRC.rglob("*"), *catalogs().rglob("*")]
    weights = {path: path.stat().st_size for path in files if path.suffix in (".py", ".toml")}
    assert len(weights) > 400
    assert sum(weights.values()) < 2_000_000


@pytest.mark.parametrize("module", MODULES, ids=where)
def test_imports_point_down(module):
    own = own_room(module)
    for node in ast.walk(tree(module)):
        for name in imported(node):
            if name.split(".")[0] != "perfmodel":
                continue
            other = room(name)
            # One floor is one room: work knows no machine, machine no work, sources no roofline.
            below = FLOORS[other] < FLOORS[own]
            assert other == own or below, f"{where(module)}:{node.lineno} imports {name}"


def test_work_knows_no_chip_and_machine_no_model():
    for own, unknown in (("work", "machine"), ("machine", "work")):
        for module in (SRC / own).rglob("*.py"):
            names = {name for node in ast.walk(tree(module)) for name in imported(node)}
            rooms = {room(name) for name in names if name.startswith("perfmodel")}
            assert rooms <= {"base", own}, f"{where(module)} knows {unknown}"


@pytest.mark.parametrize("module", MODULES, ids=where)
def test_heavy_libraries_load_on_first_use(module):
    for node in at_import(tree(module)):
        loaded = {name.split(".")[0] for name in imported(node)} & HEAVY
        allowed = MAY_LOAD.get(where(module), set())
        allowed = {"typer", "rich"} if where(module).startswith(CLI) else allowed
        assert loaded <= allowed, f"{where(module)}:{node.lineno}"


def test_only_the_face_imports_by_name():
    for module in MODULES:
        text = module.read_text(encoding="utf-8")
        found = "import_module" in text or "__import__" in text
        assert found == (where(module) == "__init__.py"), where(module)


def run(code: str) -> str:
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=False, timeout=60
    )
    assert done.returncode == 0, done.stderr
    assert not done.stderr
    return done.stdout


REPORT = f"import sys; sys.stdout.write(' '.join(sorted({HEAVY!r} & sys.modules.keys())))"
ASK = """
chip = pm.GpuSpec(name="x", memory_bandwidth=1e12, memory_capacity=1e11, peak_flops={"bf16": 1e14})
shape = pm.ModelShape.dense(layers=2, hidden=64, heads=4, ffn=256, vocab=1000)
found = pm.decode(shape, chip, batch=4, context=100)
pm.prefill(shape, chip, prompt=100)
pm.estimate(shape, chip, found.step, small_steps="separate", efficiency=pm.Efficiency(exponent=2))
pm.memory(shape, chip, batch=4, context=100)
pm.max_batch(shape, chip, context=100)
pm.ridge_batch(shape, chip)
found.explain(), found.model_dump_json(), found.fits, found.rows()
"""


@pytest.mark.parametrize("ask", ["", ASK], ids=["import", "answers"])
def test_neither_import_nor_answers_load_a_heavy_library_or_print(ask):
    assert run(f"import perfmodel as pm\n{ask}\n{REPORT}") == ""


def test_a_sweep_loads_numpy_and_nothing_else():
    sweep = "pm.sweep(shape, chip, batch=[1, 2], context=[1, 2])"
    assert run(f"import perfmodel as pm\n{ASK}\n{sweep}\n{REPORT}") == "numpy"


@pytest.mark.parametrize("module", MODULES, ids=where)
def test_nothing_prints(module):
    if where(module).startswith(CLI):
        return
    for node in ast.walk(tree(module)):
        called = ast.unparse(node.func) if isinstance(node, ast.Call) else ""
        assert called not in {"print", "sys.stdout.write"}, f"{where(module)}:{node.lineno}"


def test_an_import_brings_the_answers_of_a_step_and_no_others():
    loaded = run("import perfmodel, sys; sys.stdout.write(' '.join(sys.modules))").split()
    answers = {name.removeprefix("perfmodel.answers.") for name in loaded if ".answers." in name}
    assert answers == {"_asked", "_device", "estimate", "holding", "holding.record", "steps"}


# -- one arithmetic --------------------------------------------------------------------------------


def asks_a_kind(node: ast.AST) -> bool:
    """``isinstance(x, float)``, ``type(x) is int``, ``x.dtype``."""
    if isinstance(node, ast.Attribute):
        return node.attr == "dtype"
    if isinstance(node, ast.Call) and ast.unparse(node.func) in {"isinstance", "issubclass"}:
        names = {ast.unparse(x).split(".")[-1] for x in ast.walk(node.args[1])}
        return bool(names & KINDS)
    if isinstance(node, ast.Compare):
        return isinstance(node.left, ast.Call) and ast.unparse(node.left.func) == "type"
    return False


@pytest.mark.parametrize("module", MODULES, ids=where)
def test_no_formula_asks_what_kind_of_number_it_holds(module):
    found = [node.lineno for node in ast.walk(tree(module)) if asks_a_kind(node)]
    if where(module).startswith(DOORS) or own_room(module) == "interfaces":
        return
    assert not found, f"{where(module)}: {found}"


def test_the_question_about_kinds_is_recognized():
    module = SRC / "base" / "_num.py"
    assert sum(asks_a_kind(node) for node in ast.walk(tree(module))) > 3


def test_a_roof_asks_for_no_sizes_of_kernels(monkeypatch):
    def never(_: pm.Operation) -> None:
        raise AssertionError("asked for sizes")

    monkeypatch.setattr(pm.Operation, "sizes", property(never))
    model, chip = pm.model("deepseek-v3"), pm.gpu("h100-sxm")
    pm.decode(model, chip, batch=4, context=100)
    with pytest.raises(AssertionError, match="asked for sizes"):
        pm.decode(model, chip, batch=4, context=100, efficiency="auto")


# -- records ---------------------------------------------------------------------------------------


def test_an_estimate_goes_with_the_last_that_holds_it():
    # In a cycle, arrays would stay until the collector comes by.
    gc.disable()
    try:
        ways = pm.Parallelism(pipeline=2)
        model, chip = pm.model("llama-3.1-8b"), pm.gpu("h100-sxm")
        found = pm.decode(model, chip, batch=4, context=100, parallelism=ways)
        assert found.floor < found.time
        held = [weakref.ref(found), *map(weakref.ref, found._devices)]
        del found
        assert not [one for one in held if one() is not None]
    finally:
        gc.enable()


def specs(of: type[Spec] = Spec) -> Iterator[type[Spec]]:
    for kind in of.__subclasses__():
        yield kind
        yield from specs(kind)


CHIP = pm.GpuSpec(name="x", memory_bandwidth=1e12, peak_flops={"bf16": 1e14, "fp8": 2e14})
SHAPE = pm.ModelShape.dense(layers=2, hidden=64, heads=4, ffn=256, vocab=1000)
PLANS = pm.plan(
    SHAPE,
    pm.Workload(prompt=9, output=9, concurrency=2),
    slo=pm.Slo(tpot=1.0),
    gpus=CHIP.model_copy(update={"memory_capacity": 1e9}),
    pools="together",
    parallelisms=[pm.Parallelism(), pm.Parallelism(tensor=2)],
)
EXAMPLES = [
    CHIP,
    CHIP.peak_flops,
    SHAPE,
    SHAPE.embedding,
    SHAPE.head,
    *SHAPE.blocks[0][1],
    pm.Totals(matrix_weights=10),
    pm.Precision.preset("fp8"),
    pm.Precision.preset("fp8").kv,
    pm.Efficiency(compute=0.7),
    pm.Group(count=1, new=1),
    pm.Step(groups=(pm.Group(count=1, new=1),)),
    pm.Origin(field="x", kind="user"),
    pm.Source(key="x", title="x"),
    pm.decode(SHAPE, CHIP, batch=1, context=1),
    pm.decode(SHAPE, CHIP, batch=1, context=1).operations[0],
    pm.memory(SHAPE, CHIP, batch=1, context=1),
    pm.MemoryPolicy.preset("llama.cpp"),
    pm.kv_pool(SHAPE, blocks=9, max_len=100),
    pm.kv_layout(SHAPE, batch=1, context=100, policy="vllm"),
    pm.generate(SHAPE, CHIP, prompt=1, output=1),
    pm.kv_growth(SHAPE, contexts=[1]),
    pm.compare(SHAPE, CHIP, batch=1, context=1),
    pm.Lengths(values=(1, 2)),
    pm.Workload(prompt=9, output=9, concurrency=2),
    pm.Scheduler(),
    pm.Disaggregated(),
    pm.Speculation(tokens=1, acceptance=0.5),
    pm.ServerForm(),
    pm.serve(SHAPE, CHIP, pm.Workload(prompt=9, output=9, concurrency=2)),
    pm.Slo(tpot=1.0),
    *PLANS.rows,
    PLANS,
    PLANS.rows[0].demand,
]


def kind(spec: Spec) -> str:
    return type(spec).__name__


def test_every_record_is_frozen_and_refuses_unknown_fields():
    found = list(specs())
    assert len(found) > 15
    for record in found:
        assert record.model_config["frozen"], record
        assert record.model_config["extra"] == "forbid", record


@pytest.mark.parametrize("spec", EXAMPLES, ids=kind)
def test_records_refuse_assignment(spec):
    before = spec.model_dump_json()
    for name in type(spec).model_fields:
        with pytest.raises(pm.errors.InvalidValueError, match="does not change"):
            setattr(spec, name, getattr(spec, name))
        with pytest.raises(pm.errors.InvalidValueError, match="does not change"):
            delattr(spec, name)
    assert spec.model_dump_json() == before


@pytest.mark.parametrize("spec", EXAMPLES, ids=kind)
def test_equal_records_have_equal_hashes(spec):
    again = type(spec).model_validate_json(spec.model_dump_json())
    assert again == spec
    assert again is not spec
    assert hash(again) == hash(spec)
    assert len({spec, again}) == 1


def test_changed_records_differ():
    assert SHAPE.with_(hidden=128) != SHAPE
    assert CHIP.model_copy(update={"memory_bandwidth": 2e12}) != CHIP
    assert pm.Precision.preset("fp8") != pm.Precision.preset("fp8", kv="fp8")
    assert len({SHAPE, SHAPE.with_(hidden=128), SHAPE.with_(hidden=64)}) == 2


@pytest.mark.parametrize("spec", EXAMPLES, ids=kind)
def test_an_unknown_field_names_the_nearest(spec):
    given = {name: getattr(spec, name) for name in type(spec).model_fields}
    for name in given:
        wrong = name + name[-1]
        meant = rf"{kind(spec)}\.{wrong}: unknown field; did you mean '{name}'\?"
        with pytest.raises(pm.errors.InvalidValueError, match=meant):
            type(spec)(**given, **{wrong: given[name]})


def test_a_misspelt_required_field_names_the_nearest():
    """It is missing as well, but that is not the news."""
    with pytest.raises(pm.errors.InvalidValueError, match="did you mean 'memory_bandwidth'"):
        pm.GpuSpec(name="x", memory_bandwith=1e12, peak_flops={"bf16": 1e14})
    with pytest.raises(pm.errors.InvalidValueError, match="did you mean 'count'"):
        pm.Group(cuont=1, new=1)


def test_an_unknown_field_of_a_part_is_named_with_the_part():
    with pytest.raises(pm.errors.InvalidValueError, match=r"PeakFlops\.bf17: .*mean 'bf16'\?"):
        pm.GpuSpec(name="x", memory_bandwidth=1e12, peak_flops={"bf17": 1e14, "bf16": 1e14})


@pytest.mark.parametrize(
    ("wrong", "meant"), [("kv_head", "kv_heads"), ("hiden", "hidden"), ("tide", "tied")]
)
def test_an_unknown_size_names_the_nearest(wrong, meant):
    with pytest.raises(pm.errors.UnknownKeyError, match=rf"did you mean '{meant}'\?"):
        SHAPE.with_(**{wrong: 1})


def test_an_unknown_preset_names_the_nearest():
    with pytest.raises(pm.errors.UnknownKeyError, match=r"did you mean 'w4a16'\?"):
        pm.decode(SHAPE, CHIP, batch=1, context=1, precision="w4a61")


def test_everything_raised_on_purpose_is_one_family():
    raised = [
        found for found in vars(pm.errors).values()
        if isinstance(found, type) and issubclass(found, Exception)
    ]  # fmt: skip
    own = [found for found in raised if found.__module__ == pm.errors.__name__]
    assert len(own) > 8
    assert all(issubclass(found, pm.errors.PerfModelError) for found in own)
    plain = (ValueError, KeyError, ImportError)
    assert all(found is pm.errors.PerfModelError or issubclass(found, plain) for found in own)


# -- the face --------------------------------------------------------------------------------------


def test_the_face_is_sorted_and_says_each_name_once():
    assert pm.__all__ == sorted(set(pm.__all__))


@pytest.mark.parametrize("name", pm.__all__)
def test_every_name_of_the_face_resolves(name):
    assert getattr(pm, name) is not None
    assert name in dir(pm)


def test_the_face_refuses_what_it_does_not_have():
    with pytest.raises(AttributeError, match="no attribute 'dekode'"):
        pm.dekode  # noqa: B018


def test_what_the_face_shows_is_all_of_it():
    """Public records, functions and modules that the face imports are in ``__all__``."""
    face = {name for name, found in vars(pm).items() if getattr(found, "__module__", "") and (
        str(found.__module__).startswith("perfmodel.")
    )}  # fmt: skip
    assert {name for name in face if not name.startswith("_")} <= set(pm.__all__)
