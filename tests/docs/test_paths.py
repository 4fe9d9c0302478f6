"""Files of the project that a page names are where it says."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
PACKAGE = ROOT / "tracetool"
#: Tables of changes tried at a stated commit, whose files may have moved since.
OF_A_COMMIT = {"docs/testing.md", "CHANGELOG.md"}
PAGES = [
    page
    for page in (*sorted(ROOT.glob("*.md")), *sorted((ROOT / "docs").rglob("*.md")))
    if page.relative_to(ROOT).as_posix() not in OF_A_COMMIT
]
NAMED = re.compile(r"`((?:tracetool/)?([a-z_]+)/[\w/.-]+\.(?:py|toml))(?::\d+)?`")
FOLDERS = {path.name for path in PACKAGE.iterdir() if path.is_dir()}


def _absent(text: str) -> list[str]:
    """Return files named by their place in the package that are not there."""
    return [
        named
        for named, folder in NAMED.findall(text)
        if folder in FOLDERS and not (PACKAGE / named.removeprefix("tracetool/")).exists()
    ]


@pytest.mark.parametrize("page", PAGES, ids=lambda p: p.name)
def test_files_that_a_page_names_exist(page: Path) -> None:
    assert not _absent(page.read_text("utf-8")), f"{page.name} names files that are not in {PACKAGE.name}/"


def test_a_file_that_moved_is_noticed() -> None:
    assert _absent("`model/traced.py` and `vllm/v1/attention.py`, `model/power.py`") == ["model/traced.py"]
