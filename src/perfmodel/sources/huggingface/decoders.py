"""Every text decoder that is read, alone or in a section of a config, by its ``model_type``."""

from __future__ import annotations

from typing import Final

from perfmodel.sources.huggingface.dense import DENSE
from perfmodel.sources.huggingface.gemma import GEMMA
from perfmodel.sources.huggingface.hybrid import HYBRID
from perfmodel.sources.huggingface.latent import LATENT
from perfmodel.sources.huggingface.legacy import LEGACY
from perfmodel.sources.huggingface.looped import LOOPED
from perfmodel.sources.huggingface.mamba import MAMBA
from perfmodel.sources.huggingface.moe import MOE
from perfmodel.sources.huggingface.parts import Family
from perfmodel.sources.huggingface.remote_code import REMOTE_CODE
from perfmodel.sources.huggingface.windowed import WINDOWED

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
