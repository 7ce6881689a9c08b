"""Against an independent count: the classes of Transformers, instantiated without weights.

The folder that ``PERFMODEL_REFERENCE_DATA`` names holds configs with what their classes count. Of
its rows those are taken that are real, embedded in a program, or reconstructed to a published
total, read by the class itself. Each share that must agree is beside its test; each row that does
not is listed in the documentation, with its reason.
"""

from __future__ import annotations

import csv
import os
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

import pytest

import perfmodel as pm
from perfmodel.base.errors import PerfModelError, UnsupportedModelError
from perfmodel.base.precision import Precision
from perfmodel.work.layers.latent import LatentAttention
from perfmodel.work.layers.recurrent import Recurrent

FOLDER = os.environ.get("PERFMODEL_REFERENCE_DATA")
pytestmark = pytest.mark.skipif(
    not FOLDER, reason="PERFMODEL_REFERENCE_DATA names no folder of reference data"
)
MODELS = Path(FOLDER or ".") / "models"
KINDS = {"real", "embedded", "reconstructed"}
BF16 = Precision.preset("bf16")
# The documentation lists every row that differs, by its file.
LISTED = Path(__file__).parents[1] / "docs" / "models.md"

Row = dict[str, str]


@cache
def table(name: str) -> list[Row]:
    with (MODELS / f"{name}.csv").open(newline="", encoding="utf-8") as file:
        return list(csv.DictReader(file))


@cache
def rows() -> list[Row]:
    """Those that are weighed: native, of a real kind, with counts."""
    return [
        row
        for row in table("oracle")
        if row["basis"] == "native" and row["kind"] in KINDS and row["text_params"]
    ]


@cache
def shape(file: str) -> pm.ModelShape:
    return pm.read_hf(MODELS / "configs" / file)


def agree(found: dict[str, bool], share: float) -> None:
    """At least such a share agrees, and the documentation lists the others."""
    assert found
    missed = sorted(file for file, good in found.items() if not good)
    assert 1 - len(missed) / len(found) >= share, missed
    told = LISTED.read_text(encoding="utf-8")
    split = {row["file"]: row["split"] for row in table("oracle")}
    unlisted = [x for x in missed if split[x] == "open" and x.removesuffix(".json") not in told]
    assert not unlisted


def compared(question: Any) -> dict[str, bool]:
    """What a question says of each row; a row that cannot be read is a miss."""
    found = {}
    for row in rows():
        try:
            found[row["file"]] = question(row, shape(row["file"]))
        except PerfModelError:
            found[row["file"]] = False
    return {file: good for file, good in found.items() if good is not None}


# -- parameters ------------------------------------------------------------------------------------


def test_parameters_to_the_last_one():
    agree(compared(lambda row, model: model.params == int(row["text_params"])), 0.99)


def test_towers_to_the_last_parameter():
    def towers(row: Row, model: pm.ModelShape) -> bool:
        return model.params + model.tower_params == int(row["total_params"])

    agree(compared(towers), 0.99)


def test_active_parameters():
    def active(row: Row, model: pm.ModelShape) -> bool:
        return round(model.active_params) == round(float(row["active_params"]))

    agree(compared(active), 0.99)


def test_parameters_without_the_tables():
    def others(row: Row, model: pm.ModelShape) -> bool:
        return model.non_embedding_params == int(row["non_embedding_params"])

    agree(compared(others), 0.99)


def test_tied_ends():
    def tied(row: Row, model: pm.ModelShape) -> bool:
        return model.head is not None and str(model.head.tied) == row["tied"]

    agree(compared(tied), 0.99)


# -- cache and state -------------------------------------------------------------------------------


@cache
def caches() -> dict[str, Row]:
    return {row["file"]: row for row in table("kv_oracle")}


def test_cache_bytes_a_token_within_and_past_the_windows():
    """A class whose cache follows no law a token (``special``) is not asked."""

    def cache_bytes(row: Row, model: pm.ModelShape) -> bool | None:
        counted = caches().get(row["file"])
        if counted is None or not counted["kv_bytes_per_token_full_bf16"]:
            return None
        full = float(counted["kv_bytes_per_token_full_bf16"])
        sliding = float(counted["kv_bytes_per_token_sliding_bf16"] or 0)
        if not model.has_cache:
            return full == sliding == 0
        first = model.kv_bytes_per_token("bf16", context=1)
        beyond = int(float(counted["window"] or 0)) + 2  # where only full attention still grows
        if beyond > (model.position_limit or beyond):
            return first == full + sliding
        past = model.kv_bytes_per_token("bf16", context=beyond)
        return first == full + sliding and past == (full if counted["window"] else full + sliding)

    agree(compared(cache_bytes), 0.98)


def test_constant_state():
    def state(row: Row, model: pm.ModelShape) -> bool | None:
        counted = caches().get(row["file"])
        if counted is None or counted["special"] == "True":
            return None
        return model.state_bytes("bf16") == float(counted["state_bytes_per_seq_hf_dtypes"] or 0)

    agree(compared(state), 0.98)


