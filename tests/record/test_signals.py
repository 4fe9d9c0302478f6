"""A signal ends the wait for a program, whenever it arrives."""

from __future__ import annotations

import ctypes
import operator
import select
import signal
from collections.abc import Iterator
from functools import partial
from importlib import import_module
from pathlib import Path
from types import SimpleNamespace

import pytest

import tracetool as tt
from tracetool.core.errors import Interrupted
from tracetool.core.stop_signals import Terminated
from tracetool.record.child import NotedSignals
from tracetool.record.session import Recorded

child = import_module("tracetool.record.child")


@pytest.fixture(autouse=True)
def signals_of_a_terminal() -> Iterator[None]:
    """SIGINT is not ignored, as it is where a shell started the tests in the background; all are restored.

    A SIGTERM that was noted leaves repeats of it, and a SIGHUP, ignored.
    """
    stops = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
    before = {number: signal.getsignal(number) for number in stops}
    signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    for number, handler in before.items():
        signal.signal(number, handler)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGCHLD])
def test_a_signal_just_before_the_wait_ends_it(
    number: signal.Signals, monkeypatch: pytest.MonkeyPatch
) -> None:
    """No handler runs between the last step in Python and the wait of the system: a program ended there."""
    readable: list[bool] = []
    real_select = select.select

    def raise_then_wait(
        reads: list[int], writes: list[int], errors: list[int], _: float | None
    ) -> tuple[list[int], list[int], list[int]]:
        raise_signal = partial(ctypes.CDLL(None)["raise"], int(number))
        wait = partial(real_select, reads, writes, errors, 0)
        _, ready = map(operator.call, [raise_signal, wait])  # both within one step of Python
        readable.append(bool(ready[0]))
        return ready

    with NotedSignals() as signals:
        # of this module alone: the test runner's own threads wait by select too
        monkeypatch.setattr(child, "select", SimpleNamespace(select=raise_then_wait))
        signals.wait(None)
        numbers = signals.take()
    assert readable == [True]
    assert numbers == ([] if number == signal.SIGCHLD else [number])


def test_the_signals_are_given_back() -> None:
    before = [signal.getsignal(n) for n in (signal.SIGINT, signal.SIGTERM, signal.SIGCHLD)]
    wakeup = signal.set_wakeup_fd(-1)
    signal.set_wakeup_fd(wakeup)
    with NotedSignals():
        assert signal.getsignal(signal.SIGINT) != before[0]
    assert [signal.getsignal(n) for n in (signal.SIGINT, signal.SIGTERM, signal.SIGCHLD)] == before
    after = signal.set_wakeup_fd(-1)
    signal.set_wakeup_fd(after)
    assert after == wakeup


@pytest.mark.parametrize(("stop", "code"), [(KeyboardInterrupt(), 130), (Terminated(), 143)])
def test_a_signal_while_the_run_is_made_says_what_is_kept(
    stop: BaseException, code: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def stopped(*_: object, **__: object) -> None:
        raise stop

    home = import_module("tracetool.api.record")
    monkeypatch.setattr(home, "carry_out", lambda *_: Recorded(tmp_path / "run.recording"))
    monkeypatch.setattr(import_module("tracetool.record.summary"), "summarize", stopped)
    with pytest.raises(Interrupted, match=r"what was recorded is in .*run\.recording") as raised:
        tt.record(["true"], out=tmp_path / "run.tracetool")
    assert raised.value.exit_code == code
    assert "--finish" in raised.value.fix
