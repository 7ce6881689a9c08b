"""The shipped chips against the outside world: arithmetic, sparse figures, buses, links, origins.

Each table holds what others say of a chip, from other places than the catalog's own files where
there are any; a chip without its rows fails. What does not fit a rule stands in a table of
exceptions, with its reason, and an exception that no longer is one fails, too.
"""

import csv
import os
import re
from datetime import date
from math import isclose
from pathlib import Path
from typing import NamedTuple

import chips_of_others as others
import pytest

import perfmodel as pm
from perfmodel.base.spec import Spec

# A value that somebody measured or typed in has no place in a shipped chip.
KINDS = {"datasheet", "quoted", "secondary", "derived", "device-reported", "assumed"}


def numbers(spec, prefix=""):
    """Every number that a spec states, by the name that its origin has."""
    found = {}
    for name, field in type(spec).model_fields.items():
        value = getattr(spec, name)
        if isinstance(value, Spec):
            found |= numbers(value, f"{name}.")
        elif name in spec.model_fields_set and "unit" in (field.json_schema_extra or {}):
            found |= {f"{prefix}{name}": value} if value is not None else {}
    return found


# -- what others say ---------------------------------------------------------------------------


class Family(NamedTuple):
    """What one unit does in one clock, and how other formats compare with 16 bits."""

    ops: int | None
    """Dense FLOP of 16 bits, summed in fp32; None: nobody says."""
    vector: int | None
    """FLOP of fp32 in its vector units; None where fp32 is among ``rates``."""
    rates: dict[str, float | None]
    """Multiples of ``ops`` for each format that the family has; None: nobody says."""


def multiples(**rates):
    """Rates of a format, those of tensor cores since Ampere unless said otherwise."""
    common = {"tf32": 1 / 2, "fp16": 1, "bf16": 1, "int8": 2}
    return {name: rate for name, rate in (common | rates).items() if rate}


FP8 = {"fp8": 2}
MX = FP8 | {"mxfp8": 2, "mxfp4": 4, "nvfp4": 4}
# GeForce cards, and some others made of the same dies, sum in fp32 at half the rate. Sums in int32
# and, on Blackwell, block-scaled formats escape it.
HALVED = {"fp16_acc16": 2, "int8": 4, "int4": 8}

FAMILIES = {
    # NVIDIA: white papers (GP100, GV100, TU102, GA100, GA102, Ada v2.1, H100, RTX Blackwell v1.1).
    "Pascal": Family(256, 128, {"fp16": 1}),
    "Volta": Family(1024, 128, {"fp16": 1, "int8": 1 / 2}),  # int8: vectors of four, no matrices
    "Turing": Family(1024, 128, {"fp16": 1, "int8": 2, "int4": 4}),
    "GA100": Family(2048, 128, multiples(int4=4)),
    "GA102": Family(1024, 256, multiples(int4=4)),
    "GA102, halved": Family(512, 256, multiples(int4=4)),
    "GeForce 30": Family(512, 256, multiples(**HALVED)),
    "Orin": Family(2048, 256, multiples(tf32=0)),
    "Ada": Family(1024, 256, multiples(**FP8, int4=4)),
    "Ada, halved": Family(512, 256, multiples(**FP8, fp16_acc16=2, int4=4)),
    "GeForce 40": Family(512, 256, multiples(**FP8 | HALVED, fp8_acc16=4)),
    "Hopper": Family(4096, 256, multiples(**FP8)),
    "Blackwell": Family(8192, 256, multiples(**MX, mxfp6=2)),
    # Three times fp8 for fp4.
    "Blackwell Ultra": Family(8192, 256, multiples(**MX | {"mxfp4": 6, "nvfp4": 6}, mxfp6=2)),
    "GeForce 50": Family(
        512,
        256,
        multiples(**FP8 | HALVED | {"int4": 0}, fp8_acc16=4, mxfp8=4, mxfp6=2, mxfp4=8, nvfp4=8),
    ),
    "RTX PRO": Family(1024, 256, multiples(**MX)),
    "Thor": Family(8192, 256, multiples(**MX, tf32=0)),
    "GB10": Family(1024, 256, multiples(**MX, tf32=0, int8=0)),
    "Rubin": Family(
        None,
        None,
        {"fp32": None}
        | multiples(fp8=17.5 / 4, mxfp6=17.5 / 4, mxfp4=35 / 4, nvfp4=35 / 4, int8=2.5 / 4),
    ),
    # AMD: ROCm's documentation, the CDNA 3 white paper.
    "CDNA 3": Family(2048, None, multiples(**FP8, fp32=1 / 8)),
} | {name: Family(*row) for name, row in others.FAMILIES.items()}


class Chip(NamedTuple):
    """What white papers, spec sheets and devices say of one chip."""

    family: str
    units: int | None
    """SM, CU, cores."""
    clock: float | None
    """That its 16-bit peak is rated at [Hz]; None: the peak is not units times clock."""
    boost: float | None
    """The highest that is stated [Hz]."""


