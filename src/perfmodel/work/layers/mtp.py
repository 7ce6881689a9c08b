"""How a block that predicts a further token is entered."""

from __future__ import annotations

from typing import ClassVar, Literal

from perfmodel.base._num import Num
from perfmodel.base.spec import Flag
from perfmodel.work.layers.layer import Layer, Norm, norm_params
from perfmodel.work.operation import Matrix


class MtpEntry(Layer):
    """The last hidden state and the embedding of the token after it, normed and projected.

    References
    ----------
    DeepSeek-AI, "DeepSeek-V3 Technical Report", 2024, section 2.2.
    """

    DIVIDED: ClassVar[tuple[str, ...] | None] = ()

    kind: Literal["mtp"] = "mtp"
    """Tells the layers apart."""
    norm: Norm | None = None
    """It norms each of its two inputs itself."""
    last_norm: Flag = True
    """Whether there is a norm before the shared head."""

    @property
    def title(self) -> str:
        """What a table calls it."""
        return "MTP entry"

    def matrices(self, hidden: Num) -> tuple[Matrix, ...]:
        """The projection of both inputs onto one."""
        return (Matrix("mtp_in", 2 * hidden, hidden),)

    def vectors(self, hidden: Num) -> Num:
        """The norms of both inputs, and the one before the shared head [1]."""
        return (3 if self.last_norm else 2) * norm_params("rms", hidden)
