"""The site: its derivations by hand, its formulas as MathML, its pages in order."""

import re
import sys
import tomllib
from itertools import pairwise
from pathlib import Path
from types import SimpleNamespace
from xml.etree import ElementTree

import pytest
import sympy

pytest.importorskip("latex2mathml", reason="formulas need the extra docs")

DOCS = Path(__file__).parents[1] / "docs"
sys.path.insert(0, str(DOCS))

import _catalogs  # noqa: E402
import _cli  # noqa: E402
import _derivations  # noqa: E402
import _formulas  # noqa: E402
import _tidy  # noqa: E402

PAGES = sorted(path.relative_to(DOCS).as_posix() for path in DOCS.rglob("*.md"))
EXPLAINED = ("roofline", "attention", "experts", "precision", "parallelism", "serving")


def value(derivation, step, **numbers):
    """A step of a derivation at numbers for its symbols."""
    expression = sympy.sympify(_derivations.DERIVATIONS[derivation]()[step].value)
    return float(expression.subs({s: numbers[str(s)] for s in expression.free_symbols}))


def test_one_token_through_a_table_is_two_flops_a_weight_and_two_bytes():
    table = {"T": 1, "k": 4096, "n": 4096, "F": 989e12, "beta": 3.35e12}
    assert value("roofline", 0, **table) == 2 * 4096 * 4096
    assert value("roofline", 1, **table) == 2 * 4096 * 4096 + 2 * (4096 + 4096)
    assert value("roofline", 4, **table) == pytest.approx(33_554_432 / 989e12)
    assert value("roofline", 5, **table) == pytest.approx(33_570_816 / 3.35e12)
    assert value("roofline", 7, **table) == pytest.approx(295.22, abs=0.01)


def test_eight_prompt_tokens_make_thirty_six_pairs():
    assert value("causal_attention", 1, n=8) == 8 + 7 + 6 + 5 + 4 + 3 + 2 + 1
    assert value("causal_attention", 0, n=3, s=5) == 6 + 7 + 8
    assert value("causal_attention", 3) == 0


def test_mixtral_s_four_tokens_meet_five_and_a_half_experts():
    assert value("experts", 0, E=8, k=2, T=4) == pytest.approx(8 * (1 - (3 / 4) ** 4))
    assert value("experts", 1, k=2) == 2


def test_a_ring_of_eight_sends_seven_quarters():
    ring = {"n": 8, "Q": 131_072, "b": 450e9, "l": 5e-6}
    assert value("all_reduce", 0, **ring) == 131_072 * 7 / 4
    assert value("all_reduce", 1, **ring) == 14
    assert value("all_reduce", 2, **ring) == pytest.approx(229_376 / 450e9 + 14 * 5e-6)


def test_a_server_s_means_are_those_of_a_calculator():
    # Poisson with mean 1/2: e^-0.5 = 0.60653, and half of it for one prompt.
    assert value("serving", 0, a=0.5) == pytest.approx(0.5 - 1 + 0.60653, abs=1e-5)
    assert value("serving", 1, a=0.5) == pytest.approx(0.5 - 2 + 2.5 * 0.60653, abs=1e-5)
    # Two whole steps' work begin in every fourth step: u = 1/2, q = 1; so (1 + 1/4 - 1/2) / 1.
    assert value("serving", 2, u=0.5, q=1.0) == pytest.approx(0.75)
    # Pollaczek and Khinchine: services of one second all alike, half busy: half a second.
    assert value("serving", 3, s=1, q=1, rho=0.5) == pytest.approx(0.5)
    assert value("serving", 4, alpha=0.7) == pytest.approx(2.533)


@pytest.mark.parametrize("name", _derivations.DERIVATIONS)
def test_every_derivation_becomes_mathml(name):
    for step in _derivations.DERIVATIONS[name]():
        html = f'<div class="arithmatex">\\[\n{step.formula}\n\\]</div>'
        drawn = ElementTree.fromstring(_formulas.mathml(html))
        assert drawn[0].tag.endswith("math")
        assert not re.search(r"[\\{}]", "".join(drawn.itertext()))


def test_formulas_in_a_line_are_escaped_once():
    drawn = _formulas.mathml(r'a <span class="arithmatex">\(x &lt; y\)</span> b')
    assert drawn.startswith("a <math")
    assert "&amp;" not in drawn


@pytest.mark.parametrize("page", PAGES)
def test_headings_are_in_order_and_pictures_have_words(page):
    text = re.sub(
        r"^( *)```.*?^\1```", "", (DOCS / page).read_text(), flags=re.DOTALL | re.MULTILINE
    )
    text = re.sub(r"^::: ", "## ", text, flags=re.MULTILINE)  # headings of the reference
    levels = [len(marks) for marks in re.findall(r"^(#+) ", text, flags=re.MULTILINE)]
    assert levels[:1] == [1]
    assert levels.count(1) == 1
    assert all(later <= earlier + 1 for earlier, later in pairwise(levels))
    assert not re.findall(r"!\[\s*\]\(", text)


@pytest.mark.parametrize("page", EXPLAINED)
def test_an_explanation_derives_concludes_and_asks(page):
    text = (DOCS / f"{page}.md").read_text()
    assert "<!-- derivation: " in text
    assert text.count('!!! abstract "Takeaway"') == 1
    assert text.count("??? question ") >= 2


def test_a_page_asks_for_derivations_that_there_are():
    asked = {
        name
        for page in PAGES
        for name in re.findall(r"<!-- derivation: (\w+) -->", (DOCS / page).read_text())
    }
    assert asked == set(_derivations.DERIVATIONS)


def test_the_tables_of_the_catalogs_say_what_papers_say():
    row = next(line for line in _catalogs.models().splitlines() if "`llama-3.1-8b`" in line)
    assert "| 8.03 | 8.03 | 131 kB | bf16, 16.1 GB |" in row
    assert "| `nvfp4` | 4 | 8 | 16 | 4.5 |" in _catalogs.formats()


def test_a_number_in_a_table_stays_with_its_unit():
    row = "<td>7.5 ms</td><td>2 of 3 GB</td><td>1 word</td><td>16 % mean, pooled</td>"
    kept = "<td>7.5\u00a0ms</td><td>2 of 3 GB</td><td>1\u00a0word</td><td>16 % mean, pooled</td>"
    assert _tidy.on_page_content(row) == kept


def test_a_page_shows_nothing_that_is_there_for_its_tests():
    page = ">>> slow()  # doctest: +SKIP\n>>> quick()  # a comment\n"
    at = SimpleNamespace(url="measure/", meta={})
    assert _tidy.on_page_markdown(page, at) == ">>> slow()\n>>> quick()  # a comment\n"
    assert not at.meta


def test_a_search_finds_explanations_before_the_reference():
    at = SimpleNamespace(url="reference/models/", meta={})
    _tidy.on_page_markdown("# Models\n", at)
    assert at.meta["search"]["boost"] < 1


def test_the_command_line_s_page_names_every_command_and_no_bare_bracket():
    page = _cli.commands()
    for command in (
        *("predict", "serve", "plan", "sweep", "measure", "calibrate", "compare"),
        *("gpus", "models", "show"),
    ):
        assert f"### `perfmodel {command}`\n" in page
    assert "| `MODEL` | required |" in page


def test_the_page_on_installing_names_every_extra_once():
    project = tomllib.loads((DOCS.parent / "pyproject.toml").read_text())["project"]
    named = re.findall(r"^\| `([a-z]+)` \|", (DOCS / "install.md").read_text(), flags=re.MULTILINE)
    assert sorted(named) == sorted(project["optional-dependencies"])