# Hopper's tensor peaks are rated below its top clock; Blackwell's rated clock is not printed:
# 1.856e9 is what gives 2250e12 back, 2.008e9 what gives 2500e12. H20 is throttled.
CHIPS = {
    "p100-sxm": Chip("Pascal", 56, 1.480e9, 1.480e9),
    "v100-sxm-16gb": Chip("Volta", 80, 1.530e9, 1.530e9),
    "v100-sxm-32gb": Chip("Volta", 80, 1.530e9, 1.530e9),
    "t4": Chip("Turing", 40, 1.590e9, 1.590e9),
    "a100-pcie-40gb": Chip("GA100", 108, 1.410e9, 1.410e9),
    "a100-sxm-40gb": Chip("GA100", 108, 1.410e9, 1.410e9),
    "a100-pcie-80gb": Chip("GA100", 108, 1.410e9, 1.410e9),
    "a100-sxm-80gb": Chip("GA100", 108, 1.410e9, 1.410e9),
    "a800-sxm": Chip("GA100", 108, 1.410e9, 1.410e9),
    "a30": Chip("GA100", 56, 1.440e9, 1.440e9),
    "a40": Chip("GA102", 84, 1.740e9, 1.740e9),
    "a10": Chip("GA102", 72, 1.695e9, 1.695e9),
    "a10g": Chip("GA102, halved", 80, 1.710e9, 1.710e9),
    "rtx-a6000": Chip("GA102", 84, 1.800e9, 1.800e9),
    "rtx-3060-12gb": Chip("GeForce 30", 28, 1.777e9, 1.777e9),
    "rtx-3070": Chip("GeForce 30", 46, 1.725e9, 1.725e9),
    "rtx-3080-10gb": Chip("GeForce 30", 68, 1.710e9, 1.710e9),
    "rtx-3080-ti": Chip("GeForce 30", 80, 1.665e9, 1.665e9),
    "rtx-3090-ti": Chip("GeForce 30", 84, 1.860e9, 1.860e9),
    "rtx-3090": Chip("GeForce 30", 82, 1.695e9, 1.695e9),
    "jetson-agx-orin": Chip("Orin", 16, 1.300e9, 1.300e9),
    "l4": Chip("Ada", 58, 2.040e9, 2.040e9),
    "l40": Chip("Ada, halved", 142, 2.490e9, 2.490e9),
    "l40s": Chip("Ada", 142, 2.520e9, 2.520e9),
    "l20": Chip("Ada, halved", 92, 2.520e9, 2.520e9),
    "rtx-4000-ada": Chip("Ada", 48, 2.175e9, 2.175e9),
    "rtx-5000-ada": Chip("Ada", 100, 2.550e9, 2.550e9),
    "rtx-6000-ada": Chip("Ada", 142, 2.505e9, 2.505e9),
    "rtx-4060-ti-16gb": Chip("GeForce 40", 34, 2.535e9, 2.535e9),
    "rtx-4070": Chip("GeForce 40", 46, 2.475e9, 2.475e9),
    "rtx-4070-ti": Chip("GeForce 40", 60, 2.610e9, 2.610e9),
    "rtx-4080": Chip("GeForce 40", 76, 2.505e9, 2.505e9),
    "rtx-4090": Chip("GeForce 40", 128, 2.520e9, 2.520e9),
    "h100-sxm": Chip("Hopper", 132, 1.830e9, 1.980e9),
    "h100-pcie": Chip("Hopper", 114, 1.620e9, 1.755e9),
    "h100-nvl": Chip("Hopper", 132, 1.545e9, 1.785e9),
    "h800-sxm": Chip("Hopper", 132, 1.830e9, 1.980e9),
    "h20": Chip("Hopper", 78, None, 1.980e9),
    "h200-sxm": Chip("Hopper", 132, 1.830e9, 1.980e9),
    "h200-nvl": Chip("Hopper", 132, 1.545e9, 1.785e9),
    "gh200-96gb": Chip("Hopper", 132, 1.830e9, 1.980e9),
    "gh200-144gb": Chip("Hopper", 132, 1.830e9, 1.980e9),
    "b100-sxm": Chip("Blackwell", 148, None, None),
    "b200-sxm": Chip("Blackwell", 148, 1.856e9, 1.965e9),
    "gb200": Chip("Blackwell", 152, 2.008e9, 2.062e9),
    "b300-sxm": Chip("Blackwell Ultra", 148, 1.856e9, None),
    "gb300": Chip("Blackwell Ultra", 152, 2.008e9, None),
    "rubin": Chip("Rubin", None, None, None),
    "rtx-5070-ti": Chip("GeForce 50", 70, 2.452e9, 2.452e9),
    "rtx-5080": Chip("GeForce 50", 84, 2.617e9, 2.617e9),
    "rtx-5090": Chip("GeForce 50", 170, 2.407e9, 2.407e9),
    "rtx-pro-6000-workstation": Chip("RTX PRO", 188, 2.617e9, 2.617e9),
    "rtx-pro-6000-max-q": Chip("RTX PRO", 188, 2.288e9, 2.288e9),
    "rtx-pro-6000-server": Chip("RTX PRO", 188, 2.430e9, 2.430e9),
    "jetson-thor": Chip("Thor", 20, 1.575e9, 1.575e9),
    "dgx-spark": Chip("GB10", 48, 2.520e9, 2.520e9),
    "mi300x": Chip("CDNA 3", 304, 2.100e9, 2.100e9),
} | {key: Chip(*row) for key, row in others.CHIPS.items()}

