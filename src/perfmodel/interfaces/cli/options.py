"""Options that several commands have."""

from __future__ import annotations

from typing import Annotated, Final

import typer

from perfmodel.interfaces.cli.given import USUAL_CONTEXT

USUAL: Final = f"Default: {USUAL_CONTEXT}, or as many as there are learned positions."

Model = Annotated[
    str,
    typer.Argument(help="A catalog key, a config.json, or a folder with one.", metavar="MODEL"),
]
Gpus = Annotated[
    list[str], typer.Option("--gpu", help="A catalog key or a TOML file.", metavar="GPU")
]
Precisions = Annotated[
    str | None,
    typer.Option(help="One or more, as bf16,fp8,w4a16. Default: the checkpoint's own, else bf16."),
]
Engine = Annotated[
    str | None,
    typer.Option(help="Expect what this engine reaches: vllm, sglang, trtllm, or auto for any."),
]
Expected = Annotated[
    str | None,
    typer.Option(
        "--efficiency",
        help="Expect what a TOML file says, as perfmodel calibrate writes it; or auto, or ideal.",
        metavar="FILE",
    ),
]
Tensor = Annotated[str, typer.Option(help="Devices that share each matrix.", metavar="N")]
Pipeline = Annotated[str, typer.Option(help="Stages that share the blocks.", metavar="N")]
Expert = Annotated[str, typer.Option(help="Devices that share the experts.", metavar="N")]
Data = Annotated[str, typer.Option(help="Replicas that share the sequences.", metavar="N")]
Context = Annotated[
    str | None,
    typer.Option(help=f"Tokens that each new token attends. {USUAL}", metavar="TOKENS"),
]
