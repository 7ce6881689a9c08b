"""Several precisions, chips or models side by side."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from functools import partial
from typing import TYPE_CHECKING

from perfmodel.answers.estimate import Estimate
from perfmodel.answers.steps import decode
from perfmodel.base.errors import UnsupportedFormatError, UnsupportedGroupError
from perfmodel.base.precision import Precision, PrecisionLike
from perfmodel.base.spec import Name, Spec, checked_list
from perfmodel.machine.efficiency import IDEAL
from perfmodel.machine.hardware import Cluster, GpuSpec
from perfmodel.sources.efficiency import EfficiencyLike
from perfmodel.work.parallel import SINGLE, Parallelism
from perfmodel.work.shape import ModelShape

if TYPE_CHECKING:
    import pandas as pd

    from perfmodel.base._html import Cells


class ComparisonRow(Spec):
    """One combination: its estimate, or why there is none."""

    model: Name
    """Name of the model."""
    gpu: Name
    """Name of the chip."""
    precision: Name
    """Name of the precision."""
    estimate: Estimate | None
    """The decode step; None where the chip lacks a format, or links between the devices."""
    unsupported: str | None = None
    """What the chip lacks, in words; None where there is an estimate."""


class Comparison(Spec):
    """Decode steps side by side."""

    rows: tuple[ComparisonRow, ...]
    """Every combination: models slowest, then chips, then precisions."""

    def __repr__(self) -> str:
        return f"<Comparison of {len(self.rows)} steps>"

    __str__ = __repr__

    def _cells(self) -> Cells:
        from perfmodel.base._html import told

        def cells(row: ComparisonRow) -> tuple[str, ...]:
            found, names = row.estimate, (row.model, row.gpu, row.precision)
            if found is None:
                return (*names, row.unsupported or "")
            numbers = told(found.time, "s"), told(found.tokens_per_second, "1/s")
            return (*names, *numbers, found.bound, told(found.fits))

        return ("model", "chip", "precision", "time", "tokens", "bound", "fits"), map(
            cells, self.rows
        )

    def to_frame(self) -> pd.DataFrame:
        """One row a combination; times [s], bytes [B], FLOPs [FLOP], tokens/s [1/s]."""
        import pandas as pd

        numbers = ("time", "floor", "bound", "tokens_per_second", "flops", "bytes", "fits")
        return pd.DataFrame(
            {"model": row.model, "gpu": row.gpu, "precision": row.precision}
            | {key: getattr(row.estimate, key, None) for key in numbers}
            | {"unsupported": row.unsupported}
            for row in self.rows
        )


def compare(
    model: ModelShape | Sequence[ModelShape],
    gpu: GpuSpec | Cluster | Sequence[GpuSpec | Cluster],
    *,
    batch: int,
    context: int | None = None,
    precisions: Iterable[PrecisionLike] | Precision = (None,),
    efficiency: EfficiencyLike = IDEAL,
    engine: str | None = None,
    parallelism: Parallelism = SINGLE,
) -> Comparison:
    """Decode the same batch with several precisions, chips or models.

    Parameters
    ----------
    model : ModelShape or sequence of ModelShape
        The models.
    gpu : GpuSpec or Cluster or sequence of them
        The chips, or clusters of them.
    batch : int
        Sequences [1].
    context : int or None
        Tokens that each new token attends, itself included [1].
    precisions : Precision or iterable of Precision or str or None
        The precisions; None is the checkpoint's own, else bf16.
    efficiency : Efficiency or {"ideal", "auto"}
        How far below the roofs; the default is the roofs themselves, "auto" what is known of the
        chip.
    engine : str or None
        Whose kernels and host are meant, of ``engines()``; implies "auto".
    parallelism : Parallelism
        Over how many devices each part of the model is divided; the default is one device.

    Returns
    -------
    Comparison
        Every combination, in order; one whose chip lacks a format, or links between so many
        devices, says so and stops no other.

    Raises
    ------
    UnknownKeyError
        If there is no preset of that name.
    NoCacheError
        If a context is given for a shape without a cache.
    InvalidValueError
        If an argument is not what it should be.

    Examples
    --------
    >>> from perfmodel import GpuSpec, ModelShape, compare
    >>> a100 = GpuSpec(name="A100", memory_bandwidth=2.039e12, peak_flops={"bf16": 312e12})
    >>> table = compare(
    ...     ModelShape.from_totals(params=8e9), a100, batch=1, precisions=["bf16", "fp8"]
    ... )
    >>> [row.unsupported for row in table.rows]
    [None, 'A100 has no fp8 peak; it has: bf16. "+compute16" behind a precision computes in bf16']
    """
    models = checked_list("model", model, one=ModelShape)
    gpus = [gpu] if isinstance(gpu, Cluster) else checked_list("gpu", gpu, one=GpuSpec)
    wanted = checked_list("precisions", precisions, one=Precision)
    step = partial(
        decode,
        batch=batch,
        context=context,
        efficiency=efficiency,
        engine=engine,
        parallelism=parallelism,
    )
    rows = [_row(step, m, g, p) for m in models for g in gpus for p in wanted]
    return Comparison(rows=tuple(rows))


def _row(
    step: Callable[..., Estimate],
    model: ModelShape,
    gpu: GpuSpec | Cluster,
    precision: PrecisionLike,
) -> ComparisonRow:
    found, unsupported = None, None
    try:
        found = step(model, gpu, precision=precision)
    except (UnsupportedFormatError, UnsupportedGroupError) as error:
        unsupported = str(error)
    name = model.resolve_precision(precision).name
    chip = gpu.gpu if isinstance(gpu, Cluster) else gpu
    return ComparisonRow(
        model=model.name, gpu=chip.name, precision=name, estimate=found, unsupported=unsupported
    )
