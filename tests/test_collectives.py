"""Collectives against measured ones: NCCL on NVLink does not beat the floor of its wire.

The rows are measured latencies of NVIDIA's public kernel tables (aiconfigurator-core 0.12.0,
Apache-2.0, NVIDIA CORPORATION & AFFILIATES), a few restated here, all of a sample where the
reference data is present. Where a row beats the ring, the switch adds up: it must not beat that.
"""

from __future__ import annotations

import csv
import os
import statistics
from pathlib import Path

import pytest

import perfmodel as pm
from perfmodel.work.collective import Collective

KINDS = {
    "all_reduce": "all-reduce",
    "all_gather": "all-gather",
    "reduce_scatter": "reduce-scatter",
    "alltoall": "all-to-all",
}
CHIPS = {
    "a100_sxm": "a100-sxm-80gb",
    "h100_sxm": "h100-sxm",
    "h200_sxm": "h200-sxm",
    "b200_sxm": "b200-sxm",
    "b300_sxm": "b300-sxm",
    "gb200": "gb200",
    "gb300": "gb300",
}

# operation, chip, devices, bytes of the vector, bytes on the wire, latency [us]: NCCL, half or int8
ROWS = [
    ("all_reduce", "gb200", 2, 1_048_576, 1_048_576, 14.4),
    ("all_reduce", "b300_sxm", 8, 16_384, 28_672, 26.1),
    ("all_reduce", "h200_sxm", 4, 4_194_304, 6_291_456, 40.03),
    ("all_reduce", "b200_sxm", 8, 16_777_216, 29_360_128, 78),
    ("all_gather", "gb300", 2, 8_388_608, 4_194_304, 29.98),
    ("all_gather", "b200_sxm", 8, 2_097_152, 1_835_008, 21.75),
    ("reduce_scatter", "gb200", 2, 4_096, 2_048, 9.6),
    ("alltoall", "b300_sxm", 2, 33_554_432, 16_777_216, 60.67),
    ("alltoall", "h100_sxm", 8, 32_768, 28_672, 11.04),
    ("alltoall", "b200_sxm", 8, 134_217_728, 117_440_512, 233.59),
]

# launch [us], hop [us], share, half [MB], fitted by the tables' analysis on all rows of NCCL.
FITTED = {
    ("all_gather", "a100_sxm"): (8.20, 0.87, 0.70, 10.00),
    ("all_gather", "b200_sxm"): (7.50, 1.29, 0.71, 12.59),
    ("all_gather", "b300_sxm"): (6.92, 1.27, 0.73, 13.74),
    ("all_gather", "gb200"): (8.40, 1.11, 0.61, 5.16),
    ("all_gather", "gb300"): (7.23, 1.31, 0.64, 6.90),
    ("all_gather", "h100_sxm"): (4.35, 0.85, 0.71, 4.88),
    ("all_gather", "h200_sxm"): (4.12, 1.04, 0.71, 4.04),
    ("all_reduce", "a100_sxm"): (8.06, 1.87, 0.75, 6.61),
    ("all_reduce", "b200_sxm"): (7.46, 2.55, 0.73, 9.03),
    ("all_reduce", "b300_sxm"): (7.29, 2.46, 0.73, 8.39),
    ("all_reduce", "gb200"): (8.12, 2.55, 0.64, 3.89),
    ("all_reduce", "gb300"): (6.91, 2.70, 0.67, 4.96),
    ("all_reduce", "h100_sxm"): (4.54, 1.57, 0.80, 5.05),
    ("all_reduce", "h200_sxm"): (4.30, 1.77, 0.80, 4.36),
    ("alltoall", "a100_sxm"): (11.07, 0.10, 0.70, 5.90),
    ("alltoall", "b200_sxm"): (9.64, 0.21, 0.62, 13.57),
    ("alltoall", "b300_sxm"): (9.51, 0.33, 0.61, 9.20),
    ("alltoall", "gb200"): (11.28, 0.00, 0.60, 7.58),
    ("alltoall", "gb300"): (11.24, 0.00, 0.60, 5.84),
    ("alltoall", "h100_sxm"): (6.77, 0.06, 0.76, 5.30),
    ("alltoall", "h200_sxm"): (6.70, 0.30, 0.78, 4.49),
    ("reduce_scatter", "a100_sxm"): (8.32, 0.74, 0.72, 7.87),
    ("reduce_scatter", "b200_sxm"): (7.74, 1.23, 0.60, 6.52),
    ("reduce_scatter", "b300_sxm"): (7.08, 1.22, 0.61, 7.49),
    ("reduce_scatter", "gb200"): (8.37, 1.12, 0.49, 1.79),
    ("reduce_scatter", "gb300"): (7.30, 1.34, 0.51, 2.27),
    ("reduce_scatter", "h100_sxm"): (4.52, 0.75, 0.63, 2.30),
    ("reduce_scatter", "h200_sxm"): (4.37, 0.86, 0.65, 2.30),
}


