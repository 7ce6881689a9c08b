"""One accelerator, as its vendor states it: no efficiency hides in here."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, Literal, NamedTuple, Self, TypeAlias

from pydantic import Field, model_validator

from perfmodel.base._messages import shown
from perfmodel.base.errors import InvalidValueError, UnsupportedFormatError, UnsupportedGroupError
from perfmodel.base.spec import (
    Capacity,
    Count,
    Flag,
    Name,
    Origin,
    Quantity,
    QuantityOrZero,
    Rate,
    Spec,
    checked_count,
    quantity,
)
from perfmodel.base.units import si

if TYPE_CHECKING:
    from perfmodel.base._html import Cells

# What can take the place of a format that a chip lacks, and is as wide: the first that it has.
_INSTEAD: Final = {
    "fp32": (),
    "tf32": ("fp32",),
    "fp16_acc16": ("fp16",),
    "fp16": ("bf16", "fp32"),
    "bf16": ("fp16", "fp32"),
    "fp8_acc16": ("fp8",),
}
_NARROW: Final = ("bf16", "fp16", "fp32")  # in place of all that have 8 bits or fewer


class PeakFlops(Spec):
    """Dense peaks, one a number format that the matrix units compute in.

    Products are summed in fp32, integers in int32; where a chip sums in 16 bits faster, that is a
    peak of its own.
    """

    fp32: Rate | None = quantity("F_{fp32}", "FLOP/s", "Dense fp32 peak", default=None)
    tf32: Rate | None = quantity("F_{tf32}", "FLOP/s", "Dense tf32 peak", default=None)
    fp16: Rate | None = quantity("F_{fp16}", "FLOP/s", "Dense fp16 peak", default=None)
    fp16_acc16: Rate | None = quantity(
        "F_{fp16,16}", "FLOP/s", "Dense fp16 peak, summed in fp16", default=None
    )
    bf16: Rate | None = quantity("F_{bf16}", "FLOP/s", "Dense bf16 peak", default=None)
    fp8: Rate | None = quantity("F_{fp8}", "FLOP/s", "Dense fp8 peak", default=None)
    fp8_acc16: Rate | None = quantity(
        "F_{fp8,16}", "FLOP/s", "Dense fp8 peak, summed in fp16", default=None
    )
    mxfp8: Rate | None = quantity(
        "F_{mxfp8}", "FLOP/s", "Dense peak of block-scaled fp8", default=None
    )
    int8: Rate | None = quantity("F_{int8}", "FLOP/s", "Dense int8 peak", default=None)
    mxfp6: Rate | None = quantity("F_{mxfp6}", "FLOP/s", "Dense mxfp6 peak", default=None)
    mxfp4: Rate | None = quantity("F_{mxfp4}", "FLOP/s", "Dense mxfp4 peak", default=None)
    nvfp4: Rate | None = quantity("F_{nvfp4}", "FLOP/s", "Dense nvfp4 peak", default=None)
    int4: Rate | None = quantity("F_{int4}", "FLOP/s", "Dense int4 peak", default=None)

    @model_validator(mode="after")
    def _at_least_one(self) -> Self:
        if not self.formats:
            raise InvalidValueError("PeakFlops: expected a peak for at least one format, got none")
        return self

    @property
    def formats(self) -> tuple[str, ...]:
        """The formats that have a peak."""
        return tuple(name for name in type(self).model_fields if getattr(self, name) is not None)


Topology: TypeAlias = Literal["switch", "mesh", "torus", "ring", "bridge"]


class Link(Spec):
    """How the devices of a domain reach each other, or nodes each other.

    Bandwidth is that of one device in one direction, all of its links together: half of what is
    usually advertised.
    """

    name: Name = "link"
    """A name to print, as ``"NVLink 4"``."""
    bandwidth: Rate = quantity(
        r"\beta_n", "B/s", "Bandwidth of one device in one direction, all its links together"
    )
    latency: QuantityOrZero = quantity(
        r"\alpha_n", "s", "Latency of one hop; 0 is the bound", default=0.0
    )
    domain: Count | None = quantity(
        "n_d", "1", "Devices that reach each other over it; None: without a limit", default=None
    )
    topology: Topology = "switch"
    """How they are joined: through a switch, each with each other, along rings, by a bridge."""
    layout: Name = ""
    """The same in the vendor's words."""
    reduces: Flag = False
    """Whether its switch adds up what the devices send (NVLink SHARP)."""

    def among(self, devices: int) -> float:
        """Bandwidth of one device towards the others of a group.

        Where each is joined with each other, a small group uses only some of the links.

        Parameters
        ----------
        devices : int
            Devices of the group, 2 or more [1].

        Returns
        -------
        float
            Bandwidth in one direction [B/s].

        Raises
        ------
        InvalidValueError
            If it is no group of the domain.

        Examples
        --------
        Seven links of 64 GB/s; two devices share one of them:

        >>> Link(bandwidth=448e9, domain=8, topology="mesh").among(2)
        64000000000.0
        """
        devices = checked_count("devices", devices, 2)
        if self.domain is not None and devices > self.domain:
            raise InvalidValueError(
                f"devices: expected at most {self.domain}, which {self.name} joins, got {devices}"
            )
        if self.topology != "mesh" or self.domain is None:
            return self.bandwidth
        return self.bandwidth * (devices - 1) / (self.domain - 1)