# Formats of the family that nobody states for a chip.
UNSTATED = {"l20": {"fp16_acc16", "int4"}} | others.UNSTATED

# Peaks that units and clocks do not explain.
ODD = {
    ("l40s", "int4"): "the datasheet repeats the int8 figure: half of what the units would do",
    ("b300-sxm", "int8"): "307 with sparsity: most int8 units were left out",
    ("gb300", "int8"): "330 with sparsity: most int8 units were left out",
    ("h20", "fp32"): "44 is listed; 78 SM x 256 x 1.98 GHz would be 39.5",
}

# What vendors print with structured sparsity [TFLOP/s]: where dense figures go wrong. A format
# that is not here has no such figure, or none that was found.
SPARSE = {
    "a100-pcie-40gb": {"tf32": 312, "fp16": 624, "bf16": 624, "int8": 1248, "int4": 2496},
    "a100-sxm-40gb": {"tf32": 312, "fp16": 624, "bf16": 624, "int8": 1248, "int4": 2496},
    "a100-pcie-80gb": {"tf32": 312, "fp16": 624, "bf16": 624, "int8": 1248, "int4": 2496},
    "a100-sxm-80gb": {"tf32": 312, "fp16": 624, "bf16": 624, "int8": 1248, "int4": 2496},
    "a800-sxm": {"tf32": 312, "fp16": 624, "bf16": 624, "int8": 1248, "int4": 2496},
    "a30": {"tf32": 165, "fp16": 330, "bf16": 330, "int8": 661, "int4": 1321},
    "a40": {"tf32": 149.6, "fp16": 299.4, "bf16": 299.4, "int8": 598.6, "int4": 1197.4},
    "a10": {"tf32": 125, "fp16": 250, "bf16": 250, "int8": 500, "int4": 1000},
    "a10g": {"tf32": 70, "fp16": 140, "bf16": 140, "int8": 280, "int4": 560},
    "rtx-a6000": {"tf32": 154.8, "fp16": 309.7, "bf16": 309.7, "int8": 619.3, "int4": 1238.6},
    "rtx-3090": {
        "tf32": 71,
        "fp16": 142,
        "bf16": 142,
        "fp16_acc16": 285,
        "int8": 569,
        "int4": 1138,
    },
    "rtx-3070": {
        "tf32": 40.6,
        "fp16": 81.3,
        "bf16": 81.3,
        "fp16_acc16": 163,
        "int8": 325,
        "int4": 650,
    },
    "rtx-3080-10gb": {
        "tf32": 59.5,
        "fp16": 119,
        "bf16": 119,
        "fp16_acc16": 238,
        "int8": 476,
        "int4": 953,
    },
    "rtx-3090-ti": {
        "tf32": 80,
        "fp16": 160,
        "bf16": 160,
        "fp16_acc16": 320,
        "int8": 640,
        "int4": 1280,
    },
    "jetson-agx-orin": {"int8": 170},
    "l4": {"tf32": 120, "fp16": 242, "bf16": 242, "fp8": 485, "int8": 485, "int4": 969},
    "l40": {"tf32": 181, "fp16": 362.1, "bf16": 362.1, "fp8": 724, "int8": 724, "int4": 1448},
    "l40s": {"tf32": 366, "fp16": 733, "bf16": 733, "fp8": 1466, "int8": 1466, "int4": 1466},
    "rtx-4000-ada": {"tf32": 107, "fp16": 214, "bf16": 214, "fp8": 428, "int8": 428, "int4": 855},
    "rtx-5000-ada": {
        "tf32": 261,
        "fp16": 522,
        "bf16": 522,
        "fp8": 1044,
        "int8": 1044,
        "int4": 2089,
    },
    "rtx-6000-ada": {
        "tf32": 364,
        "fp16": 728.5,
        "bf16": 728.5,
        "fp8": 1457,
        "int8": 1457,
        "int4": 2914,
    },
    "rtx-4070": {"tf32": 58.3, "fp16": 117, "bf16": 117, "fp8": 233, "fp8_acc16": 466, "int8": 466},
    "rtx-4070-ti": {"tf32": 80, "fp16": 160, "bf16": 160, "fp8_acc16": 641, "int8": 641},
    "rtx-4080": {"tf32": 97.5, "fp16": 195, "bf16": 195, "fp8": 390, "fp8_acc16": 780, "int8": 780},
    "rtx-4090": {
        "tf32": 165.2,
        "fp16": 330.4,
        "bf16": 330.4,
        "fp8": 660.6,
        "fp8_acc16": 1321.2,
        "int8": 1321.2,
    },
    "h100-sxm": {"tf32": 989, "fp16": 1979, "bf16": 1979, "fp8": 3958, "int8": 3958},
    "h100-pcie": {"tf32": 756, "fp16": 1513, "bf16": 1513, "fp8": 3026, "int8": 3026},
    "h100-nvl": {"tf32": 835, "fp16": 1671, "bf16": 1671, "fp8": 3341, "int8": 3341},
    "h800-sxm": {"tf32": 989, "fp16": 1979, "bf16": 1979, "fp8": 3958, "int8": 3958},
    "h200-sxm": {"tf32": 989, "fp16": 1979, "bf16": 1979, "fp8": 3958, "int8": 3958},
    "h200-nvl": {"tf32": 835, "fp16": 1671, "bf16": 1671, "fp8": 3341, "int8": 3341},
    "gh200-96gb": {"tf32": 989, "fp16": 1979, "bf16": 1979, "fp8": 3958, "int8": 3958},
    "gh200-144gb": {"tf32": 989, "fp16": 1979, "bf16": 1979, "fp8": 3958, "int8": 3958},
    "b100-sxm": {
        "tf32": 1750,
        "fp16": 3500,
        "bf16": 3500,
        "fp8": 7000,
        "int8": 7000,
        "nvfp4": 14000,
    },
    "b200-sxm": {
        "tf32": 2250,
        "fp16": 4500,
        "bf16": 4500,
        "fp8": 9000,
        "int8": 9000,
        "nvfp4": 18000,
    },
    # A rack of 72: 360, 720 and 1440 PFLOP/s.
    "gb200": {"fp16": 5000, "bf16": 5000, "fp8": 10000, "int8": 10000, "nvfp4": 20000},
    "b300-sxm": {"fp16": 4500, "bf16": 4500, "fp8": 9000, "int8": 307, "nvfp4": 18000},
    "gb300": {"fp16": 5000, "bf16": 5000, "fp8": 10000, "int8": 330, "nvfp4": 20000},
    "rtx-5070-ti": {"fp16": 176, "bf16": 176, "fp8": 352, "int8": 703, "nvfp4": 1406},
    "rtx-5080": {"fp16": 225, "bf16": 225, "fp8": 450, "int8": 900, "nvfp4": 1801},
    "rtx-5090": {
        "fp16": 419,
        "bf16": 419,
        "fp8": 838,
        "fp8_acc16": 1676,
        "int8": 1676,
        "nvfp4": 3352,
    },
    "rtx-pro-6000-workstation": {"nvfp4": 4030},
    "jetson-thor": {"fp16": 517, "bf16": 517, "fp8": 1035, "int8": 1035, "nvfp4": 2070},
    "dgx-spark": {"nvfp4": 1000},
    "mi300x": {"tf32": 1307.4, "fp16": 2614.9, "bf16": 2614.9, "fp8": 5229.8, "int8": 5229.8},
} | others.SPARSE

