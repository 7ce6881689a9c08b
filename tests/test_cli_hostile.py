"""The command line against typing errors and malice: one line that says why, and exit code 2."""

from __future__ import annotations

import pytest

from perfmodel.interfaces.cli import run

PREDICT = ["predict", "llama-3.1-8b", "--gpu", "h100-sxm"]
SERVE = ["serve", "llama-3.1-8b", "--gpu", "h100-sxm", "--prompt", "1000", "--output", "200"]


def out(capsys, *arguments: str) -> str:
    code = run(list(arguments))
    captured = capsys.readouterr()
    assert (code, captured.err) == (0, "")
    return captured.out


def refused(capsys, *arguments: str) -> str:
    code = run(list(arguments))
    captured = capsys.readouterr()
    assert (code, captured.out) == (2, "")
    assert captured.err.startswith("perfmodel: ")
    assert captured.err.count("\n") == 1
    return captured.err.removeprefix("perfmodel: ").rstrip("\n")


# -- numbers ---------------------------------------------------------------------------------------


def test_numbers_are_read_as_python_writes_them(capsys):
    plain = ["--prompt", "1000", "--output", "200", "--rate", "0.5"]
    spelt = ["--prompt", "1e3", "--output", "2_00", "--rate", "5e-1"]
    serve = [*SERVE[:4], "--json"]
    assert out(capsys, *serve, *spelt) == out(capsys, *serve, *plain)
    plain = out(capsys, *PREDICT, "--batch", "1000", "--context", "1000000")
    assert out(capsys, *PREDICT, "--batch", "1e3", "--context", "1e6") == plain


@pytest.mark.parametrize("text", ["nan", "inf", "-inf", "1e999", "-1", "0", "1e-10", "0x10"])
def test_a_rate_that_cannot_be_is_told_why(capsys, text):
    why = f"--rate: expected a positive, finite number (1e-9 to 1e30), got {text!r}"
    assert refused(capsys, *SERVE, f"--rate={text}") == why


@pytest.mark.parametrize("text", ["nan", "inf", "-1", "0", "1.5", "1e16", "9" * 5000])
def test_a_count_that_cannot_be_is_told_why(capsys, text):
    why = "--batch: expected a whole number from 1 to 1e15, got "
    assert refused(capsys, *PREDICT, "--batch", f"8,{text}").startswith(why)


@pytest.mark.parametrize("text", ["0", "-5", "2e8", "nan"])
def test_a_length_that_cannot_be_is_told_why(capsys, text):
    why = f"--prompt: expected from 1 to 1e8 tokens, got {text!r}"
    assert refused(capsys, *SERVE[:4], "--output=9", "--rate=1", f"--prompt={text}") == why


# -- options ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        ([*SERVE, "--rate", "4", "--rate=8"], "--rate: expected once, got '4' and '8'"),
        ([*SERVE, "--gpu", "l4"], "--gpu: expected once, got 'h100-sxm' and 'l4'"),
        ([*PREDICT, "--batch", "1", "--batch", "1"], "--batch: expected once, got '1' and '1'"),
    ],
)
def test_an_option_given_twice_is_refused(capsys, arguments, told):
    assert refused(capsys, *arguments) == told


def test_what_only_looks_like_an_option_given_twice_is_none(capsys):
    # A value may look like an option; flags, and options that make a list, may come again.
    told = refused(capsys, *PREDICT, "--context", "--batch", "--batch", "1")
    assert told.endswith("got '--batch'")
    chips = ["--gpu", "l4", "--gpu", "l40s"]
    assert out(capsys, "compare", "gpt2", *chips, "--json", "--json").count('"gpu"') == 2


@pytest.mark.parametrize(
    "command",
    ["predict", "compare", "calibrate", "serve", "sweep", "plan", "gpus", "models", "show"],
)
@pytest.mark.parametrize("columns", [80, 120])
def test_help_lists_options_in_groups_within_the_terminal(capsys, monkeypatch, command, columns):
    monkeypatch.setenv("COLUMNS", str(columns))
    lines = out(capsys, command, "--help").splitlines()
    assert max(map(len, lines)) <= columns
    options = [line.split()[0] for line in lines if line.startswith("  --")]
    assert len(options) == len(set(options))
    titles = {line for line in lines if line.endswith(":") and not line.startswith(" ")}
    assert titles <= {"Arguments:", "Chips:", "Load:", "Targets:", "Assumptions:", "Report:"}
    assert "Report:" in titles
