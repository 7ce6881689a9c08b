"""The interactive page: does it show what the library says, in any browser, with no network?

The witness of each number is the library on plain numbers; the page has only what SymPy printed.
"""

import contextlib
import functools
import http.server
import importlib.util
import itertools
import json
import os
import random
import re
import shutil
import subprocess
import sys
import threading
from pathlib import Path

import pytest

import perfmodel as pm
from perfmodel.base.precision import PRESETS, Precision

ROOT = Path(__file__).parents[1]
REL = 1e-9
OF_STEP = (
    "time", "floor", "flops", "bytes", "intensity", "weight_traffic", "kv_traffic",
    "activation_traffic", "compute_time", "memory_time", "tokens_per_second",
)  # fmt: skip
OF_MEMORY = ("weights", "kv", "state", "needed")
# One model of each kind: its layers are what the others are made of, too.
KINDS = {
    "llama-3.1-8b": "dense",
    "gpt2": "learned positions",
    "gemma-3-27b": "sliding windows",
    "llama-4-scout": "chunks",
    "mixtral-8x7b": "experts",
    "deepseek-v3.2": "latent attention of selected tokens",
    "qwen3-next-80b-a3b": "linear attention",
    "falcon-mamba-7b": "states",
    "gpt-oss-20b": "a checkpoint of several formats",
}