# Sparsity gains less than twice: Blackwell Ultra's fp4 units are as many as it can feed.
NOT_HALVED = {("b300-sxm", "nvfp4"): 18 / 13.5, ("gb300", "nvfp4"): 20 / 15}

# Bus [bit] and data rate of a pin [bit/s]: device reports and spec sheets. H100 NVL and H200 ship
# with 47/48, B200 with 15/16 and GB200 with 31/32 of the pins of their stacks.
BUSES = {
    "p100-sxm": (4096, 1.43e9),
    "v100-sxm-16gb": (4096, 1.755e9),
    "v100-sxm-32gb": (4096, 1.755e9),
    "t4": (256, 10e9),
    "a100-pcie-40gb": (5120, 2.430e9),
    "a100-sxm-40gb": (5120, 2.430e9),
    "a100-pcie-80gb": (5120, 3.024e9),
    "a100-sxm-80gb": (5120, 3.186e9),
    "a800-sxm": (5120, 3.186e9),
    "a30": (3072, 2.430e9),
    "a40": (384, 14.5e9),
    "a10": (384, 12.5e9),
    "a10g": (384, 12.5e9),
    "rtx-a6000": (384, 16e9),
    "rtx-3060-12gb": (192, 15e9),
    "rtx-3070": (256, 14e9),
    "rtx-3080-10gb": (320, 19e9),
    "rtx-3080-ti": (384, 19e9),
    "rtx-3090-ti": (384, 21e9),
    "rtx-3090": (384, 19.5e9),
    "jetson-agx-orin": (256, 6.4e9),
    "l4": (192, 12.5e9),
    "l40": (384, 18e9),
    "l40s": (384, 18e9),
    "l20": (384, 18e9),
    "rtx-4000-ada": (160, 18e9),
    "rtx-5000-ada": (256, 18e9),
    "rtx-6000-ada": (384, 20e9),
    "rtx-4060-ti-16gb": (128, 18e9),
    "rtx-4070": (192, 21e9),
    "rtx-4070-ti": (192, 21e9),
    "rtx-4080": (256, 22.4e9),
    "rtx-4090": (384, 21e9),
    "h100-sxm": (5120, 5.238e9),
    "h100-pcie": (5120, 3.186e9),
    "h100-nvl": (6016, 5.238e9),
    "h800-sxm": (5120, 5.238e9),
    "h20": (6144, 5.238e9),
    "h200-sxm": (6016, 6.402e9),
    "h200-nvl": (6016, 6.402e9),
    "gh200-96gb": (6144, 5.238e9),
    "gh200-144gb": (6144, 6.402e9),
    "b200-sxm": (7680, 7.992e9),
    "gb200": (7936, 7.992e9),
    "rtx-5070-ti": (256, 28e9),
    "rtx-5080": (256, 30e9),
    "rtx-5090": (512, 28e9),
    "rtx-pro-6000-workstation": (512, 28e9),
    "rtx-pro-6000-max-q": (512, 28e9),
    "rtx-pro-6000-server": (512, 28e9),
    "jetson-thor": (256, 8.533e9),
    "dgx-spark": (256, 8.533e9),
    "mi300x": (8192, 5.2e9),
} | others.BUSES

