"""How a file that cannot be read has to end."""

from __future__ import annotations

from pathlib import Path

import pytest

from tracetool.api.ingest import ingest
from tracetool.core.errors import BadInput


def refused(path: Path, out: Path) -> str:
    """Assert that ``ingest`` refuses a file in one line and leaves nothing behind; return the line."""
    with pytest.raises(BadInput) as error:
        ingest([path], out=out)
    assert not out.exists()
    assert not list(out.parent.glob(f".{out.name}*"))
    line = error.value.line()
    assert "\n" not in line
    assert "\x1b" not in line
    return line
