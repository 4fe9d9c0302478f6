"""Where tasks run: processes of this machine, or a Ray cluster, behind the seam of ``concurrent.futures``."""

from __future__ import annotations

import importlib
import multiprocessing
import os
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import FIRST_COMPLETED, BrokenExecutor, Future, ProcessPoolExecutor, wait
from contextlib import contextmanager
from typing import Any, Final, Protocol

from tracetool.core.errors import BadInput, MissingPart

#: Tasks after which a process is replaced: what libraries keep of memory goes with it. Starting one costs as
#: much as 20 small traces; after 400 of them a process was as large as after 50.
_TASKS_PER_PROCESS: Final = 500


#: A process that was asked to end is waited for so long. [s]
_END_S: Final = 5.0


class Engine(Protocol):
    """Runner of tasks."""

    workers: int

    def submit(self, task: Callable[..., Any], /, *arguments: Any) -> Future[Any]:
        """Start a task; its future fails with what it raised, or as a broken pool where its process died.

        At most ``workers`` tasks run at a time.
        """

    def close(self) -> None:
        """End all workers, at once."""


def _begin(limit_bytes: int | None) -> None:
    """Bound this process' memory, so that one huge trace fails alone and not the machine.

    Let it end with the command that started it.
    """
    threading.Thread(target=_end_with_command, daemon=True).start()
    if limit_bytes:
        import resource

        # data and mapped memory of this process; a task over it gets MemoryError and its job is recorded
        resource.setrlimit(resource.RLIMIT_DATA, (limit_bytes, limit_bytes))


def _end_with_command() -> None:
    """Exit once the parent process has ended: killed, it sends no message, and no task would come."""
    command = multiprocessing.parent_process()
    if command is not None:
        command.join()
        os._exit(1)


class LocalEngine:
    """Processes of this machine, each with a bound on its memory.

    Each is a pool of its own, which is given a task only when it has none: so the death of a process costs
    its own task alone, and no pool is given one while it breaks, which Python 3.11 may lose.
    """

    def __init__(self, workers: int, limit_bytes: int | None = None) -> None:
        self.workers = workers
        self._limit = limit_bytes
        self._pools = [self._start() for _ in range(workers)]
        self._tasks: list[Future[Any] | None] = [None] * workers

    def _start(self) -> ProcessPoolExecutor:
        return ProcessPoolExecutor(
            1,
            mp_context=multiprocessing.get_context("spawn"),
            initializer=_begin,
            initargs=(self._limit,),
            max_tasks_per_child=_TASKS_PER_PROCESS,
        )

    def submit(self, task: Callable[..., Any], /, *arguments: Any) -> Future[Any]:
        """Start a task in a process that has none, or wait for one to end its own."""
        if all(running and not running.done() for running in self._tasks):
            wait([running for running in self._tasks if running], return_when=FIRST_COMPLETED)
        free = next(at for at, running in enumerate(self._tasks) if running is None or running.done())
        try:
            future = self._pools[free].submit(task, *arguments)
        except (BrokenExecutor, OSError, RuntimeError):  # its process died
            self._pools[free].shutdown(wait=False, cancel_futures=True)
            self._pools[free] = self._start()
            future = self._pools[free].submit(task, *arguments)
        self._tasks[free] = future
        return future

    def close(self) -> None:
        """End the processes without waiting for their tasks; they have ended when this returns."""
        processes = [process for pool in self._pools for process in (pool._processes or {}).values()]
        for pool in self._pools:
            pool.shutdown(wait=False, cancel_futures=True)
        for process in processes:
            process.terminate()
        for process in processes:
            process.join(_END_S)


class RayEngine:
    """Tasks of a Ray cluster: the one that ``RAY_ADDRESS`` names, else one of this machine alone."""

    def __init__(self, workers: int, limit_bytes: int | None = None) -> None:
        try:
            ray: Any = importlib.import_module("ray")
        except ImportError:
            raise MissingPart("--engine ray needs Ray", 'pip install "tracetool-energy[fleet]"') from None
        except (KeyError, OSError):  # what amdsmi raises where AMD's library is not installed
            fix = "pip uninstall amdsmi"
            raise MissingPart("Ray fails on the package amdsmi, which misses AMD's library", fix) from None
        self._ray = ray
        self._here = not ray.is_initialized()
        if self._here:
            ray.init(address=os.environ.get("RAY_ADDRESS"), log_to_driver=False, include_dashboard=False)
        self.workers = workers or int(ray.cluster_resources().get("CPU", 1))
        options: dict[str, Any] = {"num_cpus": 1, "max_retries": 0}
        if limit_bytes:
            options["memory"] = limit_bytes
        self._run = ray.remote(**options)(_call)

    def submit(self, task: Callable[..., Any], /, *arguments: Any) -> Future[Any]:
        """Start a task on the cluster; a task whose worker or node died fails as of a broken pool."""
        outer: Future[Any] = Future()

        def pass_on(inner: Future[Any]) -> None:
            error = inner.exception()
            if error is None:
                outer.set_result(inner.result())
            elif isinstance(error, self._ray.exceptions.RayTaskError):
                outer.set_exception(error.cause)
            else:
                outer.set_exception(BrokenExecutor(str(error).splitlines()[0]))

        self._run.remote(task, *arguments).future().add_done_callback(pass_on)
        return outer

    def close(self) -> None:
        """Leave the cluster."""
        if self._here:
            self._ray.shutdown()


def _call(task: Callable[..., Any], *arguments: Any) -> Any:
    return task(*arguments)


ENGINES: Final[dict[str, Callable[[int, int | None], Engine]]] = {"local": LocalEngine, "ray": RayEngine}


@contextmanager
def started(name: str, workers: int, limit_bytes: int | None) -> Iterator[Engine]:
    """Give an engine, ended afterwards.

    Raises
    ------
    BadInput
        If there is no engine of that name.
    MissingPart
        If its package is not installed.
    """
    if name not in ENGINES:
        raise BadInput(f"no engine {name!r}", f"known: {', '.join(ENGINES)}")
    engine = ENGINES[name](workers or os.cpu_count() or 1, limit_bytes)
    try:
        yield engine
    finally:
        engine.close()
