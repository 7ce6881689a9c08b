"""What the operating system says of this machine: processor, caches, memory, load."""

from __future__ import annotations

import os
import platform
import subprocess
import sys
from pathlib import Path
from typing import Final

_CPUS: Final = "/sys/devices/system/cpu"
ASSUMED_CACHE: Final = 128 * 2**20  # B; where nothing tells: more than most have

# Of a container: its limit and what it uses, as Linux says now and said before.
_LIMITS: Final = (
    (".max", ".current"),
    ("/memory.limit_in_bytes", "/memory.usage_in_bytes"),
)
_UNITS: Final = {"K": 2**10, "M": 2**20, "G": 2**30}


def cpu_name() -> str:
    """The processor's name; its architecture where nothing more is known."""
    found = _sysctl("machdep.cpu.brand_string") or platform.processor()
    for line in _read("/proc/cpuinfo").splitlines():
        key, _, value = line.partition(":")
        if key.strip() == "model name":
            found = value
            break
    name = " ".join(found.split())[:200] or platform.machine()
    return name if name.isprintable() else "processor"


def cores() -> int:
    """Logical processors that this process may run on [1]."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def last_level_cache(folder: str = _CPUS) -> int | None:
    """All caches before the memory, each that processors share counted once; None: unknown [B]."""
    if found := caches(folder):
        return found[-1] or None
    apple = ("hw.l3cachesize", "hw.perflevel0.l2cachesize", "hw.l2cachesize")
    return next((int(size) for name in apple if (size := _sysctl(name)).isdigit()), None)


def caches(folder: str = _CPUS) -> tuple[int, ...]:
    """The data caches of each level, nearest first, all of a level together; where Linux tells [B].

    Each that processors share counts once.
    """
    levels: dict[int, dict[str, int]] = {}
    for cache in Path(folder).glob("cpu[0-9]*/cache/index[0-9]*"):
        size, kind = _read(cache / "size").strip(), _read(cache / "type").strip()
        level, shared = _read(cache / "level").strip(), _read(cache / "shared_cpu_list")
        if kind != "Instruction" and level.isdigit() and size[:-1].isdigit() and size[-1] in _UNITS:
            levels.setdefault(int(level), {})[shared] = int(size[:-1]) * _UNITS[size[-1]]
    return tuple(sum(levels[level].values()) for level in sorted(levels))


def memory() -> tuple[int | None, int | None]:
    """Memory of the machine, and what is free of it for a program now [B].

    A container's limit counts as its memory.
    """
    found = {
        key: int(value.split()[0]) * 1024
        for key, _, value in (line.partition(":") for line in _read("/proc/meminfo").splitlines())
        if value.strip()[:1].isdigit()
    }
    total, free = found.get("MemTotal"), found.get("MemAvailable")
    if total is None and (size := _sysctl("hw.memsize")).isdigit():
        total = int(size)
        free = total // 2  # macOS does not say simply; half is rarely too much
    for names in _LIMITS:
        limit, used = (_read(f"/sys/fs/cgroup/memory{name}").strip() for name in names)
        if total is not None and free is not None and limit.isdigit() and used.isdigit():
            total, free = min(total, int(limit)), min(free, max(int(limit) - int(used), 0))
    return total, free


def load() -> float | None:
    """How many programs have wanted to run, on average over the last minute; None: unknown [1]."""
    try:
        return os.getloadavg()[0]
    except (AttributeError, OSError):
        return None


def _read(path: str | Path) -> str:
    try:
        return Path(path).read_text(encoding="utf-8", errors="replace")
    except OSError:
        return ""


def _sysctl(name: str) -> str:
    if sys.platform != "darwin":
        return ""
    asked = ["/usr/sbin/sysctl", "-n", name]
    try:
        done = subprocess.run(asked, capture_output=True, text=True, check=False, timeout=5)
    except (OSError, subprocess.SubprocessError):
        return ""
    return done.stdout.strip()
