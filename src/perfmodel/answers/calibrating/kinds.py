"""What is found for each kind of kernel: which form, which parameters, between which bounds."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any, Final, NamedTuple

from perfmodel.answers.calibrating.fitting import Free
from perfmodel.base.spec import Spec
from perfmodel.machine.efficiency import LinkEfficiency
from perfmodel.machine.forms import AllReduceForm, KernelForm, PrefillForm
from perfmodel.machine.hardware import GpuSpec

# Whose inputs are quantized as a product runs: more kernels, each with a pipeline of its own.
QUANTIZED: Final = ("fp8", "fp8-block", "nvfp4", "mxfp8", "mxfp4", "mxfp4a8", "w4afp8")


class Problem(NamedTuple):
    """A form, what is found of it, and what is fixed."""

    form: type[Spec]
    free: Mapping[str, Free]
    fixed: Mapping[str, Any]

    def made(self, parameters: Mapping[str, Any]) -> Any:
        """The form with such parameters, unchecked; what is neither found nor fixed is ideal."""
        defaults = {name: field.default for name, field in self.form.model_fields.items()}
        return self.form.trusted(**defaults | dict(self.fixed) | dict(parameters))


def problem(kind: str, recipe: str = "") -> Problem:
    """What is found of one kind of kernel or collective."""
    if kind == "matrix":
        return _matrix(recipe)
    return _PROBLEMS[kind]


def _matrix(recipe: str) -> Problem:
    free = {
        "compute": Free(0.7, 0.05, 1.6),
        "memory": Free(0.8, 0.05, 1.0),
        "launch": Free(4e-6, 5e-7, 1e-4),
    }
    if recipe not in QUANTIZED:
        return Problem(KernelForm, free, {"exponent": 2.0, "fill": 2e-10})
    # Only here do these pay.
    free |= {"fill": Free(2e-10, 1e-11, 2e-9), "prepare": Free(3, 0.5, 40)}
    return Problem(KernelForm, free, {"exponent": 2.0})


_DECODE: Final = {
    "memory": Free(0.8, 0.02, 1.0),
    "launch": Free(1e-5, 5e-7, 2e-4),
    "tile": Free(1e-6, 1e-9, 1e-4),
}
_PREFILL: Final = Problem(
    PrefillForm,
    {
        "compute": Free(0.7, 0.05, 2.0),
        "memory": Free(0.5, 0.05, 1.0),
        "launch": Free(1e-5, 5e-7, 2e-4),
        "tile": Free(1e-7, 1e-9, 1e-4),
    },
    {"exponent": 1.0},
)
_COLLECTIVE: Final = Problem(
    LinkEfficiency,
    {
        "launch": Free(5e-6, 5e-7, 1e-4),
        "hop": Free(1e-6, 2e-9, 2e-5),
        "share": Free(0.7, 0.02, 1.0),
        "half": Free(3e6, 10.0, 1e9),
    },
    {},
)
_PROBLEMS: Final[Mapping[str, Problem]] = {
    "decode-attention": Problem(KernelForm, _DECODE, {"exponent": 2.0}),
    "latent-decode": Problem(
        KernelForm, {"compute": Free(0.5, 0.02, 1.6), **_DECODE}, {"exponent": 2.0}
    ),
    "prefill-attention": _PREFILL,
    "latent-prefill": _PREFILL,
    "experts": Problem(
        KernelForm,
        {
            "compute": Free(0.7, 0.05, 1.6),
            "memory": Free(0.8, 0.05, 1.0),
            "launch": Free(3e-5, 1e-6, 3e-4),
            "prepare": Free(2, 0.1, 40),
            "activation": Free(0.4, 0.02, 1.0),
        },
        {"exponent": 2.0},
    ),
    "all-reduce": _COLLECTIVE,
    "all-gather": _COLLECTIVE,
    "reduce-scatter": _COLLECTIVE,
    "all-to-all": _COLLECTIVE,
    "own-all-reduce": Problem(
        AllReduceForm,
        {
            "launch": Free(4e-6, 5e-7, 2e-5),
            "second": Free(8e-6, 5e-7, 1e-3),
            "hop": Free(1e-7, 2e-9, 2e-5),
            "share": Free(0.7, 0.02, 1.0),
            "half": Free(1e5, 10.0, 1e9),
        },
        {},
    ),
}


def per_clock(gpu: GpuSpec) -> float:
    """Exponentials of one multiprocessor in a clock: NVIDIA's; no limit is known of others."""
    if not gpu.vendor.startswith("NVIDIA"):
        return math.inf
    return 32.0 if "Ultra" in gpu.architecture else 16.0
