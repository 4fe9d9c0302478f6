"""An extra is loaded by the command that needs it, never by a module that is merely imported."""

from __future__ import annotations

import ast
import re
import tomllib
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
PYPROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
#: What a distribution is imported as, where that is not its name.
IMPORTED_AS = {"nvidia-ml-py": "pynvml"}
#: Extras of users; the others build and test the project.
USERS = ("nvidia", "amd", "onnx", "torch", "fleet", "perfetto")


def _named(requirement: str) -> str:
    name = re.split(r"[\s\[<>=!~;]", requirement)[0]
    return IMPORTED_AS.get(name, name)


EXTRAS = {_named(one) for extra in USERS for one in PYPROJECT["optional-dependencies"][extra]}


def _imported(body: list[ast.stmt]) -> Iterator[tuple[int, str]]:
    """Yield line and package of what runs when a module is imported: functions and type checks do not."""
    for node in body:
        if isinstance(node, ast.Import):
            yield from ((node.lineno, name.name.split(".")[0]) for name in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
            yield node.lineno, node.module.split(".")[0]
        elif isinstance(node, ast.If) and "TYPE_CHECKING" in ast.unparse(node.test):
            yield from _imported(node.orelse)
        elif isinstance(node, ast.If | ast.Try | ast.With | ast.ClassDef):
            inner = [getattr(node, part, []) for part in ("body", "orelse", "finalbody")]
            handled = [handler.body for handler in getattr(node, "handlers", [])]
            for part in (*inner, *handled):
                yield from _imported(part)


def _early(path: Path) -> list[str]:
    tree = ast.parse(path.read_text("utf-8"))
    return [f"{path.name}:{line}: {name}" for line, name in _imported(tree.body) if name in EXTRAS]


def test_no_module_loads_an_extra_when_it_is_imported() -> None:
    files = sorted((ROOT / "tracetool").rglob("*.py"))
    assert len(files) > 500
    found = [breach for path in files for breach in _early(path)]
    assert not found, "import it in the function that needs it:\n" + "\n".join(found)


@pytest.mark.parametrize(
    "text",
    ["import onnx\n", "try:\n    import pynvml as nvml\nexcept ImportError:\n    nvml = None\n",
     "if True:\n    from ray.util import queue\n"],
)  # fmt: skip
def test_an_extra_loaded_early_is_found(text: str, tmp_path: Path) -> None:
    file = tmp_path / "planted.py"
    file.write_text(text, "utf-8")
    assert _early(file)


def test_one_loaded_when_needed_or_for_types_passes(tmp_path: Path) -> None:
    file = tmp_path / "fine.py"
    file.write_text(
        "from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    import onnx\n"
        "def read():\n    import onnx\n    return onnx\n",
        "utf-8",
    )
    assert not _early(file)


def test_every_extra_is_on_the_page_of_installation() -> None:
    page = (ROOT / "docs" / "install.md").read_text("utf-8")
    missing = [name for name in PYPROJECT["optional-dependencies"] if f"`{name}`" not in page]
    assert not missing
