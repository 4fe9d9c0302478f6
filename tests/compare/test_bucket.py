"""A bucket of baselines, against an S3 server that runs inside the test where moto is installed."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.compare.folders import write_folder
from tracetool.compare.baseline import add_baseline, baseline_sides, prune
from tracetool.compare.baseline_store import Store
from tracetool.compare.run_options import RunOptions


@pytest.fixture
def bucket(monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    moto = pytest.importorskip("moto.server")
    from pyarrow.fs import S3FileSystem

    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
        monkeypatch.setenv(name, "testing")
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    server = moto.ThreadedMotoServer(ip_address="127.0.0.1", port=0)
    server.start()
    place = f"127.0.0.1:{server.get_host_and_port()[1]}"
    S3FileSystem(
        endpoint_override=place, scheme="http", region="us-east-1", allow_bucket_creation=True
    ).create_dir("kept")
    yield f"s3://kept/baselines?endpoint_override={place}&scheme=http&region=us-east-1"
    server.stop()


def test_baselines_lie_in_a_bucket(bucket: str, tmp_path: Path) -> None:
    runs = [write_folder(tmp_path / f"run-{i}.tracetool", seed=i) for i in range(3)]
    options = RunOptions("anchored")
    add_baseline(bucket, runs, branch="feature/x", commit="abc", options=options)
    kept = Store(bucket).entries("a100-sxm", "feature/x")
    assert [e.label for e in kept] == ["run-0", "run-1", "run-2"]
    back = baseline_sides(bucket, gpu="a100-sxm", branch="feature/x", basis="anchored", last=2)
    assert len(back) == 2
    assert back[0].classes.classes.height == 2
    assert len(prune(bucket, 1)) == 2
    assert len(Store(bucket).entries()) == 1
