"""Results and runs in several processes and threads: pickled, spawned, forked."""

from __future__ import annotations

import copy
import multiprocessing
import os
import pickle
import subprocess
import sys
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor, ThreadPoolExecutor
from pathlib import Path

import pytest

import tracetool as tt


@pytest.fixture(scope="module")
def run(samples: Path, tmp_path_factory: pytest.TempPathFactory) -> tt.Run:
    out = tmp_path_factory.mktemp("run") / "mi300x.tracetool"
    return tt.ingest(samples / "mi300x_kernel_trace.csv", gpu="mi300x", out=out)


RESULTS: dict[str, Callable[[tt.Run], tt.Result]] = {
    "run": lambda r: r,
    "predict": lambda r: r.predict(clock=[1200, 2100]),
    "sweep": lambda r: r.sweep(clock="1200:2100:300"),
    "energy by": lambda r: tt.energy_by(r, ["family"]),
    "summary": tt.summary,
    "roofline": tt.roofline,
    "diagnose": tt.diagnose,
    "pair": lambda r: tt.diagnose_pair(r, r),
    "classify": lambda r: r.classify(),
    "diff": lambda r: r.diff(),
    "diff of two": lambda r: r.diff(r),
    "export": lambda r: tt.export(r, r.path.with_name("run.pftrace")),
    "gpu": lambda _: tt.gpu("h100-sxm"),
    "schema": lambda _: tt.schema(),
}


@pytest.mark.parametrize("name", RESULTS)
def test_a_result_can_be_pickled_and_copied(name: str, run: tt.Run) -> None:
    result = RESULTS[name](run)
    for other in (pickle.loads(pickle.dumps(result)), copy.deepcopy(result)):
        assert other.to_dict() == result.to_dict()
        assert other.frame.equals(result.frame)


def test_a_pickled_run_holds_no_tables(run: tt.Run) -> None:
    assert run.kernels.height
    assert len(pickle.dumps(run)) < 20_000
    assert pickle.loads(pickle.dumps(run)).kernels.equals(run.kernels)


def test_a_pickled_prediction_answers_further_questions(run: tt.Run) -> None:
    predicted = run.predict(clock=1200)
    other: tt.Prediction = pickle.loads(pickle.dumps(predicted))
    assert other.rows("family").equals(predicted.rows("family"))


def test_work_goes_to_spawned_processes(run: tt.Run) -> None:
    with ProcessPoolExecutor(1, mp_context=multiprocessing.get_context("spawn")) as pool:
        totals = pool.submit(tt.summary, run).result().parts
    assert totals.equals(tt.summary(run).parts)


_FORKED = """
import os, sys, traceback
import tracetool as tt
early = sys.argv[2] == "early"
if not early:
    tt.open(sys.argv[1]).kernels.sort("start_ns")
child = os.fork()
if child == 0:
    try:
        found = tt.open(sys.argv[1]).kernels.height
        print("read" if found else "empty", flush=True)
    except tt.TracetoolError as error:
        print(error.line(), flush=True)
    os._exit(0)
os.waitpid(child, 0)
"""


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no forks here")
@pytest.mark.parametrize(("when", "said"), [("early", "read"), ("late", 'get_context("spawn")')])
def test_a_forked_process_works_or_says_why_it_cannot(when: str, said: str, run: tt.Run) -> None:
    program = [sys.executable, "-W", "ignore", "-c", _FORKED, str(run), when]
    done = subprocess.run(program, capture_output=True, text=True, timeout=120, check=True)
    assert said in done.stdout


def test_threads_may_ask_one_prediction(run: tt.Run) -> None:
    predicted = run.predict(clock=[1200, 2100], power_cap=500)
    keys = ["signature", "family", "gpu", "gap"]
    alone = {key: predicted.rows(key) for key in keys}
    with ThreadPoolExecutor(4) as pool:
        together = dict(zip(keys, pool.map(predicted.rows, keys), strict=True))
    assert all(together[key].equals(alone[key]) for key in keys)