@pytest.fixture(scope="module")
def hook():
    spec = importlib.util.spec_from_file_location("_try", ROOT / "docs" / "_try.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


# -- what the library says ------------------------------------------------------------------------


def precision_of(model, asked):
    """The precision that a choice means; None: the checkpoint's own."""
    own = model.precision
    preset = asked["precision"] or (own.name if own else "bf16")
    if preset not in PRESETS:
        return None
    kv, compute = asked["kv"] or None, asked["compute"] or None
    return Precision.preset(preset, kv=kv, compute=compute)


def step_of(asked):
    model, gpu = pm.model(asked["model"]), pm.gpu(asked["chip"])
    sizes = {"batch": asked["batch"], "precision": precision_of(model, asked)}
    if asked["phase"] == "decode":
        return pm.decode(model, gpu, context=asked["context"], **sizes)
    return pm.prefill(model, gpu, prompt=asked["prompt"], **sizes)


def expected(asked):
    """All figures of a choice by name, or what the library says instead."""
    try:
        step = step_of(asked)
    except pm.errors.PerfModelError as error:
        return {"refusal": str(error)}
    held = step.memory
    figures = {name: getattr(step, name) for name in OF_STEP}
    figures |= {name: getattr(held, name) for name in (*OF_MEMORY, "capacity", "fits")}
    rows = [[row.operation.name, row.flops, row.bytes, row.time, row.bound] for row in step.rows()]
    return figures | {"bound": step.bound, "rows": rows, "refusal": ""}


def assert_same(shown, said):
    """Every figure of the library is what is shown, to 1e-9."""
    for name, value in said.items():
        if name == "rows":
            assert len(shown["rows"]) == len(value)
            for got, want in zip(shown["rows"], value, strict=True):
                assert [got["name"], got["bound"]] == [want[0], want[-1]]
                assert [got["flops"], got["bytes"], got["time"]] == pytest.approx(
                    want[1:4], rel=REL
                )
        elif isinstance(value, float | int) and not isinstance(value, bool):
            assert shown[name] == pytest.approx(value, rel=REL), name
        else:
            assert shown[name] == value, name


def choices(seed):
    """Any number of choices at random: most can be answered, some are refused."""
    rng = random.Random(seed)
    models, chips = list(pm.models()), list(pm.gpus())
    rng.shuffle(models)
    for model in itertools.cycle(models):
        yield {
            "model": model,
            "chip": rng.choice(chips),
            "precision": rng.choice(["", *PRESETS]),
            "kv": rng.choice(["", "", "bf16", "fp8", "int8", "nvfp4"]),
            "compute": "",
            "phase": rng.choice(["decode", "prefill"]),
            "batch": int(2 ** rng.uniform(0, 12)),
            "context": int(2 ** rng.uniform(0, 20)),
            "prompt": int(2 ** rng.uniform(0, 17)),
        }


# -- what is generated, without a browser ---------------------------------------------------------


@pytest.mark.parametrize("key", KINDS)
def test_a_form_says_what_the_library_says(hook, key):
    node = shutil.which("node")
    if node is None:
        pytest.skip("node is not installed; the browser runs the same forms")
    model, gpu = pm.model(key), pm.gpu("b200-sxm")
    own = model.precision is not None and bool(model.precision.parts)
    form = hook.form(model, own=own)
    precision = model.resolve_precision(None if own else "fp8-channel")
    peaks = {name: getattr(gpu.peak_flops, name) for name in gpu.peak_flops.formats}
    peaks |= {part: peaks[name] for part, name in hook.computes_of(precision).items()}
    sizes = [(1, 1, 0), (64, 1, 1000), (3, 1000, 0), (2, 7, 1017)]
    given = [[*size, gpu.memory_bandwidth, peaks, hook.bytes_of(precision)] for size in sizes]
    program = f"console.log(JSON.stringify({json.dumps(given)}.map(x=>({form.body})(...x))))"
    run = subprocess.run([node, "-e", program], capture_output=True, text=True, check=True)
    for found, (count, new, past) in zip(json.loads(run.stdout), sizes, strict=True):
        groups = (pm.Group(count=count, new=new, past=past),)
        step = pm.estimate(model, gpu, pm.Step(groups=groups), precision=precision)
        for name in OF_STEP:
            assert found[name] == pytest.approx(getattr(step, name), rel=REL), name
        for name in OF_MEMORY:
            assert found[name] == pytest.approx(getattr(step.memory, name), rel=REL), name
        times = [row[hook.OF_ROW.index("time")] for row in found["rows"]]
        assert times == pytest.approx([row.time for row in step.rows()], rel=REL)
    assert [name for name, *_ in form.operations] == [row.operation.name for row in step.rows()]


def test_a_chip_refuses_in_the_words_of_the_library(hook):
    refusals = hook.Numbered()
    chips = hook.chips(refusals)
    assert list(chips) == list(pm.gpus())
    for key, chip in chips.items():
        gpu = pm.gpu(key)
        for compute, number in chip["lacks"].items():
            text = list(refusals)[number].format(
                chip=gpu.name, format=compute, formats=", ".join(chip["peaks"])
            )
            with pytest.raises(pm.errors.UnsupportedFormatError, match=f"^{re.escape(text)}$"):
                gpu.peak(compute)


def test_a_format_is_its_bytes_a_value_and_a_row(hook):
    """int8-row: one byte a weight, and a scale a row; a block of 128 in int4: 66 bytes."""
    ways = hook.precisions()
    assert set(ways) == set(PRESETS)
    row = ways["w8a16"][""]["bytes"]
    assert (row["w"], row["r"], row["i"], row["o"]) == (1, 2, 2, 2)
    assert ways["w4a16"][""]["bytes"]["w"] * 128 == 66
    assert ways["fp8"]["bf16"]["suffix"] == "+compute16"
    assert ways["fp8"]["bf16"]["computes"]["linear"] == "bf16"
    assert "fp8" not in ways["bf16"]  # narrower


def test_the_page_says_what_it_needs_where_there_is_no_javascript():
    page = (ROOT / "docs" / "try" / "index.md").read_text(encoding="utf-8")
    assert "JavaScript" in page[page.index("<noscript>") : page.index("</noscript>")]


# -- in a browser ---------------------------------------------------------------------------------


def missing(what):
    """No browser is a reason to skip, but not where one is asked for."""
    if os.environ.get("PERFMODEL_REQUIRE_BROWSER"):
        pytest.fail(f"PERFMODEL_REQUIRE_BROWSER is set, but {what}")
    pytest.skip(what)


@pytest.fixture(scope="module")
def browser(tmp_path_factory):
    programs = [shutil.which(name) for name in ("chromium", "chromedriver")]
    if None in programs:
        missing("there is no chromium with its chromedriver")
    try:
        from selenium import webdriver
        from selenium.webdriver.chrome.service import Service
    except ImportError:
        missing("the extra browser is not installed")
    options = webdriver.ChromeOptions()
    options.binary_location = programs[0]
    for argument in (
        "--headless",
        "--no-sandbox",
        "--disable-gpu",
        "--disable-quic",
        "--no-first-run",
        "--disable-background-networking",
        "--disable-component-update",
        "--disable-sync",
        "--window-size=1280,1000",
        f"--user-data-dir={tmp_path_factory.mktemp('profile')}",
    ):
        options.add_argument(argument)
    driver = webdriver.Chrome(options=options, service=Service(programs[1]))
    yield driver
    driver.quit()


@pytest.fixture(scope="module")
def site(browser, tmp_path_factory):
    """The folder of the built site, or of a site that is this page alone."""
    built = os.environ.get("PERFMODEL_SITE")
    if built:
        return Path(built)
    if importlib.util.find_spec("mkdocs") is None:
        missing("the extra docs is not installed")
    folder = tmp_path_factory.mktemp("site")
    config = folder / "mkdocs.yml"
    config.write_text(
        f"INHERIT: {ROOT / 'mkdocs.yml'}\n"
        f"docs_dir: {ROOT / 'docs'}\n"
        f"hooks: [{ROOT / 'docs' / '_try.py'}]\n"
        "strict: false\nplugins: []\nnav: [{Try it: try/index.md}]\n"
        'exclude_docs: "/*\\n!/try/"\n',
        encoding="utf-8",
    )
    subprocess.run(
        [sys.executable, "-m", "mkdocs", "build", "--quiet", "-f", config, "-d", folder / "out"],
        env=os.environ | {"NO_MKDOCS_2_WARNING": "1"},
        check=True,
    )
    return folder / "out"


@pytest.fixture(scope="module")
def address(site):
    """The site on a server of this machine."""

    class Quiet(http.server.SimpleHTTPRequestHandler):
        def log_message(self, *_):
            pass

    handler = functools.partial(Quiet, directory=site)
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}/try/"
        server.shutdown()


