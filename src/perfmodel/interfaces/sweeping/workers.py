"""The parts of a sweep on a Dask cluster: many at a time, handed back in their order."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Sequence
from typing import Any

from perfmodel.base._messages import shown
from perfmodel.base.errors import InvalidValueError, MissingExtraError, PerfModelError
from perfmodel.interfaces.sweeping.columns import Column
from perfmodel.interfaces.sweeping.grid import Grid, Piece, computed


def checked_client(client: Any) -> Any:
    """A client of Dask's that waits for what it asks, or None.

    Raises
    ------
    MissingExtraError
        If Dask is not installed.
    InvalidValueError
        If it is something else.
    """
    if client is None:
        return None
    try:
        from distributed import Client
    except ImportError:
        raise MissingExtraError('client needs Dask: pip install "perfmodel[dask]"') from None
    if not isinstance(client, Client) or client.asynchronous:
        raise InvalidValueError(
            f"client: expected a dask.distributed.Client, not asynchronous, got {shown(client)}"
        )
    return client


def parts_on(client: Any, grid: Grid, columns: Sequence[Column]) -> Iterator[dict[str, Any]]:
    """Parts as workers compute them, in the order of the table.

    Two parts a thread are on their way at any time, and no more: what is computed sooner than it
    is taken stays with the workers.

    Raises
    ------
    InvalidValueError
        If the cluster does not compute them all.
    """
    try:
        yield from _in_order(client, grid, columns)
    except PerfModelError:
        raise
    except Exception as error:  # whatever became of the cluster, or goes wrong there
        told = f"{type(error).__name__}: {error}"
        raise InvalidValueError(
            f"client: expected a cluster that computes all parts, got {told}"
        ) from error


def _in_order(client: Any, grid: Grid, columns: Sequence[Column]) -> Iterator[dict[str, Any]]:
    # A task, and no data that a dying worker takes with it: the scheduler makes it anew.
    shared = client.submit(_itself, grid, pure=False)
    ahead = 2 * max(1, sum(client.nthreads().values()))
    waiting: deque[Any] = deque()
    for part in grid.parts():
        waiting.append(client.submit(_part, shared, part, columns, pure=False))
        if len(waiting) >= ahead:
            yield waiting.popleft().result()
    while waiting:
        yield waiting.popleft().result()


def _itself(grid: Grid) -> Grid:
    return grid


def _part(grid: Grid, pieces: Sequence[Piece], columns: Sequence[Column]) -> dict[str, Any]:
    return computed(grid, pieces, columns)
