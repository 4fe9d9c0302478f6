"""Every family has a page whose tables are those of the calibrations, and a picture where it was measured."""

from __future__ import annotations

import re
import sys
from importlib.machinery import SourceFileLoader
from importlib.util import module_from_spec, spec_from_loader
from pathlib import Path
from types import ModuleType

import pytest

from tracetool.core.dtype import BYTES
from tracetool.families.pricing import laws
from tracetool.replay.table_checks import OPERATORS

ROOT = Path(__file__).resolve().parents[2]


def _generator() -> ModuleType:
    loader = SourceFileLoader("docs_families_page", str(ROOT / "docs" / "families_page.py"))
    spec = spec_from_loader(loader.name, loader)
    assert spec
    module = module_from_spec(spec)
    loader.exec_module(module)
    return module


GENERATOR = _generator()


def _structure(text: str) -> list[str]:
    """Return the lines of a page without its numbers: a calibration may be fitted anew before its page is."""
    return [re.sub(r"(?<![\w-])-?\d[\d.e+-]*", "#", line) for line in text.splitlines()]


@pytest.mark.parametrize(("path", "text"), list(GENERATOR.pages()), ids=lambda x: getattr(x, "name", ""))
def test_a_page_states_every_gpu_and_coefficient(path: Path, text: str) -> None:
    assert _structure(path.read_text("utf-8")) == _structure(text), "run: python docs/families_page.py"


def test_every_law_has_a_page() -> None:
    paged = [law for names in GENERATOR.PAGES.values() for law in names]
    assert sorted(paged) == sorted(laws())


@pytest.mark.parametrize("page", sorted(GENERATOR.PAGES))
def test_a_page_of_what_was_measured_shows_it(page: str) -> None:
    text = (ROOT / "docs" / "families" / f"{page}.md").read_text("utf-8")
    assert "$$" in text
    assert f"]({page}.svg)" in text or "No GPU has coefficients of its own" in text
    named = set(re.findall(r"`(?!families|tiling|model|benchmarks|memcpy|memset|docs)([a-z]\w*_\w+)`", text))
    known = {key for law in laws().values() for key in law.priors}
    known |= {column for one in OPERATORS.values() for column in (*one.needs, *one.takes)}
    known |= {*BYTES, "causal_conv1d_fn", "causal_conv1d_update"}
    assert named <= known | {"by_head", "access_pattern"}, (
        f"{page}.md names coefficients no law has: {sorted(named - known)}"
    )


@pytest.mark.parametrize("name", sorted(laws()))
def test_a_law_links_its_page_and_the_page_its_code(name: str) -> None:
    (page,) = (page for page, paged in GENERATOR.PAGES.items() if name in paged)
    parts = laws()[name].parts
    module = sys.modules[parts.__module__]
    assert f"docs/families/{page}.md" in (module.__doc__ or "")
    code = "/".join(parts.__module__.split(".")[1:]) + ".py"
    assert code in (ROOT / "docs" / "families" / f"{page}.md").read_text("utf-8")
