"""Every text decoder that is read, alone or in a section of a config, by its ``model_type``."""

from __future__ import annotations

from typing import Final

from perfmodel.sources.huggingface.families.dense import DENSE
from perfmodel.sources.huggingface.families.gemma import GEMMA
from perfmodel.sources.huggingface.families.hybrid import HYBRID
from perfmodel.sources.huggingface.families.latent import LATENT
from perfmodel.sources.huggingface.families.legacy import LEGACY
from perfmodel.sources.huggingface.families.looped import LOOPED
from perfmodel.sources.huggingface.families.mamba import MAMBA
from perfmodel.sources.huggingface.families.moe import MOE
from perfmodel.sources.huggingface.families.parts import Family
from perfmodel.sources.huggingface.families.remote_code import REMOTE_CODE
from perfmodel.sources.huggingface.families.windowed import WINDOWED

DECODERS: Final[dict[str, Family]] = {
    **DENSE,
    **GEMMA,
    **HYBRID,
    **LATENT,
    **LEGACY,
    **LOOPED,
    **MAMBA,
    **MOE,
    **REMOTE_CODE,
    **WINDOWED,
}