@pytest.fixture
def page(browser, address):
    """The page as it is first seen."""
    browser.get("about:blank")
    browser.get(address)
    return browser


SHOWN = """
const shown = {};
for (const place of document.querySelectorAll("#try [data-figure]")) {
  const text = place.dataset.value;
  shown[place.dataset.figure] = text === "" || isNaN(text) ? text : Number(text);
}
const inputs = {};
for (const id of ["model", "chip", "precision", "kv", "compute", "batch", "context", "prompt"]) {
  inputs[id] = document.getElementById(`try-${id}`).value;
}
inputs.phase = document.querySelector("#try [name=phase]:checked").value;
const refusal = document.getElementById("try-refusal");
return [shown, inputs, refusal.hidden ? "" : refusal.firstChild.textContent];
"""


def seen(page):
    """What the page shows, what its inputs say, and how it refuses."""
    shown, inputs, refusal = page.execute_script(SHOWN)
    return (
        shown,
        inputs | {key: int(inputs[key]) for key in ("batch", "context", "prompt")},
        refusal,
    )


def assert_shows(page):
    """The page shows what the library says of what its inputs say."""
    shown, inputs, refusal = seen(page)
    said = expected(inputs)
    assert refusal == said["refusal"], inputs
    if refusal:
        assert shown["time"] == "", inputs
        return
    for name in (*OF_STEP, *OF_MEMORY):
        assert shown[name] == pytest.approx(said[name], rel=REL), (name, inputs)
    assert shown["bound"] == said["bound"], inputs
    assert shown["capacity"] == (said["capacity"] or ""), inputs
    assert shown["fits"] == {True: "true", False: "false", None: ""}[said["fits"]], inputs


