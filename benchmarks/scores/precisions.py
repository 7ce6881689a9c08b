"""In what formats a record ran, where no preset says it."""

from __future__ import annotations

from functools import cache

import perfmodel as pm
from perfmodel.base.formats import FORMATS
from perfmodel.base.precision import Precision

# DeepSeek-R1 in 4 bits keeps in 16 what leads into attention.
_WIDE = ("latent.query_down", "latent.query_up", "latent.latent", "latent.kv_up")


@cache
def precision(name: str, model: pm.ModelShape) -> Precision | str:
    """The precision of a name on a model.

    ``own`` is the model's checkpoint. ``own-a8`` are experts in mxfp4 whose inputs are quantized to
    mxfp8, as on Blackwell. ``nvfp4-experts`` keeps the projections into attention in bf16.
    """
    recipe, _, kv = name.partition("+kv")
    own = model.resolve_precision(None)
    if recipe == "own":
        found = own
    elif recipe == "own-a8":
        inputs = {"inputs": FORMATS["mxfp8"], "compute": "mxfp8"}
        linear = own.linear.model_copy(update=inputs)
        found = own.model_copy(update={"linear": linear, "name": recipe})
    elif recipe == "nvfp4-experts":
        half = Precision.preset("bf16").linear
        parts = tuple((part, half) for part in _WIDE)
        found = Precision.preset("nvfp4").model_copy(update={"parts": parts, "name": recipe})
    else:
        return name
    if not kv:
        return found
    stored = FORMATS["fp8" if kv == "8" else kv]
    return found.model_copy(update={"kv": stored, "name": f"{found.name}+kv{kv}"})
