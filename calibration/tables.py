"""The public kernel tables of aiconfigurator-core, from its wheel or as installed."""

from __future__ import annotations

import csv
import io
import re
import zipfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Final

import pandas as pd
import pyarrow.parquet as pq

PACKAGE: Final = "aiconfigurator_core"
VERSION: Final = "0.12.0"
ENGINES: Final = ("trtllm", "vllm", "sglang")

# The tables' name of a chip: the catalog's.
CHIPS: Final = {
    "a100_sxm": "a100-sxm-80gb",
    "h100_sxm": "h100-sxm",
    "h200_sxm": "h200-sxm",
    "b200_sxm": "b200-sxm",
    "b300_sxm": "b300-sxm",
    "gb200": "gb200",
    "gb300": "gb300",
    "l40s": "l40s",
    "rtx_pro_6000_server": "rtx-pro-6000-server",
    "b60": "arc-pro-b60",
}


class Tables:
    """All tables of one version of the package, by their path in it."""

    def __init__(self, wheel: Path | None = None) -> None:
        """From a wheel, or from the installed package without one."""
        self._read, names = _from_wheel(wheel) if wheel else _installed()
        self.paths = sorted(name for name in names if name.endswith(".parquet"))

    def named(self, table: str) -> Iterator[tuple[str, str, str, str]]:
        """Path, chip, engine and version of each table of a name, the newest version first."""
        found = []
        for path in self.paths:
            parts = path.split("/")
            if parts[-1] == f"{table}.parquet":
                system, _, engine, version = parts[-5:-1]
                found.append((path, CHIPS[system], engine, version))
        yield from sorted(found, key=lambda one: (one[1], one[2], _version(one[3])), reverse=True)

    def frame(self, path: str) -> pd.DataFrame:
        """One table as it is."""
        frame: pd.DataFrame = pq.read_table(io.BytesIO(self._read(path))).to_pandas()
        return frame


def held_out(folder: Path | None) -> dict[str, pd.DataFrame]:
    """Rows that tests will ask for, by their table's path: never fit to those."""
    rows: dict[str, list[dict[str, str]]] = {}
    for file in sorted(folder.glob("kernels/reference_*.csv")) if folder else ():
        with file.open(newline="", encoding="utf-8") as lines:
            for row in csv.DictReader(lines):
                rows.setdefault(row["source"].split(":", 1)[1], []).append(row)
    return {path: pd.DataFrame(found) for path, found in rows.items()}


def _version(text: str) -> tuple[int, ...]:
    return tuple(int(part) for part in re.findall(r"\d+", text))


def _from_wheel(wheel: Path) -> tuple[Callable[[str], bytes], list[str]]:
    archive = zipfile.ZipFile(wheel)
    if VERSION not in wheel.name:
        raise SystemExit(f"{wheel.name}: expected version {VERSION} of {PACKAGE}")
    prefix = f"{PACKAGE}/"
    names = [name.removeprefix(prefix) for name in archive.namelist() if name.startswith(prefix)]
    return (lambda name: archive.read(prefix + name)), names


def _installed() -> tuple[Callable[[str], bytes], list[str]]:
    from importlib.metadata import version
    from importlib.util import find_spec

    spec = find_spec(PACKAGE)
    if spec is None or spec.origin is None:
        raise SystemExit(f"{PACKAGE} is not installed; give its wheel with --wheel")
    if version(PACKAGE.replace("_", "-")) != VERSION:
        raise SystemExit(f"expected version {VERSION} of {PACKAGE}")
    root = Path(spec.origin).parent
    names = [path.relative_to(root).as_posix() for path in root.rglob("*.parquet")]
    return (lambda name: (root / name).read_bytes()), names
