"""Known vulnerabilities of what is installed beside the project, and whether anyone could look for them.

    python nightly/audit.py

Runs pip-audit. Exit 0: every package was looked up and has none. Exit 1: some have, each is named. Exit 3:
packages could not be looked up, as where the registry serves no advisories: nothing was told of them.
"""

from __future__ import annotations

import json
import subprocess
import sys
from typing import Any

VULNERABLE, NOT_TOLD = 1, 3


def audited() -> str:
    """Return pip-audit's report of this environment, as JSON."""
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
    made = subprocess.run(command, capture_output=True, text=True, check=False)
    if not made.stdout.strip():
        sys.exit(f"error: pip-audit said nothing: {made.stderr.strip().splitlines()[-1:]}")
    return made.stdout


def verdict(report: str) -> tuple[list[str], int]:
    """Return the lines that say what a report holds, and the exit code."""
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
    return lines, NOT_TOLD if skipped or not looked_up else 0


def main() -> None:
    lines, code = verdict(audited())
    print("\n".join(lines))
    sys.exit(code)


if __name__ == "__main__":
    main()
