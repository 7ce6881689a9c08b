"""A base with larger or smaller shares: while it is fitted, and as it is given back."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from perfmodel.answers.calibrating.kernel_fits import rounded
from perfmodel.machine.efficiency import (
    Band,
    CollectiveEfficiency,
    Efficiency,
    KernelEfficiency,
    LinkEfficiency,
)
from perfmodel.machine.forms import AllReduceForm, HostForm, KernelForm, PrefillForm


def scaled(base: Efficiency, memory: float, compute: float) -> Efficiency:
    """The base with all shares of bandwidth and of peaks so much larger; unchecked."""
    if memory == compute == 1:
        return base
    kernels = tuple(
        KernelEfficiency.trusted(
            name=one.name, form=_scaled_form(one.form, memory, compute), band=one.band
        )
        for one in base.kernels
    )
    fields = {name: getattr(base, name) for name in Efficiency.model_fields}
    shares = {
        "memory": min(1.0, base.memory * memory),
        "compute": min(1.0, base.compute * compute),
    }
    return Efficiency.trusted(**fields | shares | {"kernels": kernels})


def _scaled_form(form: KernelForm | PrefillForm, memory: float, compute: float) -> Any:
    fields = {name: getattr(form, name) for name in type(form).model_fields}
    fields["compute"] = form.compute * compute
    fields["memory"] = min(1.0, form.memory * memory)
    if fields.get("activation") is not None:
        fields["activation"] = min(1.0, fields["activation"] * memory)
    return type(form).trusted(**fields)


def recast(base: Efficiency, values: Mapping[str, float], bands: Mapping[str, Band]) -> Efficiency:
    """The base with what whole steps told; their bands take the place of those of kernels."""
    expected, longer = scaled(base, values["memory"], values["compute"]), values["network"]
    host = base.host or HostForm()
    told = {name: values[name] for name in ("constant", "sequence")}
    moved = any(values[name] != getattr(host, name) for name in told)
    return base.model_copy(
        update={
            "kernels": tuple(
                KernelEfficiency(name=one.name, form=type(one.form)(**_four_digits(one.form)))
                for one in expected.kernels
            ),
            "collectives": tuple(
                CollectiveEfficiency(kind=one.kind, form=_longer(one.form, longer))
                for one in base.collectives
            ),
            "link": base.link if longer == 1 else _longer(base.link or LinkEfficiency(), longer),
            "memory": rounded(expected.memory),
            "compute": rounded(expected.compute),
            "block_overhead": values["block"],
            "host": host.model_copy(update=told) if moved else base.host,
            "decode_band": bands["decode"],
            "prefill_band": bands["prefill"],
        }
    )


def _longer(form: LinkEfficiency | AllReduceForm, ratio: float) -> LinkEfficiency | AllReduceForm:
    """A collective that takes so many times as long; its links never more than all they have."""
    if ratio == 1:
        return form
    waits = ("launch", "second", "hop")
    update = {name: rounded(ratio * getattr(form, name)) for name in waits if hasattr(form, name)}
    return form.model_copy(update={**update, "share": rounded(min(1.0, form.share / ratio))})


def _four_digits(form: KernelForm | PrefillForm) -> dict[str, Any]:
    fields = {name: getattr(form, name) for name in type(form).model_fields}
    for name in ("compute", "memory", "activation"):
        if fields.get(name) is not None:
            fields[name] = rounded(fields[name])
    return fields
