"""Whole steps and runs that engines and users have published, each under its floor."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import perfmodel as pm
from floors.bounds import MANY, Run, decoded, flowing, joined, prefilled, whole
from floors.checks import Check, NoFloorError, Row, Unchecked, chip, rows
from floors.shapes import POSITIONS, model
from floors.storage import precision
from perfmodel.base.errors import PerfModelError
from perfmodel.roofline import memory_time

# Files whose requests come and go, so many at most together; in the others a batch starts at once.
SERVED = {"deepseek_serving", "lmdeploy_a100", "serving_docs_excerpts", "tpu_google", "vllm_blog"}

Pair = tuple[float, float]  # s: the time that a row states, and the floor of what it timed


def run_checks(folder: Path) -> Iterator[Check | Unchecked]:
    """Every row of every file of measured runs."""
    for path in sorted((folder / "measured").glob("*.csv")):
        for row in rows(folder / "measured", path.stem):
            try:
                yield check(path.stem, row)
            except NoFloorError as lack:
                yield Unchecked(path.stem, row["id"], str(lack))
            except PerfModelError as error:
                yield Unchecked(path.stem, row["id"], f"refused: {error}")


def check(file: str, row: Row) -> Check:
    """One row under the roof."""
    refuse(row)
    run = read(file, row)
    measured, floor = METRICS[row["metric"]](row, run)
    return Check(
        file=file,
        row=row["id"],
        chip=run.gpu.name,
        measured=measured,
        floor=floor,
        working_set=run.working_set,
        cache=run.cache,
        excuse="ends early" if ends_early(row, run) else "",
    )


def refuse(row: Row) -> None:
    """Leave out what is no plain pass over a model of known size."""
    if "SPECULATIVE" in row["notes"]:
        raise NoFloorError("speculative")
    if "INCLUDING" in row["notes"] and "cache hits" in row["notes"]:
        raise NoFloorError("prompts partly cached")
    if row["model"].startswith("kernel:"):
        raise NoFloorError("a kernel of unstated sizes")
    if row["metric"] not in METRICS:
        raise NoFloorError(f"{row['metric']} is no time of a step")
    if not row["n_gpu"].isdigit():
        raise NoFloorError("the number of devices is not stated")


def ends_early(row: Row, run: Run) -> bool:
    """Whether the engine ends sequences before the output is as long as asked."""
    positions = POSITIONS.get(row["model"]) if row["engine"] == "vLLM" else None
    return positions is not None and run.prompt + (run.output or 0) > positions


def read(file: str, row: Row) -> Run:
    """The numbers of a row."""
    gpu, shape = chip(row["gpu"]), model(row["model"])
    if shape is None:
        raise NoFloorError(f"no model {row['model']}")
    names = ("batch_or_concurrency", "input_tokens", "output_tokens")
    batch, prompt, output = (number(row[name]) for name in names)
    half = row["gpu"].endswith("1GCD")  # one of the two devices of a package
    return Run(
        shape=shape,
        gpu=gpu,
        stored=precision(row["weight_dtype"], row["kv_dtype"], gpu),
        devices=0.5 if half else int(row["n_gpu"]),
        ways=division(row),
        at_once=file not in SERVED,
        batch=batch,
        prompt=prompt or 0,
        output=output,
    )


def division(row: Row) -> pm.Parallelism | None:
    """How the devices share the work, if that accounts for all of them."""
    devices, tensor, stages = (number(row[name]) or 1 for name in ("n_gpu", "tp", "pp"))
    if devices == 1 or tensor * stages != devices:
        return None
    expert = number(row["ep"]) or 1
    within = tensor % expert == 0
    return pm.Parallelism(tensor=tensor, pipeline=stages, expert=expert if within else 1)


def number(text: str) -> int | None:
    """A count, where a cell holds one."""
    return int(text) if text.isdigit() else None


# -- one reading a metric -------------------------------------------------------------------------


def of_run(row: Row, run: Run) -> Pair:
    """Milliseconds of a batch, from the prompts to the last token."""
    return float(row["value"]) * 1e-3, whole(run, run.batch or 1)


def of_both(row: Row, run: Run) -> Pair:
    """Tokens a second of a batch, those of the prompt included."""
    tokens = (run.batch or 1) * (run.prompt + (run.output or 0))
    return tokens / float(row["value"]), whole(run, run.batch or 1)


def of_first_token(row: Row, run: Run) -> Pair:
    """Milliseconds to the first token: of a batch at once, or of one request among others."""
    alone = "prefill of" in row["notes"] and "for one user" in row["notes"]
    return float(row["value"]) * 1e-3, prefilled(run, 1 if alone else together(run))


def of_prompt(row: Row, run: Run) -> Pair:
    """Tokens of the prompt a second."""
    tokens, speed = max(run.prompt, 1), float(row["value"])
    if run.at_once:
        return tokens * together(run) / speed, prefilled(run, together(run))
    return tokens / speed, prefilled(run, MANY) / MANY


def of_token(row: Row, run: Run) -> Pair:
    """Milliseconds of a further token."""
    return mean(float(row["value"]) * 1e-3, row, run)


def of_user(row: Row, run: Run) -> Pair:
    """Tokens a second of one sequence."""
    return mean(1 / float(row["value"]), row, run)


def mean(seconds: float, row: Row, run: Run) -> Pair:
    """A mean over an output; of no stated length, or a median, at the shortest context."""
    if not run.output or run.output == 1 or "P50" in row["notes"]:
        return seconds, decoded(run, together(run), 2)
    return seconds * run.output, decoded(run, together(run), run.output)


def together(run: Run) -> int:
    """Sequences that surely share each step."""
    return run.batch or 1 if run.at_once else 1


def of_all(row: Row, run: Run) -> Pair:
    """Generated tokens a second, of all sequences together."""
    seconds, output = 1 / float(row["value"]), run.output
    if row["metric"].endswith("per_gpu"):
        seconds /= run.devices
    if output is None:  # decode alone, by an endless batch at most
        return seconds, decoded(run, MANY, 2) / MANY
    if run.batch is None:
        return seconds * output, flowing(run, output)
    if run.at_once:
        return seconds * output * run.batch, whole(run, run.batch)
    steps = decoded(run, run.batch, output) / run.batch
    return seconds * output, max(steps, flowing(run, output))


def of_bandwidth(row: Row, run: Run) -> Pair:
    """Gigabytes of weights a second that each device is said to read."""
    one = joined(run.gpu, min(run.devices, 1))
    read = memory_time(nbytes=1e9, bandwidth=one.memory_bandwidth)
    return 1 / float(row["value"]), read


METRICS: dict[str, Callable[[Row, Run], Pair]] = {
    "e2e_latency_ms": of_run,
    "total_tok_s": of_both,
    "ttft_ms": of_first_token,
    "prefill_tok_s": of_prompt,
    "tpot_ms": of_token,
    "decode_tok_s_per_user": of_user,
    "decode_tok_s_total": of_all,
    "output_tok_s_total": of_all,
    "output_tok_s_per_gpu": of_all,
    "kernel_gb_s": of_bandwidth,
}
