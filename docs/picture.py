"""Write ``energy.svg``, the README's picture: taken out of the report that the tool makes of the sample run."""

from __future__ import annotations

import re
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
PAGE = Path(__file__).with_name("energy.svg")
LABEL = "Energy by family and kernel"
#: A picture in a README stands on its own: it takes its ink and paper along.
STYLE = """<style>
text { font: 12px system-ui, sans-serif; }
text:not([fill]) { fill: #1b1f24; }
.group { font-weight: 600; }
.cell { stroke: #fff; stroke-width: 1; }
</style><rect width="100%" height="100%" fill="#fff"/>"""


def picture(page: str) -> str:
    """Return the picture of a report page, on its own."""
    for found in re.findall(r"<svg\b.*?</svg>", page, re.DOTALL):
        if f">{LABEL}</title>" in found:
            alone = found.replace("<svg ", '<svg xmlns="http://www.w3.org/2000/svg" ', 1)
            return re.sub(r"(</desc>)", rf"\1{STYLE}", alone, count=1) + "\n"
    raise SystemExit(f"the report has no picture {LABEL!r}")


def main() -> None:
    """Make the run and the report in a scratch folder and keep the picture."""
    tool = Path(sys.executable).with_name("tracetool")
    samples = ROOT / "sample_traces"
    with tempfile.TemporaryDirectory() as folder:
        run, report = Path(folder, "run.tracetool"), Path(folder, "report.html")
        power = samples / "h100_training_power.csv"
        ingest = [tool, "ingest", samples / "h100_training.sqlite", "--power", power, "-o", run]
        subprocess.run(ingest, check=True)
        subprocess.run([tool, "report", run, "-o", report], check=True)
        PAGE.write_text(picture(report.read_text("utf-8")), "utf-8")
    print(f"wrote {PAGE}")


if __name__ == "__main__":
    main()