# -- FLOPs -----------------------------------------------------------------------------------------

# Of these the counter ran a decode step without a state, as a prompt of one token.
WITHOUT_STATE = {"mamba", "mamba2", "falcon_mamba"}


def as_counted(model: pm.ModelShape) -> pm.ModelShape:
    """The forms that the classes run: keys and values expanded, a prompt scanned in chunks."""

    def form(layer: Any) -> Any:
        if isinstance(layer, LatentAttention):
            return layer.model_copy(update={"form": "expanded"})
        if isinstance(layer, Recurrent):
            return layer.model_copy(update={"scan": "chunked"})
        return layer

    blocks = tuple((n, tuple(form(layer) for layer in row)) for n, row in model.blocks)
    return model.model_copy(update={"blocks": blocks})


def projected(row: Row, model: pm.ModelShape) -> dict[str, float]:
    """Our FLOPs of projections, head, experts and attention, under the counter's conventions.

    It runs the head on every position, and attention on the full square of ``new x context``
    pairs, windows in a prefill included.
    """
    batch, new, context = int(row["batch"]), int(row["seq"]), int(row["ctx"])
    group = pm.Group(count=batch, new=new, past=context - new, logits=new)
    found = dict.fromkeys(("linear", "experts", "attention"), 0.0)
    for op in pm.forward(model, pm.Step(groups=(group,)), BF16):
        flops = op.calls * op.flops
        if op.kind == "attention" and new > 1 and op.pairs:
            flops *= batch * new * context / op.pairs
        if op.kind in found:
            found[op.kind] += flops
    return found


def along(row: Row, layer: Recurrent) -> float:
    """Products along the sequence: the convolution with its padding, and the scan's.

    A convolution over S tokens gives S + k - 1 columns before the last are cut off; a single token
    beside k cached ones gives two. Of a scan, chunks are matrix products; token by token, only what
    reads a state of Mamba (2 FLOPs a number), or reads and writes one of lightning attention (4).
    """
    batch, new, kind = int(row["batch"]), int(row["seq"]), row["model_type"]
    whole = row["phase"] == "prefill" or kind in WITHOUT_STATE
    columns = max(new, layer.conv_kernel) + layer.conv_kernel - 1 if whole else 2
    if kind == "recurrent_gemma" and not whole:
        columns = 0
    convolved = 2 * layer.conv_kernel * layer.conv_channels * batch * columns
    a_token = {"mamba": 2, "mamba2": 2, "lightning": 4}.get(layer.kind, 0)
    if layer.kind == "mamba" or not whole:
        return convolved + a_token * layer.state_values * batch * new
    if layer.chunk_flops is None:
        return convolved
    chunks = -(-new // layer.chunk_size)
    scanned = chunks * layer.chunk_flops + layer.passing_flops(chunks)
    return convolved + batch * scanned


def flops() -> Iterator[tuple[Row, pm.ModelShape | None]]:
    known = {row["file"] for row in rows()}
    for row in table("flops_oracle"):
        if row["file"] in known and row["total"]:
            try:
                yield row, as_counted(shape(row["file"]))
            except PerfModelError:
                yield row, None


@pytest.mark.parametrize("phase", ["prefill", "decode"])
def test_matrix_products_of_a_pass(phase):
    """Within 0.1 %, all products together: where the counter files them differs by class."""
    found: dict[str, bool] = {}
    for row, model in flops():
        if model is None or row["phase"] != phase:
            found.setdefault(row["file"], model is not None)
            continue
        ours = sum(projected(row, model).values())
        for count, layer in model.distinct_layers:
            if isinstance(layer, Recurrent):
                ours += count * along(row, layer)
        good = abs(ours - float(row["total"])) <= 1e-3 * float(row["total"])
        found[row["file"]] = found.get(row["file"], True) and good
    agree(found, 0.95)


def test_projections_and_experts_alone():
    """Where attention or a scan is filed elsewhere, the projections may carry a part of it."""
    found: dict[str, bool] = {}
    for row, model in flops():
        good = model is not None
        if model is not None:
            ours = projected(row, model)
            theirs = float(row["linear_mm_addmm_incl_lm_head"]) + float(row["routed_experts"])
            off = abs(ours["linear"] + ours["experts"] - theirs)
            good = off <= 1e-3 * float(row["total"])
        found[row["file"]] = found.get(row["file"], True) and good
    agree(found, 0.95)


# -- refusals --------------------------------------------------------------------------------------


def test_what_is_no_decoder_is_refused_by_name():
    refused = [row for row in table("oracle") if row["status"] == "expected-reject"]
    assert refused
    for row in refused:
        with pytest.raises(UnsupportedModelError, match=row["model_type"]):
            shape(row["file"])


def test_every_config_ends_in_a_shape_or_an_error_that_names_a_key():
    for row in table("manifest"):
        message = "config"
        try:
            found = shape(row["file"]).params
        except PerfModelError as error:
            found, message = 1, str(error)
        assert found > 0
        assert "config" in message