class Figure(NamedTuple):
    """One number of a chip."""

    value: float
    """In SI base units."""
    unit: str
    """The unit, as ``"B/s"``."""


class GpuSpec(Spec):
    """A chip: how fast it moves bytes, how fast it does arithmetic, how much it holds.

    Peaks are dense; a figure with structured sparsity does not belong here.

    Examples
    --------
    >>> mine = GpuSpec(name="mine", memory_bandwidth=3.35e12, peak_flops={"bf16": 989e12})
    >>> mine.peak("bf16") / mine.memory_bandwidth
    295.2238805970149
    """

    name: Name
    """A name to print."""
    key: Name = ""
    """Its key in the catalog; empty for a chip of one's own."""
    vendor: Name = ""
    """Who makes it."""
    architecture: Name = ""
    """Its generation, as ``"Hopper"``."""
    released: Name = ""
    """When it was released or announced, as YYYY-MM-DD."""
    memory_bandwidth: Rate = quantity(r"\beta", "B/s", "Peak memory bandwidth")
    peak_flops: PeakFlops = Field(description="Dense peak per format [FLOP/s]")
    memory_capacity: Capacity | None = quantity("C", "B", "Memory as marketed", default=None)
    visible_capacity: Capacity | None = quantity(
        "C_v", "B", "Memory as a program sees it", default=None
    )
    l2_cache: Capacity | None = quantity("C_2", "B", "Level-2 cache", default=None)
    last_level_cache: Capacity | None = quantity(
        "C_L", "B", "Cache before the memory; what fits it need not be read again", default=None
    )
    units: Count | None = quantity(
        "n_u", "1", "Multiprocessors, compute units or cores with matrix units", default=None
    )
    unit: Name = ""
    """What the vendor calls them."""
    boost_clock: Rate | None = quantity("f_b", "Hz", "Clock they may reach", default=None)
    matrix_clock: Rate | None = quantity(
        "f_m", "Hz", "Clock at which the matrix peaks are rated", default=None
    )
    power: Quantity | None = quantity("P", "W", "Power limit of the device or board", default=None)
    parts: Count = quantity(
        "n_p", "1", "Devices that a program sees in the package, whose figures are sums", default=1
    )
    link: Link | None = None
    """Links to the other devices of its domain."""
    host_link: Link | None = None
    """Link to the host."""
    origins: tuple[Origin, ...] = Field(default=(), repr=False)
    """Where the values come from, one origin a field."""

    def __repr__(self) -> str:
        wide = next((name for name in _NARROW if name in self.peak_flops.formats), None)
        peak = f", {wide} {si(self.peak(wide), 'FLOP/s')}" if wide else ""
        held = f", {si(self.capacity, 'B')}" if self.capacity else ""
        return f"<GpuSpec {self.name}: {si(self.memory_bandwidth, 'B/s')}{peak}{held}>"

    def _cells(self) -> Cells:
        from perfmodel.base._html import told

        rows = ((name.replace("_", " "), told(*figure)) for name, figure in self.figures().items())
        about = ("key", "vendor", "architecture", "released")
        return (), [*((name, getattr(self, name)) for name in about if getattr(self, name)), *rows]

    def peak(self, compute: str) -> float:
        """Dense peak of one format.

        Parameters
        ----------
        compute : str
            The format that is computed in [text].

        Returns
        -------
        float
            The peak [FLOP/s].

        Raises
        ------
        UnsupportedFormatError
            If the chip has none; the message says which it has.

        Examples
        --------
        >>> GpuSpec(name="x", memory_bandwidth=1e12, peak_flops={"bf16": 1e14}).peak("bf16")
        100000000000000.0
        """
        peaks = vars(self.peak_flops)
        known = isinstance(compute, str) and compute in peaks
        found: float | None = peaks[compute] if known else None
        if found is None:
            has, wanted = ", ".join(self.peak_flops.formats), compute if known else shown(compute)
            message = f"{self.name} has no {wanted} peak; it has: {has}"
            raise UnsupportedFormatError(message + (self._instead_of(compute) if known else ""))
        return found

    def _instead_of(self, compute: str) -> str:
        """How to ask for the nearest format that the chip has."""
        choices = _INSTEAD.get(compute, _NARROW)
        found = next((name for name in choices if name in self.peak_flops.formats), None)
        if found is None:
            return ""
        suffix = {"bf16": "16", "fp8": "8"}.get(found, found)
        if compute.endswith("_acc16"):
            return f'. "+compute{suffix}", in place of what it has, sums in fp32'
        return f'. "+compute{suffix}" behind a precision computes in {found}'

    def figures(self) -> dict[str, Figure]:
        """Every figure that is stated, by the name that its origin has.

        Returns
        -------
        dict of str to Figure
            Value and unit, as of ``"peak_flops.bf16"`` or ``"link.bandwidth"``.

        Examples
        --------
        >>> chip = GpuSpec(name="x", memory_bandwidth=1e12, peak_flops={"bf16": 1e14})
        >>> chip.figures()["peak_flops.bf16"]
        Figure(value=100000000000000.0, unit='FLOP/s')
        """
        found: dict[str, Figure] = {}

        def collect(part: Spec, prefix: str) -> None:
            for name, field in type(part).model_fields.items():
                value = getattr(part, name)
                extra = field.json_schema_extra
                if isinstance(value, PeakFlops | Link):
                    collect(value, f"{name}.")
                elif isinstance(extra, dict) and value != field.default:
                    found[prefix + name] = Figure(value, str(extra["unit"]))

        collect(self, "")
        return found

    def link_to(self, devices: int) -> Link:
        """What so many devices of one node reach each other over.

        Parameters
        ----------
        devices : int
            Devices that exchange something, itself included [1].

        Returns
        -------
        Link
            The chip's own links; past a bridge, the link to the host.

        Raises
        ------
        UnsupportedGroupError
            If no link is known, or it does not reach so many.
        InvalidValueError
            If that is no number of devices.

        Examples
        --------
        >>> chip = GpuSpec(
        ...     name="x", memory_bandwidth=1e12, peak_flops={"bf16": 1e14}, link={"bandwidth": 1e11}
        ... )
        >>> chip.link_to(8).bandwidth
        100000000000.0
        """
        devices = checked_count("devices", devices)
        link, host = self.link, self.host_link
        if link is None or (link.topology == "bridge" and devices > (link.domain or devices)):
            link = host
        if link is None:
            raise UnsupportedGroupError(
                f"link: required between {devices} devices, but {self.name} states none; "
                'Parallelism(communication="ignored") leaves it out'
            )
        if link.domain is not None and devices > link.domain:
            raise UnsupportedGroupError(
                f"Parallelism: expected at most {link.domain} devices, which {link.name} of "
                f"{self.name} reaches, got {devices}; pm.Cluster joins more over a network"
            )
        return link

    @property
    def capacity(self) -> float | None:
        """Memory that a program sees where that is known, else the marketed figure [B]."""
        return self.visible_capacity or self.memory_capacity

    @property
    def capacity_kind(self) -> Literal["visible", "marketed"] | None:
        """Which of the two ``capacity`` is."""
        if self.visible_capacity:
            return "visible"
        return "marketed" if self.memory_capacity else None