def element(page, name):
    return page.find_element("id", f"try-{name}")


def pick(page, name, value):
    from selenium.webdriver.support.ui import Select

    Select(element(page, name)).select_by_value(value)


def write(page, name, value):
    """Over what stands there, as a reader does."""
    from selenium.webdriver.common.keys import Keys

    element(page, name).send_keys(Keys.CONTROL, "a", Keys.NULL, Keys.BACKSPACE, str(value))


@pytest.mark.parametrize("seed", range(4))
def test_any_choice_is_answered_as_by_the_library(page, seed):
    asked = list(itertools.islice(choices(seed), 400))
    found = page.execute_script("return arguments[0].map(perfmodel.evaluate)", asked)
    answered = 0
    for one, shown in zip(asked, found, strict=True):
        said = expected(one)
        assert_same(shown, said)
        answered += not said["refusal"]
    assert 200 < answered < 400  # and some are refused


def test_the_largest_batch_is_that_of_the_library(page):
    asked = [{**one, "phase": "decode"} for one in itertools.islice(choices(9), 150)]
    asked = [one for one in asked if not expected(one)["refusal"] and pm.gpu(one["chip"]).capacity]
    found = page.execute_script("return arguments[0].map(perfmodel.largestBatch)", asked)
    assert len(asked) > 50
    for one, most in zip(asked, found, strict=True):
        model = pm.model(one["model"])
        what = {"context": one["context"], "precision": precision_of(model, one)}
        try:
            said = pm.max_batch(model, pm.gpu(one["chip"]), **what)
        except pm.errors.DoesNotFitError:
            said = 0
        assert most == said, one


def test_what_is_shown_follows_the_inputs(page):
    """A reader changes one thing after the other; the page is right at each step."""
    rng = random.Random(7)
    wanted = choices(7)
    for _ in range(200):
        name = rng.choice(
            ["model", "chip", "precision", "kv", "compute", "batch", "context", "prompt", "phase"]
        )
        value = next(wanted)[name]
        _, inputs, _ = seen(page)
        if name == "phase":
            page.find_element("css selector", f"label:has(#try-{value})").click()
        elif name in ("batch", "context", "prompt"):
            phase = {"context": "decode", "prompt": "prefill"}.get(name, inputs["phase"])
            page.find_element("css selector", f"label:has(#try-{phase})").click()
            write(page, name, value)
        else:
            if name == "compute":
                value = rng.choice(["", "bf16", "fp16", "fp32"])
            if not page.find_element("css selector", f"#try-{name} [value='{value}']").is_enabled():
                continue
            pick(page, name, value)
        assert str(seen(page)[1][name]) == str(value)
        assert_shows(page)


def test_a_slider_moves_by_keys_and_everything_with_it(page):
    from selenium.webdriver.common.keys import Keys

    for name in ("batch", "context"):
        before = seen(page)
        element(page, f"{name}-slider").send_keys(Keys.ARROW_RIGHT)
        after = seen(page)
        assert after[1][name] == round(before[1][name] * 2**0.25)
        assert after[0]["time"] > before[0]["time"]
        assert_shows(page)


def test_a_number_that_is_none_changes_nothing(page):
    before = seen(page)[0]
    for wrong in ("0", "-3", "0.5", ""):
        write(page, "batch", wrong)
        assert element(page, "batch").get_attribute("aria-invalid") == "true"
        assert page.execute_script(SHOWN)[0] == before
    element(page, "context").click()  # what was asked last stands again
    assert seen(page)[1]["batch"] == 64


