"""Engines that run tasks of ``fleet`` in this process: what begins and ends others is in test_engines.py."""

from __future__ import annotations

import pickle
from collections.abc import Callable
from concurrent.futures import Future
from typing import Any


class Here:
    """An engine that runs a task at once, here."""

    def __init__(self, workers: int = 2, limit_bytes: int | None = None) -> None:
        self.workers = workers

    def submit(self, task: Callable[..., Any], /, *arguments: Any) -> Future[Any]:
        future: Future[Any] = Future()
        try:
            future.set_result(task(*arguments))
        except Exception as error:  # noqa: BLE001 - as a worker does
            future.set_exception(error)
        return future

    def close(self) -> None:
        pass


class HereOfCopies(Here):
    """One whose task has copies of its arguments, and returns one, as between processes."""

    def submit(self, task: Callable[..., Any], /, *arguments: Any) -> Future[Any]:
        return super().submit(_of_copies, pickle.dumps((task, arguments)))


def _of_copies(content: bytes) -> Any:
    task, arguments = pickle.loads(content)
    return pickle.loads(pickle.dumps(task(*arguments)))
