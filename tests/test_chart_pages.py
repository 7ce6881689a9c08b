"""The page of charts: each picture is drawn by the code above it, in both themes, with a text."""

import importlib.util
import re
from pathlib import Path

import pytest

import perfmodel as pm

pytest.importorskip("matplotlib")

DOCS = Path(__file__).parents[1] / "docs"
PAGE = """
```python
>>> import perfmodel as pm
>>> chip = pm.GpuSpec(name="x", memory_bandwidth=1e12, peak_flops={"bf16": 1e14})
>>> ax = pm.plots.roofline(chip)
```

<!-- chart one: Two roofs
and a ridge. -->

```python
>>> raise AssertionError("code after the last chart is not run")
```
"""


@pytest.fixture(scope="module")
def hook():
    spec = importlib.util.spec_from_file_location("_charts", DOCS / "_charts.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_a_chart_is_drawn_for_each_theme(hook):
    light, dark = (hook.charts(PAGE, theme)["one"] for theme in hook.THEMES)
    assert light.startswith(b"<?xml")
    assert b"#1e2129" in dark
    assert b"#1e2129" not in light
    assert hook.charts(PAGE, "light")["one"] == light, "the same bytes at every build"
    assert pm.plots.roofline.__kwdefaults__["theme"] == "light"


def test_a_page_shows_it_with_its_text(hook):
    assert hook.shown(PAGE).splitlines()[7:9] == [
        "![Two roofs and a ridge.](charts/one-light.svg#only-light)",
        "![Two roofs and a ridge.](charts/one-dark.svg#only-dark)",
    ]


def test_every_kind_of_chart_is_on_the_page(hook):
    text = (DOCS / "plots.md").read_text(encoding="utf-8")
    drawn = set(re.findall(r"ax = pm\.plots\.(\w+)\(", text))
    assert drawn == {name for name in pm.plots.__all__ if name[0].islower()}
    asked = re.findall(r"<!-- chart ([\w-]+): (.*?) -->", text, re.DOTALL)
    names = [name for name, _ in asked]
    assert len(set(names)) == len(names)
    assert all(len(alt) > 60 and alt.endswith(".") for _, alt in asked)
    assert "<!-- chart" not in hook.shown(text)