def test_a_chip_without_the_format_says_so_and_how_to_go_on(page):
    pick(page, "chip", "v100-sxm-32gb")
    _, inputs, refusal = seen(page)
    assert refusal == expected(inputs)["refusal"]
    assert refusal.startswith("NVIDIA Tesla V100 SXM2 32 GB has no bf16 peak; it has:")
    element(page, "refusal").find_element("tag name", "button").click()
    shown, inputs, refusal = seen(page)
    assert (inputs["compute"], refusal) == ("fp16", "")
    gpu = pm.gpu("v100-sxm-32gb")
    model = pm.model("llama-3.1-8b")
    said = pm.decode(model, gpu, batch=64, context=4096, precision="bf16+computefp16")
    assert shown["time"] == pytest.approx(said.time, rel=REL)
    assert 'precision="bf16+computefp16"' in element(page, "python").text


def test_what_does_not_fit_is_said(page):
    pick(page, "model", "llama-3.1-70b")
    assert element(page, "head").find_element("css selector", "[data-figure=fits]").text == (
        "does not fit"
    )
    assert seen(page)[0]["largest_batch"] == 0


def test_the_code_that_is_shown_gives_what_is_shown(page):
    answered = [one for one in itertools.islice(choices(21), 30) if not expected(one)["refusal"]]
    for one in answered[:10]:
        page.execute_script(
            "location.hash = arguments[0]", "&".join(f"{k}={v}" for k, v in one.items())
        )
        wait_for(page, lambda one=one: seen(page)[1]["model"] == one["model"])
        names = {}
        with contextlib.redirect_stdout(None):
            exec(element(page, "python").get_property("textContent"), names)
        assert seen(page)[0]["time"] == pytest.approx(names["step"].time, rel=REL)


def wait_for(page, condition):
    from selenium.webdriver.support.ui import WebDriverWait

    WebDriverWait(page, 20).until(lambda _: condition())


def test_the_address_holds_the_choice(page, address):
    pick(page, "model", "qwen3-32b")
    write(page, "batch", 7)
    wait_for(page, lambda: "batch=7" in page.current_url)
    shared = page.current_url
    page.get("about:blank")
    page.get(shared)
    _, inputs, _ = seen(page)
    assert (inputs["model"], inputs["batch"], inputs["context"]) == ("qwen3-32b", 7, 4096)
    assert_shows(page)
    page.get("about:blank")
    page.get(f"{address}#model=none&batch=-1&phase=sleep&context=9")
    _, inputs, _ = seen(page)
    assert (inputs["model"], inputs["batch"], inputs["phase"]) == ("llama-3.1-8b", 64, "decode")
    assert inputs["context"] == 9


def test_nothing_is_asked_of_the_network(page, address, site):
    host = address.removesuffix("try/")

    def asked():
        names = "performance.getEntriesByType('resource').map(e => e.name)"
        return page.execute_script(f"return {names}")

    wait_for(page, lambda: f"{address}model.js" in asked())  # entries may come a little late
    assert [name for name in asked() if not name.startswith(host)] == []
    html = (site / "try" / "index.html").read_text(encoding="utf-8")
    loaded = re.findall(r"<(?:script|link|img|iframe)\b[^>]*?(?:src|href)=\"?([^\s\">]+)", html)
    assert loaded
    assert not [place for place in loaded if re.match(r"(https?:)?//", place)]
    files = [site / "try" / name for name in ("model.js", "page.js", "page.css")]
    assert sum(file.stat().st_size for file in files) < 500_000


def test_it_works_from_a_folder_without_a_server(browser, site):
    browser.get("about:blank")
    browser.get((site / "try" / "index.html").as_uri())
    assert_shows(browser)
    pick(browser, "chip", "mi300x")
    assert_shows(browser)


