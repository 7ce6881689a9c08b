"""Served models: what ``serve`` says beside measured times to first token and times a token.

``python benchmarks/serving.py --data FOLDER`` reads ``serving/open.csv`` of the reference data,
which the repository does not hold, and prints errors by engine, model and chip: first with nothing
fitted to any served model, then with what the catalog knows of each engine's host and server.
"""

from __future__ import annotations

import argparse
import os
import statistics
import sys
from collections import defaultdict
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT / "benchmarks"))

from floors.checks import Row, rows  # noqa: E402
from scores.precisions import precision  # noqa: E402
from scores.records import Record  # noqa: E402
from scores.restate import LeftOutError, served  # noqa: E402
from scores.steps import model  # noqa: E402

import perfmodel as pm  # noqa: E402
from perfmodel.base.errors import PerfModelError  # noqa: E402
from perfmodel.sources.efficiency import resolve_server  # noqa: E402

ROUNDS = 10  # requests of each user, from a common start
DRAWN = 8  # lengths that stand for those drawn from a range


class Served(NamedTuple):
    """A measured run, and what to ask the library."""

    record: Record
    workload: pm.Workload
    ttft: float  # s
    tpot: float  # s

    @property
    def rate(self) -> float:
        """Requests a second: users over the time of a request."""
        return self.record.batch / (self.ttft + self.workload.decode_tokens * self.tpot)


class Errors(NamedTuple):
    """Of one run: expected over measured, less one."""

    run: Served
    tpot: float
    rate: float
    ttft: float


def read(folder: Path) -> Iterator[Served]:
    """Every clean run whose devices all share each step."""
    for row in rows(folder / "serving", "open"):
        try:
            record = served(row)
        except LeftOutError:
            continue
        yield Served(record, workload(record, row), *(_ms(row, name) for name in ("ttft", "tpot")))


def _ms(row: Row, name: str) -> float:
    return float(row[f"silicon_{name}_ms"]) * 1e-3


def workload(record: Record, row: Row) -> pm.Workload:
    """Lengths are drawn evenly from 80 to 100 % of what is named, but for 8B."""
    spread = [1.0] if "3.1-8b" in record.model else [
        0.8 + 0.2 * (i + 0.5) / DRAWN for i in range(DRAWN)
    ]  # fmt: skip
    prompt, output = ([float(row[name]) * part for part in spread] for name in ("isl", "osl"))
    return pm.Workload(prompt=prompt, output=output, concurrency=record.batch, rounds=ROUNDS)


def efficiency(record: Record, *, host: bool) -> pm.Efficiency:
    """What is known of the engine's kernels, with its host or without."""
    found = pm.efficiency(pm.gpu(record.gpu), engine=record.engine)
    return found if host else found.model_copy(update={"host": None})


def server(record: Record) -> pm.ServerForm:
    """What is known of the engine's server."""
    return resolve_server(None, record.engine)


def parallelism(record: Record) -> pm.Parallelism:
    """How the devices of a run share the model."""
    return pm.Parallelism(tensor=record.tensor, pipeline=record.pipeline, expert=record.expert)


def expected(run: Served, *, host: bool) -> Errors:
    """How far the library is from a run."""
    record = run.record
    shape = model(record.model)
    found = pm.serve(
        shape,
        pm.gpu(record.gpu),
        run.workload,
        precision=precision(record.precision, shape),
        parallelism=parallelism(record),
        efficiency=efficiency(record, host=host),
        server=server(record) if host else pm.ServerForm(),
    )
    return Errors(
        run,
        found.tpot / run.tpot - 1,
        found.requests_per_second / run.rate - 1,
        found.ttft / run.ttft - 1,
    )


def table(errors: Iterable[Errors]) -> str:
    """Median and 90th percentile of each figure, and the signed median, by group."""
    groups: dict[str, list[Errors]] = defaultdict(list)
    for one in errors:
        record = one.run.record
        groups["all"].append(one)
        for name in (record.engine, record.model, f"{record.model}, {record.engine}", record.gpu):
            groups[name].append(one)
    lines = [
        "| runs | rows | time a token, % | throughput, % | first token, % |",
        "|---|---|---|---|---|",
    ]
    for name, found in sorted(groups.items(), key=lambda item: (item[0] != "all", item[0])):
        cells = (_cell([getattr(one, key) for one in found]) for key in ("tpot", "rate", "ttft"))
        lines.append(f"| {name} | {len(found)} | {' | '.join(cells)} |")
    return "\n".join(lines)


def _cell(signed: list[float]) -> str:
    errors = sorted(map(abs, signed))
    median, bias = statistics.median(errors), statistics.median(signed)
    ninetieth = errors[round(0.9 * (len(errors) - 1))]
    return f"{100 * median:.1f} / {100 * ninetieth:.1f} ({100 * bias:+.0f})"


def main() -> None:
    """Print both tables."""
    asked = argparse.ArgumentParser(description=__doc__)
    asked.add_argument("--data", default=os.environ.get("PERFMODEL_REFERENCE_DATA"))
    asked.add_argument("--every", type=int, default=1, help="only each so manieth run")
    options = asked.parse_args()
    if options.data is None:
        asked.error("--data: a folder with serving/open.csv is required")
    runs = list(read(Path(options.data)))[:: options.every]
    for title, host in (
        ("nothing fitted to a served model", False),
        ("hosts of the catalog", True),
    ):
        errors, left = [], 0
        for run in runs:
            try:
                errors.append(expected(run, host=host))
            except PerfModelError:
                left += 1
        print(f"\n{title}: {len(errors)} runs, {left} without an answer\n\n{table(errors)}")


if __name__ == "__main__":
    main()
