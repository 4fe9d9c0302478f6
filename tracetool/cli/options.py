"""Options that several commands have, each defined once: the same name, bounds and help everywhere."""

from __future__ import annotations

import typer

from tracetool.cli.arguments import finite

# Output
JSON_OPTION = typer.Option(
    False, "--json", help="Print one JSON document on standard output and nothing else; an error is one too."
)
LIST_OUT_OPTION = typer.Option(None, "--out", "-o", help="Write the list: .parquet .csv .json .md .html .xml")
#: Of commands that judge by limits: formats of CI systems besides those of tables.
VERDICT_OUT_OPTION = typer.Option(
    [], "-o", "--out", help="Write: .md .json .csv .parquet .html .xml .sarif .codequality."
)
QUIET_OPTION = typer.Option(False, "--quiet", "-q", help="Print errors only.")
VERBOSE_OPTION = typer.Option(
    False, "--verbose", "-v", help="Print steps, their times and peak memory on standard error."
)

# Verdicts in CI
ANNOTATE_OPTION = typer.Option(False, "--annotate", help="Print workflow annotations (GitHub Actions).")
EXIT_ZERO_OPTION = typer.Option(False, "--exit-zero", help="Report only: never exit 1.")

# Power logs
TZ_OPTION = typer.Option(None, "--tz", help="Time zone of power logs in local time: +02:00 or Europe/Berlin.")
SENSOR_OPTION = typer.Option(None, "--sensor", help="Calibration of this GPU's sensor (TOML).")

# Groups of launches
DEPTH_OPTION = typer.Option(
    None, "--depth", min=1, max=64, help="Levels of nested modules kept apart with --by module."
)
BY_OPTION = typer.Option(
    None,
    "--by",
    help="Compare these groups too: signature, family, operator, module, range, iteration, phase, gpu, gap "
    "or several (gpu,module); limits name them, *:energy=2% all.",
)

# The operating point, and what the model assumes
MEM_CLOCK_OPTION = typer.Option(
    None, "--mem-clock", min=1.0, max=1e5, callback=finite, help="Memory clock. [MHz]"
)
ANCHOR_OPTION = typer.Option(
    None,
    "--anchor",
    help="measured (scale what was recorded: anchored), others (from kernels of other shapes) or none.",
)
STACK_OPTION = typer.Option(
    None, "--stack", help="Library that ran a table's operators, e.g. vllm, sglang or trtllm."
)
OPERANDS_OPTION = typer.Option(
    None, "--operands", help="Values of the matrices multiplied: random, zeros, sparse=0.5 or a .npy file."
)
CALIBRATION_OPTION = typer.Option(
    [], "--calibration", help="Coefficients written by tracetool calibrate: a .toml file; may repeat."
)
TEMPERATURE_OPTION = typer.Option(
    None, "--temperature", callback=finite, help="Chip temperature, held constant. [C]"
)
AMBIENT_OPTION = typer.Option(
    None,
    "--ambient",
    callback=finite,
    help="Temperature of the air at the GPU; the chip's rise above it follows from its power. [C]",
)
SLOWDOWN_OPTION = typer.Option(
    "5%", "--slowdown", metavar="SHARE", help="Slowdown allowed for the best: 3%, or 0.03 for the same."
)

# Cost of energy
#: Largest price or carbon intensity taken, in any currency. [1/kWh] By definition.
_MOST_PER_KWH = 1e9
PRICE_OPTION = typer.Option(
    None,
    "--price",
    metavar="PER_KWH",
    min=0.0,
    max=_MOST_PER_KWH,
    callback=finite,
    help="Add cost, at this price per kWh in your own currency.",
)
GCO2_OPTION = typer.Option(
    None,
    "--gco2-per-kwh",
    metavar="G",
    min=0.0,
    max=_MOST_PER_KWH,
    callback=finite,
    help="Add CO2, at so many grams per kWh. [g]",
)
PUE_OPTION = typer.Option(
    None,
    "--pue",
    metavar="FACTOR",
    min=1.0,
    max=100.0,
    callback=finite,
    help="Data center energy per machine energy: multiplies cost and CO2 only, never the energy columns.",
)
