"""Run the commands shown in the documentation and put their true output under them.

``python docs/refresh.py [FILE.md ...]`` rewrites every ``console`` block: a line starting with ``$`` is
run, what follows is its output. ``lines=N`` after the word ``console`` keeps the first N lines. Blocks of
one page share a scratch folder that holds the sample traces: a later command may use what an earlier wrote.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
PAGES = (ROOT / "README.md", ROOT / "sample_traces" / "README.md", *sorted((ROOT / "docs").rglob("*.md")))
BLOCK = re.compile(r"^```console(?: lines=(\d+))?\n(.*?)^```$", re.MULTILINE | re.DOTALL)
WIDTH = 100


@dataclass(frozen=True)
class Shown:
    """One command of a page, the output the page shows for it, and the most lines it wants to show."""

    command: str
    output: tuple[str, ...]
    limit: int | None


def shown(text: str) -> Iterator[list[Shown]]:
    """Yield the commands of each block of a page."""
    for block in BLOCK.finditer(text):
        limit = int(block[1]) if block[1] else None
        found: list[tuple[str, list[str]]] = []
        for line in block[2].splitlines():
            if line.startswith("$ "):
                found.append((line[2:], []))
            elif found and found[-1][0].endswith("\\"):
                found[-1] = (f"{found[-1][0]}\n{line}", [])
            elif found:
                found[-1][1].append(line)
        yield [Shown(command, tuple(output), limit) for command, output in found]


def run(command: str, folder: Path, tool_folder: Path) -> tuple[int, list[str]]:
    """Run one command in ``folder`` as a reader would and return its exit code and its lines."""
    environment = {k: v for k, v in os.environ.items() if k not in ("FORCE_COLOR", "TRACETOOL_DEBUG")}
    environment |= {
        "PATH": f"{tool_folder}{os.pathsep}{os.environ.get('PATH', '')}",
        "NO_COLOR": "1",
        "COLUMNS": str(WIDTH),
    }
    done = subprocess.run(
        ["bash", "-c", command],
        cwd=folder,
        env=environment,
        capture_output=True,
        text=True,
        encoding="utf-8",
        timeout=300,
        check=False,
        stdin=subprocess.DEVNULL,
    )
    return done.returncode, [line.rstrip() for line in (done.stdout + done.stderr).splitlines()]


def cut(lines: list[str], limit: int | None) -> list[str]:
    """Return the lines a page shows of an output."""
    if limit is None or len(lines) <= limit:
        return lines
    return [*lines[:limit], "..."]


def scratch(folder: Path) -> Path:
    """Give ``folder`` the sample traces and return it."""
    (folder / "sample_traces").symlink_to(ROOT / "sample_traces")
    return folder


def refreshed(text: str, folder: Path, tool_folder: Path) -> str:
    """Return a page with the true output under every command."""
    blocks = list(shown(text))
    numbers = iter(range(len(blocks)))

    def renew(block: re.Match[str]) -> str:
        lines = []
        for one in blocks[next(numbers)]:
            _, output = run(one.command, folder, tool_folder)
            lines += [f"$ {one.command}", *cut(output, one.limit)]
        head = block[0].splitlines()[0]
        return "\n".join([head, *lines, "```"])

    return BLOCK.sub(renew, text)


def main(names: list[str]) -> int:
    """Refresh the named pages, all by default."""
    for page in [Path(n).resolve() for n in names] or PAGES:
        old = page.read_text("utf-8")
        with tempfile.TemporaryDirectory() as folder:
            new = refreshed(old, scratch(Path(folder)), Path(sys.executable).parent)
        if new != old:
            page.write_text(new, "utf-8")
            print(f"refreshed {page.relative_to(ROOT)}")
    if not names:
        subprocess.run([sys.executable, ROOT / "docs" / "families_page.py"], check=True)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
