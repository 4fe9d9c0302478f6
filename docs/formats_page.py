"""Write ``formats.md``: every format with the command that makes it, from the formats themselves."""

from __future__ import annotations

import sys
from pathlib import Path

from tracetool.sources.detect import all_formats
from tracetool.sources.format import Format

PAGE = Path(__file__).with_name("formats.md")
HEAD = """# Formats

`tracetool ingest` takes any mix of these and tells them by their content, never by their names alone. The same list:
`tracetool formats`. This page is written by `python docs/formats_page.py`.

```
tracetool ingest run.nsys-rep --power power.csv -o run.tracetool
```

Beside what the last column says, the tests hold every format to this: its files are told by content and claimed by no other format,
every prefix and flipped byte of them gives a table or one clear line, and no row is lost uncounted.
"""
TAIL = """
## What to know before recording
- **Record both at once**: the trace, and beside it a power log of at least ten readings a second that starts a second
  before and ends a second after. `nvidia-smi` writes local time without a zone: `--tz +02:00` tells it, and an Nsight
  Systems trace of the same host tells it by itself.
- **Power in the trace itself**: `nsys profile --enable nvml_metrics,-i100 --gpu-metrics-devices=cuda-visible ...` samples
  power and temperature, and clocks and activity of SMs, tensor cores and DRAM; both end up in `telemetry` on the trace's own
  clock. The plugin reads what `nvidia-smi` calls `power.draw`: on H100 the mean of the last second, which the sensor's model
  takes into account. `summary` and `check-power` state the activity (`act_sm`, `act_tensor`, `act_dram`). Power without a
  stated unit is in milliwatts, as the plugin documents, unless no GPU could draw that little. `rocprof-sys-run` polls AMD SMI
  (`device_power`) into its `.pftrace` and rocpd files: power, temperature, load and clocks of GPUs are telemetry too. Any other
  counter, and any power whose GPU the file does not tell, is named in a note with its number of samples.
- **Collectives in Nsight Systems**: `nsys profile -t cuda,nvtx` records the size and communicator that NCCL states with each call. Exports that hold
  payloads (`NVTX_PAYLOAD_SCHEMA_ENTRIES`, Nsight Systems 2026) give each NCCL kernel its bytes, ranks (where the recording began before the communicator
  was made) and process group: by the call that launched it, of a group of calls by their sum where they are of one kind, else not at all.
- **Work that was measured**: `ncu --set roofline --csv --page raw --log-file ncu.csv ...` counts operations, DRAM bytes and time
  of every launch; `tracetool ingest run.nsys-rep ncu.csv` joins them to the trace's kernels by name, grid, block and order of
  launches (table `measured_work`). `roofline` and `diff RUN` then show them beside what was counted from shapes, with the
  error, and `classify RUN -o FILE` has them per launch. `ncu` runs each kernel alone, at a clock it sets, and flushes the caches
  before (`--clock-control none --cache-control none` do not): bytes of small kernels read too high in that case. Operations are
  left open where a kernel used tensor cores and no count of theirs was collected (`sm__ops_path_tensor_src_*`). On AMD GPUs
  `rocprofv3 --pmc FETCH_SIZE WRITE_SIZE --output-format csv` counts bytes; `SQ_INSTS_VALU_*` and `SQ_INSTS_VALU_MFMA_MOPS_*` count
  operations, which stay open without the latter. What does not fit into one pass is a file for each (`pmc_1/`, `pmc_2/`): give all.
- **CUDA graphs**: `nsys profile` records a whole graph as one activity unless asked for `--cuda-graph-trace=node`.
- **Shapes**: `record_shapes=True` of the PyTorch profiler, or `torch.autograd.profiler.emit_nvtx(record_shapes=True)`
  under `nsys`, give the operators' shapes; without them work is read off grids and names.
- **Shapes of a profile recorded without them**: an execution trace of the same run states them
  (`tracetool ingest trace.json et.json`); calls are joined by the number (`Record function id`) and name that both files have.
- **A report newer than the installed `nsys`** cannot be opened by it. Export it where it was recorded:
  `nsys export --type sqlite -o run.sqlite run.nsys-rep`. A `.sqlite` of the same name beside a report that cannot be
  opened is read in its place, if it is no older and not made by an `nsys` older than the report; a note says so.
- **rocprof**: prefer `rocpd`, JSON or CSV to `pftrace`: its writer edits the times of overlapping dispatches. Version 1
  runs kernels one after another: gaps and overlaps in it are the profiler's.
- **`.pftrace` files** are read without further packages. The extra `perfetto` only installs Perfetto's own trace
  processor, for queries of yours; it downloads its engine at first use.
- **Several AMD GPUs**: the profilers number agents, CPUs among them; `rocm-smi` and `amd-smi` count GPUs alone. A card of the log is the GPU in its
  place among the GPUs' agents, where the trace lists them (`*_agent_info.csv` beside rocprofv3's CSV, its JSON, rocpd); else where the log has as many
  GPUs as the trace, in order, or one each. Otherwise the log is of other GPUs: keep the lines of the right card alone.
- **Several ranks**: give all their files at once; each keeps its GPU, GPUs with the same unique id are one. The ranks of a
  collective end it within microseconds of each other: traces are moved (and, where clocks drift, stretched) onto the first one's
  clock by the collectives they share, and the logs of their GPUs with them. `run.json` (`clock.alignment[].collectives`) and a
  note say how far clocks were apart, how closely ends agree now and from how many collectives that is known. Logs of several
  hosts whose GPUs have the same index are taken in the order of the ranks; a `uuid` column in the log leaves nothing to take.
- **Power of other things than the GPU** keeps its scope (column `scope` of `telemetry.parquet`): `gpu`, `gpu_memory`, `module`
  (GPU and CPU, as GH200 has it: its `module.power.draw` counts the CPU too), `socket` (a CPU package), `host_memory`, `node`. Only `gpu`
  enters energy of kernels and runs; a note of `ingest` names the others. AMD's `socket_power` is that of the GPU's package, and
  its scope is `gpu`. Readings of hosts have no `device`; each `field` is one meter. `tracetool summary`
  gives the energy of each scope over the run, and of the node without its GPUs.
- **Written by tests alone**: in the public repositories searched no file was found of rocprof-sys and PyTorch `.pftrace`, Nsight Systems with
  `nvml_metrics`, AIPerf's telemetry, srt-slurm packages, Zeus windows and Slurm's energy series: the tests write them as their writers' source does.
- **Units** are checked: a log whose power integrates to 1e3, 3600, 1e6 or 3.6e6 times what its energy counter gained, or to such a
  fraction, is refused with both figures; so is one that reads more power than any GPU draws. Columns of plain logs state theirs by
  name: `power_mw`, `energy_kwh`, `energy_MJ`.
- **Requests of a serving benchmark** are no trace: `tracetool attribute profile_export.jsonl --power LOG` (AIPerf) takes them, also
  InferenceX's tables: `detailed_results.csv` of its trace replay, and `metrics_client_metrics.csv` where `start_time_ms` counts from 1970
  ([joules per token and request](attribution.md#requests)). Its power logs (`gpu_metrics.csv`) are those of `nvidia-smi` and `amd-smi`.
- **Logs without times** (`dcgmi dmon`, `rocm-smi`): stamp the lines, `| ts '%.s'`, or print `date +%s.%N` between tables.

## Clocks
Each source counts on its own clock; `run.json` says which (`clock.domain`), how each was moved (`offset_ns`, `error_ns`,
`basis`) and whether that was possible (`placed`).

| source | its clock | to UTC |
|---|---|---|
| Nsight Systems | nanoseconds from the session's start | the start time in the report |
| PyTorch profiler | UTC | none; times since 1970 are kept exact to the nanosecond |
| rocprof, rocpd, RPD | nanoseconds since boot | nothing in the file tells: fitted to the power log |
| nvidia-smi | local time | `--tz`, or the zone of a trace of the same host |
| Zeus, amd-smi, Prometheus | UTC | none |

A source that only overlaps with the others is laid where its activity makes the power log likeliest: cross-correlation
finds the place, the sensor's window refines it, long logs tell the drift. A fit that correlates less than 0.5 is not used.
Work that repeats may fit in several places: then `ambiguous` is set, `rivals_ns` names the others, and the error reaches over all.
`low_ns` and `high_ns` are its 90 % interval, `error_parts_ns` what it is made of: what the likelihood leaves open, when
within its period a reading was made (polls in step with the updates never show it: up to 29 ms of a 100 ms sensor), and
4 ms for stamping. Of 56 simulated logs kept apart (four kinds of sensor, polled every 20 to 500 ms) it held the truth in 50.

Changes of the clocks within a log (`clock_changes`), steps back, repeats, gaps, and logs that start after the first kernel
or end before the last are named in the warnings. Where `nsys` cannot open a report, an export of the same name beside it
that is no older is read in its place, said on standard error and kept in `details` (`read_from`, `read_from_sha256`).

## Damage
A file that cannot be used ends in exit code 2 and one line with the file and the place. Rows that cannot be used in a
good file are counted, kept in `rejected.parquet` and named in the warnings. A gzip file may unpack to at most 200 times
its size (and always to 256 MB); `TRACETOOL_MAX_GZ_RATIO=1000` lets more through. Sources are opened read-only and never
changed; the environment and command line of the recorded process, which reports hold, are never read.

Databases are untrusted input: only plain tables are read. Views, virtual tables and computed columns are programs and
never run; a view in place of a table that is needed is refused. No table may hold more rows or text than its file has space
for, no cell more than 16 MiB, and the steps SQLite may take are bounded by the file's size; an interrupt ends a query.

What a read takes is predicted before it starts, from rows and columns a table declares or the size of a text. It is refused
where more would be needed than the machine, its control group or a limit (`ulimit -v`) leave, and where a Parquet file
declares columns more than 200 times its size (`TRACETOOL_MAX_GZ_RATIO` again, always up to 256 MB). A million kernels with
their calls take about 0.5 GiB from a SQLite export, 0.25 GiB from Parquet; a million lines of nvidia-smi 0.6 GiB.
"""


def _row(name: str, found: Format) -> str:
    made = found.made_by.replace("|", "\\|")
    endings = ", ".join(f"`{s}`" for s in found.suffixes)
    return f"| {found.title} (`{name}`) | {endings} | `{made}` | {found.tried} | {found.checked} |"


def page() -> str:
    """Return the page."""
    parts = [HEAD]
    for holds, title in (
        ("trace", "Traces"),
        ("telemetry", "Power and clock logs"),
        ("counters", "Counters of launches"),
    ):
        parts.append(
            f"\n## {title}\n\n| format | endings | made by | tried on | checked against |\n|---|---|---|---|---|"
        )
        listed = sorted(all_formats().items(), key=lambda f: f[1].title.lower())
        parts += [_row(n, f) for n, f in listed if f.holds == holds]
    return "\n".join(parts) + "\n" + TAIL


if __name__ == "__main__":
    PAGE.write_text(page(), "utf-8")
    sys.stdout.write(f"wrote {PAGE}\n")
