"""How fast an LLM will go on a chip, what limits it, what fits, and what would change that.

An analytical performance model of LLM inference on the roofline:
``time >= max(FLOPs / peak, bytes / bandwidth)``. Write ``import perfmodel as pm``; every physical
argument is a keyword; every number is in SI base units (s, B, FLOP, B/s, FLOP/s, tokens).
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING

from perfmodel.answers.estimate import Estimate
from perfmodel.answers.holding.record import DeviceMemory, Remedy
from perfmodel.answers.steps import decode, estimate, prefill
from perfmodel.base import errors, units
from perfmodel.base.formats import Format
from perfmodel.base.precision import Precision
from perfmodel.base.spec import Origin, Source
from perfmodel.machine.efficiency import (
    Band,
    CollectiveEfficiency,
    Efficiency,
    KernelEfficiency,
    LinkEfficiency,
)
from perfmodel.machine.forms import (
    AllReduceForm,
    HostForm,
    KernelForm,
    PrefillForm,
    ServerForm,
)
from perfmodel.machine.hardware import Cluster, GpuSpec, Link, PeakFlops
from perfmodel.sources.catalog import gpu, gpus, model, models, read_gpu
from perfmodel.sources.efficiency import efficiency, engines
from perfmodel.work import layers
from perfmodel.work.collective import Collective
from perfmodel.work.forward import forward
from perfmodel.work.layers import (
    Attention,
    FeedForward,
    LatentAttention,
    MixtureOfExperts,
    Totals,
)
from perfmodel.work.layers.embedding import Embedding, Head
from perfmodel.work.operation import Operation, gemm
from perfmodel.work.parallel import Parallelism
from perfmodel.work.shape import ModelShape
from perfmodel.work.shard import shard
from perfmodel.work.step import Group, Step

if TYPE_CHECKING:
    import perfmodel.interfaces.plots as plots
    import perfmodel.interfaces.symbolic as symbolic
    from perfmodel.answers.calibrate import calibrate
    from perfmodel.answers.calibrating.record import Calibration
    from perfmodel.answers.compare import Comparison, compare
    from perfmodel.answers.generate import Generation, generate
    from perfmodel.answers.growth import KvGrowth, kv_growth
    from perfmodel.answers.holding.layout import KvLayout, kv_layout
    from perfmodel.answers.holding.policies import MemoryPolicy
    from perfmodel.answers.holding.pool import KvPool, kv_pool
    from perfmodel.answers.memory import (
        max_batch,
        max_context,
        max_tokens,
        memory,
        min_capacity,
        min_devices,
    )
    from perfmodel.answers.planning.demand import Demand, Slo
    from perfmodel.answers.planning.plan import largest_load, plan
    from perfmodel.answers.planning.record import Plan, Plans
    from perfmodel.answers.ridges import (
        critical_context,
        gemm_ridge_batch,
        ridge_batch,
        ridge_intensity,
        roof,
        step_ridge_batch,
    )
    from perfmodel.answers.serving.lengths import Lengths
    from perfmodel.answers.serving.record import Serving
    from perfmodel.answers.serving.scheduler import Disaggregated, Scheduler, Speculation
    from perfmodel.answers.serving.serve import serve
    from perfmodel.answers.serving.workload import Workload
    from perfmodel.interfaces.measuring.measure import measure
    from perfmodel.interfaces.measuring.model import MeasuredModel, measure_model
    from perfmodel.interfaces.measuring.record import Measurement
    from perfmodel.interfaces.sweep import Sweep, sweep
    from perfmodel.sources.efficiency_file import read_efficiency
    from perfmodel.sources.huggingface import read_hf, read_precision
    from perfmodel.sources.prices import Price, prices, read_prices

__version__ = "0.1.0"

__all__ = [
    "AllReduceForm",
    "Attention",
    "Band",
    "Calibration",
    "Cluster",
    "Collective",
    "CollectiveEfficiency",
    "Comparison",
    "Demand",
    "DeviceMemory",
    "Disaggregated",
    "Efficiency",
    "Embedding",
    "Estimate",
    "FeedForward",
    "Format",
    "Generation",
    "GpuSpec",
    "Group",
    "Head",
    "HostForm",
    "KernelEfficiency",
    "KernelForm",
    "KvGrowth",
    "KvLayout",
    "KvPool",
    "LatentAttention",
    "Lengths",
    "Link",
    "LinkEfficiency",
    "MeasuredModel",
    "Measurement",
    "MemoryPolicy",
    "MixtureOfExperts",
    "ModelShape",
    "Operation",
    "Origin",
    "Parallelism",
    "PeakFlops",
    "Plan",
    "Plans",
    "Precision",
    "PrefillForm",
    "Price",
    "Remedy",
    "Scheduler",
    "ServerForm",
    "Serving",
    "Slo",
    "Source",
    "Speculation",
    "Step",
    "Sweep",
    "Totals",
    "Workload",
    "calibrate",
    "compare",
    "critical_context",
    "decode",
    "efficiency",
    "engines",
    "errors",
    "estimate",
    "forward",
    "gemm",
    "gemm_ridge_batch",
    "generate",
    "gpu",
    "gpus",
    "kv_growth",
    "kv_layout",
    "kv_pool",
    "largest_load",
    "layers",
    "max_batch",
    "max_context",
    "max_tokens",
    "measure",
    "measure_model",
    "memory",
    "min_capacity",
    "min_devices",
    "model",
    "models",
    "plan",
    "plots",
    "prefill",
    "prices",
    "read_efficiency",
    "read_gpu",
    "read_hf",
    "read_precision",
    "read_prices",
    "ridge_batch",
    "ridge_intensity",
    "roof",
    "serve",
    "shard",
    "step_ridge_batch",
    "sweep",
    "symbolic",
    "units",
]

# Imported when first asked for: what needs NumPy or SymPy, the families of models, and all answers
# but a step's.
_LAZY = {
    "perfmodel.answers.calibrate": "calibrate",
    "perfmodel.answers.calibrating.record": "Calibration",
    "perfmodel.answers.compare": "Comparison compare",
    "perfmodel.answers.generate": "Generation generate",
    "perfmodel.answers.growth": "KvGrowth kv_growth",
    "perfmodel.answers.holding.layout": "KvLayout kv_layout",
    "perfmodel.answers.holding.policies": "MemoryPolicy",
    "perfmodel.answers.holding.pool": "KvPool kv_pool",
    "perfmodel.answers.memory": "max_batch max_context max_tokens memory min_capacity min_devices",
    "perfmodel.answers.planning.demand": "Demand Slo",
    "perfmodel.answers.planning.plan": "largest_load plan",
    "perfmodel.answers.planning.record": "Plan Plans",
    "perfmodel.answers.ridges": (
        "critical_context gemm_ridge_batch ridge_batch ridge_intensity roof step_ridge_batch"
    ),
    "perfmodel.answers.serving.lengths": "Lengths",
    "perfmodel.answers.serving.record": "Serving",
    "perfmodel.answers.serving.scheduler": "Disaggregated Scheduler Speculation",
    "perfmodel.answers.serving.serve": "serve",
    "perfmodel.answers.serving.workload": "Workload",
    "perfmodel.interfaces.measuring.measure": "measure",
    "perfmodel.interfaces.measuring.model": "MeasuredModel measure_model",
    "perfmodel.interfaces.measuring.record": "Measurement",
    "perfmodel.interfaces.plots": "plots",
    "perfmodel.interfaces.sweep": "Sweep sweep",
    "perfmodel.interfaces.symbolic": "symbolic",
    "perfmodel.sources.efficiency_file": "read_efficiency",
    "perfmodel.sources.huggingface": "read_hf read_precision",
    "perfmodel.sources.prices": "Price prices read_prices",
}
_WHERE = {name: module for module, names in _LAZY.items() for name in names.split()}


def __getattr__(name: str) -> object:
    if name not in _WHERE:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    module = importlib.import_module(_WHERE[name])
    found = module if name in ("plots", "symbolic") else getattr(module, name)
    globals()[name] = found
    return found


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