# Chips whose bus or data rate nobody states; and those whose sheet rounds far from the product.
NO_BUS = {"b100-sxm", "b300-sxm", "gb300", "rubin"} | others.NO_BUS
ROUNDED = {"h100-pcie": 0.981} | others.ROUNDED  # 2.0 of 2.039 TB/s

# Links of one device, bytes a second of one link in one direction, and devices that reach each
# other: NVIDIA's NVLink table (20, 25, 25, 25, 50 and 100 GB/s of generations 1 to 6), and the
# bridges of workstation cards (14.0625).
LINKS = {
    "p100-sxm": (4, 20e9, 8),
    "v100-sxm-16gb": (6, 25e9, 8),
    "v100-sxm-32gb": (6, 25e9, 8),
    "a100-pcie-40gb": (12, 25e9, 2),
    "a100-sxm-40gb": (12, 25e9, 8),
    "a100-pcie-80gb": (12, 25e9, 2),
    "a100-sxm-80gb": (12, 25e9, 8),
    "a800-sxm": (8, 25e9, 8),
    "a30": (4, 25e9, 2),
    "a40": (4, 14.0625e9, 2),
    "rtx-a6000": (4, 14.0625e9, 2),
    "rtx-3090": (4, 14.0625e9, 2),
    "rtx-3090-ti": (4, 14.0625e9, 2),
    "h100-sxm": (18, 25e9, 8),
    "h100-pcie": (12, 25e9, 2),
    "h100-nvl": (12, 25e9, 2),
    "h800-sxm": (8, 25e9, 8),
    "h20": (18, 25e9, 8),
    "h200-sxm": (18, 25e9, 8),
    "h200-nvl": (18, 25e9, 4),
    "gh200-96gb": (18, 25e9, 1),
    "gh200-144gb": (18, 25e9, 2),
    "b100-sxm": (18, 50e9, 8),
    "b200-sxm": (18, 50e9, 8),
    "gb200": (18, 50e9, 72),
    "b300-sxm": (18, 50e9, 8),
    "gb300": (18, 50e9, 72),
    "rubin": (18, 100e9, 72),
    "dgx-spark": (1, 25e9, 2),  # 200 Gb/s Ethernet
} | others.LINKS

# Switches that add up: from NVLink 4 on (NVLink SHARP). Bridges have no switch.
REDUCES = {
    "h100-sxm", "h800-sxm", "h20", "h200-sxm", "b100-sxm", "b200-sxm", "gb200", "b300-sxm",
    "gb300", "rubin",
}  # fmt: skip

# Bits of data that a lane of PCIe moves in one direction [bit/s].
PCIE = {
    "3": 8e9 * 128 / 130,
    "4": 16e9 * 128 / 130,
    "5": 32e9 * 128 / 130,
    "6": 64e9 * 242 / 256,
}
OTHER_HOST_LINKS = {"gh200-96gb": 450e9, "gh200-144gb": 450e9}  # NVLink-C2C
NO_HOST_LINK = set(others.NO_HOST_LINK)  # chips that are hosts, or whose link nobody states


def test_every_chip_has_its_rows_and_every_row_a_chip():
    keys = set(pm.gpus())
    for name, needed in (
        ("CHIPS", set(CHIPS)),
        ("BUSES or NO_BUS", set(BUSES) | NO_BUS),
        ("REFERENCE_IDS or UNLISTED", set(REFERENCE_IDS) | UNLISTED),
        ("REFERENCE_IDS or SECOND", set(REFERENCE_IDS) | set(SECOND)),
    ):
        assert not keys - needed, f"{name} needs a row for: {', '.join(sorted(keys - needed))}"
    named = set(CHIPS) | set(BUSES) | NO_BUS | set(REFERENCE_IDS) | set(UNSTATED) | set(SPARSE)
    named |= (
        UNLISTED
        | set(SECOND)
        | set(ROUNDED)
        | set(LINKS)
        | REDUCES
        | set(OTHER_HOST_LINKS)
        | NO_HOST_LINK
    )
    named |= {key for key, _ in [*ODD, *NOT_HALVED, *DIFFERS]}
    assert not UNLISTED & set(REFERENCE_IDS)
    assert not named - keys, f"rows of no chip: {', '.join(sorted(named - keys))}"


# -- origins -----------------------------------------------------------------------------------


