"""Options that several commands have, and the groups in which a command's help lists them."""

from __future__ import annotations

from functools import partial
from typing import Annotated, Any, Final

import typer

from perfmodel.interfaces.cli.given import USUAL_CONTEXT


def _option(about: str, told: str, unit: str | None = None, *names: str) -> Any:
    return typer.Option(*names, help=told, metavar=unit, rich_help_panel=about)


chips = partial(_option, "Chips")
load = partial(_option, "Load")
targets = partial(_option, "Targets")
assumed = partial(_option, "Assumptions")
printed = partial(_option, "Report")

USUAL: Final = f"Default: {USUAL_CONTEXT}, or as many as there are learned positions."

Model = Annotated[
    str,
    typer.Argument(help="A catalog key, a config.json, or a folder with one.", metavar="MODEL"),
]
Models = Annotated[
    list[str],
    typer.Argument(help="Catalog keys, config.json files or folders.", metavar="MODEL"),
]
Gpu = Annotated[str, chips("A catalog key or a TOML file.", "GPU")]
Gpus = Annotated[list[str], chips("A catalog key or a TOML file; once for each chip.", "GPU")]
Tensor = Annotated[str, chips("Devices that share each matrix.", "DEVICES")]
Pipeline = Annotated[str, chips("Stages that share the blocks.", "STAGES")]
Expert = Annotated[str, chips("Devices that share the experts.", "DEVICES")]
Data = Annotated[str, chips("Replicas that share the sequences.", "REPLICAS")]

Context = Annotated[str | None, load(f"Tokens that each new token attends. {USUAL}", "TOKENS")]
Prompt = Annotated[str | None, load("Tokens of a prompt.", "TOKENS")]
Output = Annotated[str | None, load("Tokens of an output.", "TOKENS")]
Trace = Annotated[str | None, load("Instead of both: a CSV or Parquet file of requests.", "FILE")]
Prefix = Annotated[str, load("Tokens of each prompt that are cached.", "TOKENS")]

Precision = Annotated[
    str | None, assumed("As bf16, fp8, w4a16. Default: the checkpoint's own, else bf16.", "NAME")
]
Precisions = Annotated[
    str | None,
    assumed("One or more, as bf16,fp8,w4a16. Default: the checkpoint's own, else bf16.", "NAMES"),
]
Engine = Annotated[
    str | None,
    assumed("Expect what this engine reaches: vllm, sglang, trtllm, or auto for any.", "NAME"),
]
Expected = Annotated[
    str | None,
    assumed(
        "Expect what a TOML file says, as perfmodel calibrate writes it; or auto, or ideal.",
        "FILE",
        "--efficiency",
    ),
]

Json = Annotated[bool, printed("JSON instead of tables, in SI base units.", None, "--json")]