class Cluster(Spec):
    """Nodes of equal chips: inside a node the chips' own links, between nodes a network.

    Examples
    --------
    >>> chip = GpuSpec(
    ...     name="x", memory_bandwidth=1e12, peak_flops={"bf16": 1e14}, link={"bandwidth": 450e9}
    ... )
    >>> Cluster(gpu=chip, per_node=8, nodes=4, link={"bandwidth": 50e9}).devices
    32
    """

    gpu: GpuSpec
    """The chip."""
    per_node: Count = quantity("n_g", "1", "Chips of a node")
    nodes: Count = quantity("n_m", "1", "Nodes", default=1)
    link: Link | None = None
    """The network between nodes: bandwidth of one chip in one direction."""

    @model_validator(mode="after")
    def _is_linked(self) -> Self:
        if self.nodes > 1 and self.link is None:
            raise InvalidValueError("Cluster.link: required between nodes, but missing")
        between, inside, gpu = self.link, self.gpu.link, self.gpu
        if between is not None and self.nodes > (between.domain or self.nodes):
            raise InvalidValueError(
                f"Cluster.nodes: expected at most {between.domain} nodes, which {between.name} "
                f"joins, got {self.nodes}"
            )
        if inside is None or self.per_node <= (inside.domain or self.per_node):
            return self
        try:
            gpu.link_to(self.per_node)  # or the host's
        except InvalidValueError:
            raise InvalidValueError(
                f"Cluster.per_node: expected at most {inside.domain} chips, which {inside.name} "
                f"of {gpu.name} reaches, got {self.per_node}; nodes= joins more over a network"
            ) from None
        return self

    @property
    def devices(self) -> int:
        """Chips of all nodes [1]."""
        return self.per_node * self.nodes

    def __repr__(self) -> str:
        return f"<Cluster of {self.nodes:,} x {self.per_node:,} {self.gpu.name}>"