@pytest.mark.parametrize("key", pm.gpus())
def test_every_number_has_one_sourced_and_dated_origin(key):
    gpu = pm.gpu(key)
    assert sorted(origin.field for origin in gpu.origins) == sorted(numbers(gpu))
    for origin in gpu.origins:
        assert origin.kind in KINDS, origin.field
        # An assumption may have nobody behind it; then it says why it is made.
        assert origin.source is not None or (origin.kind == "assumed" and origin.note), origin.field
        assert origin.place, origin.field
        assert date.fromisoformat(origin.date) >= date.fromisoformat("2020-01-01")


@pytest.mark.parametrize("key", pm.gpus())
def test_a_chip_says_who_made_it_and_when(key):
    gpu = pm.gpu(key)
    assert gpu.vendor
    assert gpu.vendor.split()[0] in gpu.name
    assert gpu.architecture
    assert "2016-01-01" <= date.fromisoformat(gpu.released).isoformat() <= "2026-12-31"
    assert (gpu.units is None) == (gpu.unit == "")
    assert gpu.memory_capacity


# -- dense peaks: units x FLOP a clock x clock -------------------------------------------------


def sixteen(gpu):
    """The peak of 16 bits: bf16, or fp16 where there is no bf16 or it is slower."""
    return max(filter(None, (gpu.peak_flops.fp16, gpu.peak_flops.bf16)))


def expected_peaks(key):
    """Peaks from units and clocks; where those do not say, from the chip's own 16-bit peak."""
    chip, gpu = CHIPS[key], pm.gpu(key)
    ops, vector, rates = FAMILIES[chip.family]
    base = chip.units * ops * chip.clock if chip.clock else sixteen(gpu)
    peaks = {name: rate * base if rate else None for name, rate in rates.items()}
    if vector:
        peaks["fp32"] = chip.units * vector * chip.boost if chip.boost else None
    return peaks


@pytest.mark.parametrize("key", pm.gpus())
def test_dense_peaks_are_units_by_ops_by_clock(key):
    gpu, peaks = pm.gpu(key), expected_peaks(key)
    assert set(gpu.peak_flops.formats) == set(peaks) - UNSTATED.get(key, set())
    for compute in gpu.peak_flops.formats:
        if peaks[compute] is not None:
            fits = isclose(gpu.peak(compute), peaks[compute], rel_tol=0.015)
            assert fits != ((key, compute) in ODD), compute


@pytest.mark.parametrize("key", pm.gpus())
def test_no_matrix_peak_is_beyond_the_highest_clock(key):
    chip, gpu = CHIPS[key], pm.gpu(key)
    if chip.boost and chip.units:
        most = chip.units * FAMILIES[chip.family].ops * chip.boost
        assert sixteen(gpu) <= 1.01 * most  # vendors round up, too


@pytest.mark.parametrize("key", pm.gpus())
def test_units_and_clocks_are_what_others_say(key):
    chip, gpu = CHIPS[key], pm.gpu(key)
    assert gpu.units == chip.units
    for ours, theirs in ((gpu.matrix_clock, chip.clock), (gpu.boost_clock, chip.boost)):
        assert (ours is None) == (theirs is None)
        if ours:
            assert isclose(ours, theirs, rel_tol=0.001)


@pytest.mark.parametrize("key", pm.gpus())
def test_formats_of_four_bits_share_their_units(key):
    peaks = pm.gpu(key).peak_flops
    if peaks.nvfp4:
        assert peaks.nvfp4 == peaks.mxfp4


@pytest.mark.parametrize("key", pm.gpus())
def test_no_peak_is_a_sparse_figure(key):
    gpu = pm.gpu(key)
    for compute, sparse in SPARSE.get(key, {}).items():
        gain = NOT_HALVED.get((key, compute), 2)
        # Sheets round: 117 for 116.6, 120 for 121.
        assert isclose(gpu.peak(compute), sparse * 1e12 / gain, rel_tol=0.0125), compute


# -- memory ------------------------------------------------------------------------------------


@pytest.mark.parametrize("key", sorted(set(pm.gpus()) - NO_BUS))
def test_bandwidth_is_bus_by_data_rate(key):
    bits, rate = BUSES[key]
    expected = bits / 8 * rate * ROUNDED.get(key, 1)
    assert isclose(pm.gpu(key).memory_bandwidth, expected, rel_tol=0.015)


@pytest.mark.parametrize("key", pm.gpus())
def test_a_program_sees_about_what_was_sold(key):
    # Vendors sell GiB as GB (up to 7.4 % more), less ECC and what the driver keeps.
    gpu = pm.gpu(key)
    if gpu.visible_capacity is None:
        assert (gpu.capacity, gpu.capacity_kind) == (gpu.memory_capacity, "marketed")
        return
    assert 0.90 <= gpu.visible_capacity / gpu.memory_capacity <= 1.08
    assert (gpu.capacity, gpu.capacity_kind) == (gpu.visible_capacity, "visible")


