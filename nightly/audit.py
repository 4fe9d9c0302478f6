"""Known vulnerabilities of what is installed beside the project, and whether anyone could look for them.

    python nightly/audit.py

Runs pip-audit. Exit 0: every package was looked up and has none. Exit 1: some have, each is named. Exit 3:
packages could not be looked up, as where the registry serves no advisories, or pip-audit failed.
"""

from __future__ import annotations

import json
import subprocess
import sys
from typing import Any

VULNERABLE, NOT_LOOKED_UP = 1, 3


def report_of_environment() -> str:
    """Return pip-audit's report of this environment, as JSON; nothing where it failed."""
    command = [
        sys.executable,
        "-m",
        "pip_audit",
        "--skip-editable",
        "--progress-spinner",
        "off",
        "-f",
        "json",
    ]
    ended = subprocess.run(command, capture_output=True, text=True, check=False)
    if not ended.stdout.strip():  # else its last line says that nothing was found, whatever was looked up
        print(ended.stderr.strip(), file=sys.stderr)
    return ended.stdout


def verdict(report: str) -> tuple[list[str], int]:
    """Return the lines that say what a report holds, and the exit code."""
    if not report.strip():
        return ["error: pip-audit wrote no report"], NOT_LOOKED_UP
    packages: list[dict[str, Any]] = json.loads(report)["dependencies"]
    looked_up = [package for package in packages if "skip_reason" not in package]
    skipped = [p for p in packages if "skip_reason" in p and "editable" not in p["skip_reason"]]
    vulnerable = [package for package in looked_up if package["vulns"]]
    lines = [
        f"{package['name']} {package['version']}: {', '.join(v['id'] for v in package['vulns'])}"
        for package in vulnerable
    ]
    lines += [f"not looked up: {package['name']}: {package['skip_reason']}" for package in skipped]
    lines.append(
        f"{len(looked_up)} packages looked up, {len(vulnerable)} with known vulnerabilities, "
        f"{len(skipped)} not looked up"
    )
    if vulnerable:
        return lines, VULNERABLE
    return lines, NOT_LOOKED_UP if skipped or not looked_up else 0


def main() -> None:
    lines, code = verdict(report_of_environment())
    print("\n".join(lines))
    sys.exit(code)


if __name__ == "__main__":
    main()
