"""Powers of modules, memories, sockets and nodes never enter a GPU's energy, and are named."""

from __future__ import annotations

from pathlib import Path

import polars as pl
import pytest

from tracetool.api.ingest import ingest
from tracetool.measure.attribute import attribute_run
from tracetool.measure.power_log import power_logs, read_power_logs
from tracetool.sources.telemetry.logs import read_log, read_telemetry
from tracetool.tables.run import Run
from tracetool.tables.schema import load_schema
from tracetool.tables.scopes import SCOPES, scope_of_field

SAMPLES = Path(__file__).resolve().parents[2] / "sample_traces"
LOG = SAMPLES / "h100_training_power.csv"
MODULE_W = 5000.0  # no GPU of the sample draws as much


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> tuple[Run, Run]:
    """Return a run of a log, and of the same log with the power of the module in a column more."""
    folder = tmp_path_factory.mktemp("scopes")
    header, *lines = LOG.read_text("utf-8").replace("power.draw.instant", "spare").splitlines()
    (folder / "alone.csv").write_text("\n".join([header, *lines]) + "\n", "utf-8")
    more = [f"{header}, module.power.draw.instant [W]", *(f"{line}, {MODULE_W} W" for line in lines)]
    (folder / "module.csv").write_text("\n".join(more) + "\n", "utf-8")
    trace = [SAMPLES / "h100_training.sqlite"]
    alone = ingest(trace, [folder / "alone.csv"], tz="-05:00", out=folder / "alone.tracetool").path
    beside = ingest(trace, [folder / "module.csv"], tz="-05:00", out=folder / "beside.tracetool").path
    return Run.open(alone), Run.open(beside)


def test_module_power_leaves_the_energy_of_the_gpu_as_it_was(runs: tuple[Run, Run]) -> None:
    """The module's instantaneous power was taken for the GPU's: it is the field of the shortest window."""
    alone, beside = runs
    assert attribute_run(beside).energy.equals(attribute_run(alone).energy)


def test_module_power_is_kept_with_its_scope_and_named(runs: tuple[Run, Run]) -> None:
    alone, beside = runs
    rows = beside.table("telemetry").filter(pl.col("scope") == "module")
    assert rows["power_w"].unique().to_list() == [MODULE_W]
    assert beside.telemetry.drop("source").equals(alone.telemetry.drop("source"))
    assert any("module.power.draw.instant" in w and "not part of GPU" in w for w in beside.info["warnings"])
    assert not any("scope" in w for w in alone.info["warnings"])


def test_clocks_beside_module_power_alone_stay_the_gpus(tmp_path: Path) -> None:
    log = tmp_path / "module.csv"
    log.write_text(
        "timestamp, index, module.power.draw.average [W], clocks.sm [MHz]\n"
        "2026/01/05 05:00:00.250, 0, 900 W, 1410 MHz\n2026/01/05 05:00:01.250, 0, 910 W, 1420 MHz\n",
        "utf-8",
    )
    both = read_telemetry(log, "+00:00")
    assert both.filter(pl.col("scope") == "gpu")["clock_mhz"].to_list() == [1410.0, 1420.0]
    assert both.filter(pl.col("scope") == "gpu")["power_w"].null_count() == 2
    assert both.filter(pl.col("scope") == "module")["power_w"].to_list() == [900.0, 910.0]
    assert power_logs(both, 0, 0) == []
    assert read_power_logs([log], "+00:00")["power_w"].null_count() == 2


def test_a_table_of_an_earlier_version_holds_readings_of_gpus() -> None:
    schema = load_schema("telemetry")
    before = pl.DataFrame({"time_ns": [1], "device": [0], "power_w": [100.0], "source": ["x"]})
    assert schema.conform(before)["scope"].to_list() == ["gpu"]
    assert schema.conform(before.with_columns(scope=pl.lit(None)))["scope"].to_list() == ["gpu"]


def test_a_field_states_its_scope() -> None:
    assert {scope_of_field(f"{s}.power.draw.average") for s in SCOPES} == set(SCOPES)
    assert scope_of_field("average_socket_power") == "gpu"  # AMD's word for the GPU's package


def test_host_columns_of_a_plain_log_are_named(tmp_path: Path) -> None:
    log = tmp_path / "host.csv"
    log.write_text("timestamp,gpu_power_w,cpu_power,ram_power,note\n1767589200,100,60,5,x\n", "utf-8")
    trace = read_log(log)
    assert trace.telemetry["power_w"].to_list() == [100.0]
    assert trace.warnings == ["cpu_power, ram_power: not power of a GPU, not read"]