@pytest.mark.parametrize("key", pm.gpus())
def test_caches_are_smaller_than_memory_and_nested(key):
    gpu = pm.gpu(key)
    if gpu.l2_cache and gpu.last_level_cache and key not in others.PRIVATE_CACHES:
        assert 0.5e6 <= gpu.l2_cache <= gpu.last_level_cache <= gpu.memory_capacity / 10


@pytest.mark.parametrize("key", pm.gpus())
def test_power_is_that_of_one_device(key):
    power = pm.gpu(key).power
    most = 25_000 if key == "cerebras-wse3" else 2500  # a wafer
    assert power is None or 10 <= power <= most


# -- links -------------------------------------------------------------------------------------


@pytest.mark.parametrize("key", pm.gpus())
def test_links_are_counted_in_one_direction(key):
    link = pm.gpu(key).link
    assert (link is None) == (key not in LINKS)
    if link:
        count, each, domain = LINKS[key]
        assert isclose(link.bandwidth, count * each, rel_tol=1e-3)
        assert link.domain == domain
        assert link.latency == 0  # a bound; what a hop takes is measured, and not the vendor's
        assert link.name
        assert link.topology
        assert link.reduces == (key in REDUCES)


@pytest.mark.parametrize("key", pm.gpus())
def test_the_host_is_reached_over_pcie(key):
    link = pm.gpu(key).host_link
    assert (link is None) == (key in NO_HOST_LINK)
    if link is None:
        return
    assert not link.reduces
    named = re.fullmatch(r"PCIe (\d) x(\d+)", link.name)
    assert bool(named) != (key in OTHER_HOST_LINKS)
    if named:
        generation, lanes = named.groups()
        expected = int(lanes) * PCIE[generation] / 8
    else:
        expected = OTHER_HOST_LINKS[key]
    assert isclose(link.bandwidth, expected, rel_tol=1e-3)


# -- the reference table -----------------------------------------------------------------------

REFERENCE_IDS = {
    "p100-sxm": "p100-sxm2-16gb",
    "v100-sxm-16gb": "v100-sxm2-16gb",
    "v100-sxm-32gb": "v100-sxm2-32gb",
    "t4": "t4-16gb",
    "a100-pcie-40gb": "a100-pcie-40gb",
    "a100-sxm-40gb": "a100-sxm4-40gb",
    "a100-pcie-80gb": "a100-pcie-80gb",
    "a100-sxm-80gb": "a100-sxm4-80gb",
    "a800-sxm": "a800-sxm4-80gb",
    "a30": "a30-24gb",
    "a40": "a40-48gb",
    "a10": "a10-24gb",
    "a10g": "a10g-24gb",
    "rtx-a6000": "rtx-a6000-48gb",
    "rtx-3060-12gb": "rtx-3060-12gb",
    "rtx-3090": "rtx-3090-24gb",
    "jetson-agx-orin": "jetson-agx-orin-64gb",
    "l4": "l4-24gb",
    "l40": "l40-48gb",
    "l40s": "l40s-48gb",
    "l20": "l20-48gb",
    "rtx-6000-ada": "rtx-6000-ada-48gb",
    "rtx-4060-ti-16gb": "rtx-4060ti-16gb",
    "rtx-4070": "rtx-4070-12gb",
    "rtx-4080": "rtx-4080-16gb",
    "rtx-4090": "rtx-4090-24gb",
    "h100-sxm": "h100-sxm5-80gb",
    "h100-pcie": "h100-pcie-80gb",
    "h100-nvl": "h100-nvl-94gb",
    "h800-sxm": "h800-sxm5-80gb",
    "h20": "h20-96gb",
    "h200-sxm": "h200-sxm-141gb",
    "h200-nvl": "h200-nvl-141gb",
    "gh200-96gb": "gh200-96gb",
    "gh200-144gb": "gh200-144gb",
    "b100-sxm": "b100-sxm",
    "b200-sxm": "b200-sxm-180gb",
    "gb200": "gb200-nvl72",
    "b300-sxm": "b300-sxm-270gb",
    "gb300": "gb300-nvl72",
    "rubin": "rubin-vr200",
    "rtx-5070-ti": "rtx-5070ti-16gb",
    "rtx-5080": "rtx-5080-16gb",
    "rtx-5090": "rtx-5090-32gb",
    "rtx-pro-6000-workstation": "rtx-pro-6000-blackwell-ws",
    "rtx-pro-6000-max-q": "rtx-pro-6000-blackwell-maxq",
    "rtx-pro-6000-server": "rtx-pro-6000-blackwell-server",
    "jetson-thor": "jetson-thor-t5000",
    "dgx-spark": "dgx-spark-gb10",
    "mi300x": "mi300x-192gb",
} | others.REFERENCE_IDS