def test_every_input_has_a_name_and_every_chart_says_what_it_shows(page):
    nameless = page.execute_script(
        "return [...document.querySelectorAll('#try :is(input, select)')]"
        ".filter(e => !e.labels.length && !e.ariaLabel).map(e => e.id)"
    )
    assert nameless == []
    said = page.execute_script(
        "return [...document.querySelectorAll('#try svg')].map(e => e.getAttribute('aria-label'))"
    )
    assert len(said) == 3
    assert all(said)
    wait_for(page, lambda: "14.8 ms" in element(page, "said").get_property("textContent"))


@pytest.mark.parametrize("width", [360, 390, 1280])
def test_the_page_is_never_wider_than_the_screen(page, address, width):
    sizes = {"width": width, "height": 800, "deviceScaleFactor": 1, "mobile": width < 500}
    page.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", sizes)
    for choice in ("", "#model=deepseek-r1&chip=gb200", "#chip=v100-sxm-32gb"):
        page.get("about:blank")
        page.get(address + choice)
        assert page.execute_script("return document.documentElement.scrollWidth") <= width
    page.execute_cdp_cmd("Emulation.clearDeviceMetricsOverride", {})


def test_the_charts_draw_each_operation_where_it_belongs(page):
    """Points stand in the order of their intensities; bars are as long as their share of time."""
    pick(page, "chip", "a100-sxm-80gb")
    step = step_of(seen(page)[1])
    points = page.execute_script(
        "return [...document.querySelectorAll('#try-roofline .point')]"
        ".map(e => [e.textContent.split(':')[0], +e.getAttribute('cx'), +e.getAttribute('cy')])"
    )
    place = {name: (x, y) for name, x, y in points}
    rows = [row for row in step.rows() if row.flops]
    assert sorted(place) == sorted(row.operation.name for row in rows)
    by_intensity = sorted(rows, key=lambda row: row.operation.intensity)
    xs = [place[row.operation.name][0] for row in by_intensity]
    assert xs == sorted(xs)
    parts = page.execute_script(
        "return [...document.querySelectorAll('#try-times rect')]"
        ".map(e => [e.textContent.split(':')[0], +e.getAttribute('width')])"
    )
    width = page.execute_script("return document.querySelector('#try-times svg').clientWidth")
    shares = {row.operation.name: row.time / step.time for row in step.rows()}
    for name, drawn in parts[: len(rows)]:
        if shares.get(name, 0) > 0.01:
            assert drawn == pytest.approx(shares[name] * width, abs=1.5)


# -- the other pages ------------------------------------------------------------------------------


@pytest.fixture
def home(address, site):
    """The first page of the whole site."""
    if not (site / "search").is_dir():
        pytest.skip("PERFMODEL_SITE names no folder of the whole site")
    return address.removesuffix("try/")


def test_a_search_finds_the_pages_of_a_word(browser, home):
    browser.get(home)
    place = browser.find_element("css selector", ".md-search__input")
    place.click()
    place.send_keys("critical context")

    def found():
        hits = browser.find_elements("css selector", ".md-search-result__link")
        return [hit.get_attribute("href") for hit in hits]

    wait_for(browser, lambda: any("/ridge/" in hit for hit in found()))


@pytest.mark.parametrize(
    "path", ["", "attention/", "serving/", "plots/", "comparison/", "catalog/"]
)
def test_a_page_fits_a_phone_and_shows_its_formulas(browser, home, path):
    phone = {"width": 360, "height": 800, "deviceScaleFactor": 1, "mobile": True}
    browser.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", phone)
    browser.get(home + path)
    assert browser.execute_script("return document.documentElement.scrollWidth") <= 360
    sizes = browser.execute_script(
        "return [...document.querySelectorAll('math')].map(e => e.getBoundingClientRect().height)"
    )
    browser.execute_cdp_cmd("Emulation.clearDeviceMetricsOverride", {})
    if path in ("attention/", "serving/"):
        assert len(sizes) > 5
        assert min(sizes) > 5