def measured() -> list[tuple[str, str, int, float, float, float]]:
    """Rows of NCCL on NVLink: those of the reference data where it is present, else ours."""
    folder = Path(os.environ.get("PERFMODEL_REFERENCE_DATA", "no such folder"))
    path = folder / "kernels" / "reference_collective.csv"
    if not path.is_file():
        return ROWS
    with path.open(newline="", encoding="utf-8") as file:
        rows = [row for row in csv.DictReader(file) if row["library"] == "NCCL"]
    sizes = ("message_bytes", "wire_bytes", "latency_us")
    return ROWS + [
        (row["op"], row["system"], int(row["num_gpus"]), *(float(row[size]) for size in sizes))
        for row in rows
        if row["system"] in CHIPS
    ]


def collective(kind: str, devices: int, size: float, algorithm: str = "ring") -> Collective:
    return Collective(
        name=kind,
        kind=kind,
        nbytes=float(size),
        least_nbytes=float(size),
        group=devices,
        calls=1,
        algorithm=algorithm,
        tokens=1,
    )


@pytest.mark.parametrize(("op", "chip", "devices", "size", "wire", "latency"), ROWS)
def test_bytes_on_the_wire_are_those_that_the_tables_state(op, chip, devices, size, wire, latency):
    inside, outside = collective(KINDS[op], devices, size).legs(devices)
    assert inside.wire == wire
    assert outside.wire == 0


def test_no_measured_collective_beats_its_floor():
    rows = measured()
    assert len(rows) >= len(ROWS)
    for op, chip, devices, size, _, latency in rows:
        one, link = collective(KINDS[op], devices, size), pm.gpu(CHIPS[chip]).link
        assert link is not None
        assert link.domain >= devices
        least, _ = one.least_legs(devices)
        assert latency * 1e-6 >= least / link.bandwidth, (op, chip, devices, size)
        ring = one.legs(devices)[0].wire / link.bandwidth
        # Reduction in the switch gets by with less than a ring.
        assert latency * 1e-6 >= ring or (link.reduces and op == "all_reduce")


def test_four_parameters_describe_collectives_within_15_per_cent():
    errors = []
    for op, chip, devices, size, _, latency in measured():
        launch, hop, share, half = FITTED[op, chip]
        form = pm.LinkEfficiency(launch=launch * 1e-6, hop=hop * 1e-6, share=share, half=half * 1e6)
        link = pm.gpu(CHIPS[chip]).link
        wire = collective(KINDS[op], devices, size).legs(devices)[0].wire
        time = form.time(wire=wire, others=devices - 1, bandwidth=link.bandwidth)
        assert time >= wire / link.bandwidth
        errors.append(abs(time / (latency * 1e-6) - 1))
    assert statistics.median(errors) < 0.15


def test_a_switch_that_adds_up_gets_by_with_less_than_a_ring():
    # Eight devices, 1 MB: the ring sends 2 x 7/8, the switch takes 1 + 1/8; one hop sends 7.
    wires = {
        name: collective("all-reduce", 8, 1e6, name).legs(8)[0]
        for name in ("ring", "one-shot", "in-switch")
    }
    assert {name: leg.wire for name, leg in wires.items()} == {
        "ring": 1.75e6,
        "one-shot": 7e6,
        "in-switch": 1.125e6,
    }
    assert {name: leg.hops for name, leg in wires.items()} == {
        "ring": 14,
        "one-shot": 1,
        "in-switch": 2,
    }