# Chips that the reference table has no row for, and what a second list says of them: bandwidth
# [B/s], power [W] and fp32 of the vector units [FLOP/s]. TopCPU of Ada's workstation cards, the
# KPU-Simulator of the GeForce 30 series (of the 3080 Ti a list of CYBIRD-D, which has no peaks),
# nvidia-smi of the 4070 Ti's power.
UNLISTED = {
    "rtx-3070", "rtx-3080-10gb", "rtx-3080-ti", "rtx-3090-ti", "rtx-4070-ti", "rtx-4000-ada",
    "rtx-5000-ada",
} | others.UNLISTED  # fmt: skip
SECOND = {
    "rtx-3070": (448e9, 220, 20.4e12),
    "rtx-3080-10gb": (760e9, 320, 29.8e12),
    "rtx-3080-ti": (912e9, 350, None),
    "rtx-3090-ti": (1008e9, 450, 40.0e12),
    "rtx-4070-ti": (504e9, 285, 40e12),
    "rtx-4000-ada": (360e9, 130, 26.73e12),
    "rtx-5000-ada": (576e9, 250, 65.28e12),
} | others.SECOND

# Vendors all of whose rows are in the catalog.
COMPLETE = {
    "NVIDIA", "AMD", "Intel", "Google", "AWS", "Apple", "Huawei", "Groq", "Cerebras",
}  # fmt: skip

# The reference table's column for each of our fields.
COLUMNS = {
    "memory_bandwidth": "mem_bw_Bps",
    "memory_capacity": "mem_marketed_bytes",
    "visible_capacity": "mem_runtime_visible_bytes",
    "l2_cache": "l2_bytes",
    "last_level_cache": "llc_bytes",
    "units": "unit_count",
    "boost_clock": "boost_clock_hz",
    "matrix_clock": "rated_matrix_clock_hz",
    "power": "tdp_w",
    "link.bandwidth": "scaleup_bw_per_dir_Bps",
    "link.domain": "scaleup_domain",
    "host_link.bandwidth": "pcie_bw_per_dir_Bps",
    **{
        f"peak_flops.{name}": f"peak_{name}_flops"
        for name in ("fp32", "tf32", "fp16", "bf16", "fp8", "mxfp8", "int8", "int4")
    },
    "peak_flops.fp16_acc16": "peak_fp16_a16_flops",
    "peak_flops.fp8_acc16": "peak_fp8_a16_flops",
    "peak_flops.mxfp6": "peak_fp6_flops",
    "peak_flops.mxfp4": "peak_fp4_flops",
    "peak_flops.nvfp4": "peak_fp4_flops",
}

# Driver versions see a few MiB more or less; a clock computed from a rounded peak is near it.
LOOSE = {"visible_capacity": 0.002, "matrix_clock": 0.015}

UNPRINTED = "no clock: the table divides the peak by the units"
SEEN = "a device report of our own"
DIFFERS = {
    ("v100-sxm-32gb", "visible_capacity"): SEEN,
    ("a100-sxm-40gb", "visible_capacity"): SEEN,
    ("a100-sxm-80gb", "visible_capacity"): SEEN,
    ("a30", "visible_capacity"): SEEN,
    ("l40", "visible_capacity"): SEEN,
    ("rtx-3060-12gb", "visible_capacity"): SEEN,  # of an older driver
    ("rtx-4090", "visible_capacity"): SEEN,
    ("h20", "matrix_clock"): UNPRINTED,
    ("b100-sxm", "matrix_clock"): UNPRINTED,
    ("gh200-96gb", "host_link.bandwidth"): "the host is reached over NVLink-C2C",
    ("gh200-144gb", "host_link.bandwidth"): "the host is reached over NVLink-C2C",
} | others.DIFFERS


@pytest.fixture(scope="module")
def reference():
    folder = os.environ.get("PERFMODEL_REFERENCE_DATA")
    if not folder:
        pytest.skip("PERFMODEL_REFERENCE_DATA names no folder of reference data")
    with (Path(folder) / "hardware" / "hardware.csv").open(encoding="utf-8") as file:
        return {row["id"]: row for row in csv.DictReader(file)}


@pytest.mark.parametrize("key", sorted(SECOND))
def test_a_second_list_agrees(key):
    gpu = pm.gpu(key)
    ours = (gpu.memory_bandwidth, gpu.power, gpu.peak_flops.fp32)
    for mine, theirs in zip(ours, SECOND[key], strict=True):
        if theirs is not None:
            assert isclose(mine, theirs, rel_tol=0.01)


@pytest.mark.parametrize("key", sorted(set(pm.gpus()) - UNLISTED))
def test_an_independent_table_agrees(key, reference):
    row, ours = reference[REFERENCE_IDS[key]], numbers(pm.gpu(key))
    assert pm.gpu(key).released == row["release_date"]
    for field, column in COLUMNS.items():
        theirs, mine = row[column], ours.get(field)
        if field == "peak_flops.fp32":  # the matrix units', where they take it
            theirs = row["peak_fp32_tc_flops"] or theirs
        if field == "peak_flops.nvfp4" and row["vendor"] != "NVIDIA":
            theirs = ""
        agree = (mine is None) == (not theirs)
        if agree and theirs:
            agree = isclose(mine, float(theirs), rel_tol=LOOSE.get(field, 1e-3))
        assert agree != ((key, field) in DIFFERS), f"{field}: {mine}, {theirs or None} there"


def test_no_row_of_the_table_is_missing(reference):
    rows = {name for name, row in reference.items() if row["vendor"] in COMPLETE}
    assert rows
    assert not rows - set(REFERENCE_IDS.values())
