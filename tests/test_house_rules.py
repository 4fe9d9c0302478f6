"""Repository rules no linter checks."""

from __future__ import annotations

import ast
import functools
import re
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).resolve().parents[1]
PACKAGE = ROOT / "tracetool"
FILES = sorted(PACKAGE.rglob("*.py"))
MOST_LINES = 400
BANNED_WORDS = {"util", "utils", "helper", "helpers", "common", "misc", "manager", "handler", "tmp"}
#: As the whole name of a file or function these say nothing; a class may be called as its format does.
BANNED_WHOLE = BANNED_WORDS | {"process", "do", "data", "info", "obj", "new"}
#: Written by tools or people outside the project about how it was made: the project speaks of itself alone.
FOREIGN = re.compile(
    r"\b(the brief|claude|anthropic|co-authored-by|as an ai|language model assistant)\b|\.\./shared"
)
PLUGINS = {
    "families/*/spec.py": "FAMILIES",
    "sources/*/formats": "FORMAT",
    "kernels/grammars": "GRAMMAR",
    "report/renderers": "RENDERER",
    "cli/commands": "app",
    "forecast/architectures": "ARCHITECTURE",
}


def _id(path: Path) -> str:
    return str(path.relative_to(ROOT))


@functools.cache
def _parsed(path: Path, changed_ns: int) -> tuple[Any, ...]:
    return tuple(ast.walk(ast.parse(path.read_text("utf-8"), str(path))))


def _nodes(path: Path) -> tuple[Any, ...]:
    """Return the syntax of a file, its module first; parsed once for all rules."""
    return _parsed(path, path.stat().st_mtime_ns)


def _tree(path: Path) -> ast.Module:
    module = _nodes(path)[0]
    assert isinstance(module, ast.Module)
    return module


def _assert_none(breaches: Callable[[Path], Iterable[str]], paths: Iterable[Path], fix: str) -> None:
    """Assert that no file breaches a rule; a failure lists every file that does."""
    lines = [f"{_id(path)}: {breach}" for path in paths for breach in breaches(path)]
    assert not lines, "\n".join([fix, *lines])


def _definitions(tree: ast.AST) -> Iterator[ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef]:
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            yield node


def _public(tree: ast.Module) -> Iterator[tuple[str, ast.AST]]:
    for node in tree.body:
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef) and node.name[0] != "_":
            yield node.name, node
            if isinstance(node, ast.ClassDef):
                for inner in node.body:
                    if isinstance(inner, ast.FunctionDef) and inner.name[0] != "_":
                        yield f"{node.name}.{inner.name}", inner


def test_there_are_files() -> None:
    assert len(FILES) > 40


def test_a_file_is_short_and_says_what_it_is_for() -> None:
    def breaches(path: Path) -> Iterator[str]:
        if (count := len(path.read_text("utf-8").splitlines())) > MOST_LINES:
            yield f"{count} lines: one file, one purpose"
        if not ast.get_docstring(_tree(path)):
            yield "the module has no docstring"

    _assert_none(breaches, FILES, f"at most {MOST_LINES} lines, with a docstring")


def test_public_names_are_documented() -> None:
    def breaches(path: Path) -> Iterator[str]:
        for name, node in _public(_tree(path)):
            if not ast.get_docstring(node):  # type: ignore[arg-type]
                yield name

    _assert_none(breaches, FILES, "without a docstring")


def test_names_say_something() -> None:
    def breaches(path: Path) -> Iterator[str]:
        if path.stem in BANNED_WHOLE:
            yield "the file's name says nothing"
        for node in _definitions(_tree(path)):
            plain = re.sub(r"(?<!^)(?=[A-Z][a-z])", "_", node.name).lower().strip("_")
            whole = BANNED_WORDS if isinstance(node, ast.ClassDef) else BANNED_WHOLE
            if plain in whole or set(plain.split("_")) & BANNED_WORDS:
                yield f"{node.name} says nothing"

    _assert_none(breaches, FILES, "a name says what it holds or does")


def test_the_project_speaks_of_itself_alone() -> None:
    def breaches(path: Path) -> Iterator[str]:
        text = path.read_text("utf-8").lower()
        if path.is_relative_to(ROOT / "benchmarks"):  # they read the measured data and may say where it is
            text = text.replace("../shared", "")
        if foreign := FOREIGN.search(text):
            yield repr(foreign.group(0))

    folders = ("tracetool", "docs", "schemas", "sample_traces", "benchmarks")
    files = sorted(p for folder in folders for p in (ROOT / folder).rglob("*"))
    texts = [p for p in files if p.suffix in {".py", ".md", ".json", ".toml"}]
    texts = [p for p in texts if not any(part.endswith(".tracetool") for part in p.parts)]
    assert len(texts) > len(FILES)
    _assert_none(breaches, texts, "speaks of how the project was made")


@pytest.mark.parametrize(("folder", "constant"), PLUGINS.items())
def test_a_plugin_folder_holds_plugins_only(folder: str, constant: str) -> None:
    paths = sorted(PACKAGE.glob(folder if folder.endswith(".py") else f"{folder}/*.py"))
    assert paths
    for path in paths:
        if path.name.startswith("_"):
            continue
        names = {
            target.id
            for node in _tree(path).body
            if isinstance(node, ast.Assign | ast.AnnAssign)
            for target in (node.targets if isinstance(node, ast.Assign) else [node.target])
            if isinstance(target, ast.Name)
        }
        assert constant in names, f"{_id(path)} defines no {constant}"


def test_a_package_names_only_modules_it_has() -> None:
    """A large package lists its modules by what they do; a name in the list is a module or folder of it."""

    def breaches(path: Path) -> Iterator[str]:
        described = (ast.get_docstring(_tree(path)) or "").partition("Modules in the order")[2]
        for name in re.findall(r"``(\w+)``", described):
            if not ((path.parent / f"{name}.py").exists() or (path.parent / name).is_dir()):
                yield f"no module {name}"

    described = [path for path in FILES if path.name == "__init__.py"]
    _assert_none(breaches, described, "names a module that is not there")


def test_no_file_prints_but_the_command_line() -> None:
    for path in FILES:
        if "cli" in path.parts or path.name == "__main__.py":
            continue
        calls = [
            n.lineno
            for n in _nodes(path)
            if isinstance(n, ast.Call) and isinstance(n.func, ast.Name) and n.func.id == "print"
        ]
        assert not calls, f"{_id(path)} prints at line {calls}"


def test_imports_obey_the_house() -> None:
    program = Path(sys.executable).with_name("lint-imports")
    found = str(program) if program.exists() else shutil.which("lint-imports")
    if not found:
        pytest.skip("import-linter is not installed")
    done = subprocess.run([found, "--no-cache"], cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-2000:]


def test_the_distribution_has_its_own_name() -> None:
    """``tracetool`` on the public index is another project: nobody may be told to install it."""
    told = re.compile(r"(pipx?|uv|uvx|poetry)( tool)? (install|add|run) (-\w+ )*[\"']?tracetool(?![-\w])")
    for path in [*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md"), *FILES]:
        found = told.search(path.read_text("utf-8"))
        assert found is None, f"{_id(path)}: {found.group(0)!r}" if found else ""


#: Where families are at home, and the rules of names that state the family they read.
NAMES_FAMILIES = ("kernels/grammars/", "families/")
#: Words that are a family's name and mean something else in these files, and what they mean there.
ANOTHER_MEANING: dict[str, tuple[set[str], str]] = {
    "sources/": ({"memcpy", "memset", "copy", "other"}, "kinds of activities and of runtime calls"),
    "replay/activities.py": ({"memcpy", "memset"}, "kinds of activities and of launches"),
    "replay/run_rows.py": ({"memcpy", "memset"}, "kinds of activities"),
    "replay/unfused_attention.py": ({"softmax"}, "a step of attention"),
    "replay/operand_content.py": ({"unknown"}, "operands nobody stated"),
    "replay/host.py": ({"other"}, "operators without a time of their own"),
    "compare/check.py": ({"unknown"}, "a GPU no trace names"),
    "compare/baseline_store.py": ({"unknown"}, "a GPU no trace names"),
    "forecast/": (
        {"norm", "attention", "sampling"},
        "modules, parts of a step, choice of a token",
    ),
    "forecast/exported.py": ({"gemm", "conv", "softmax"}, "operators of ONNX and PyTorch"),
    "forecast/onnx_graph.py": ({"gemm", "conv", "softmax"}, "operators of ONNX"),
    "forecast/torch_graph.py": ({"conv"}, "operators of PyTorch"),
    "measure/source_alignment.py": ({"sampling"}, "a part of an uncertainty"),
}


def _family_strings(path: Path, besides: Iterable[str] = ()) -> list[str]:
    """Return where a file names a family by a string: line and name."""
    from tracetool.families.registry import families

    listed = set(families()) - set(besides)
    return [
        f"line {node.lineno}: {node.value!r}"
        for node in _nodes(path)
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and node.value in listed
    ]


def _inside(path: Path) -> str:
    return path.relative_to(PACKAGE).as_posix()


def test_only_families_and_grammars_name_a_family_by_a_string() -> None:
    def breaches(path: Path) -> list[str]:
        words = [words for start, (words, _) in ANOTHER_MEANING.items() if _inside(path).startswith(start)]
        return _family_strings(path, set().union(*words))

    files = [p for p in FILES if not _inside(p).startswith(NAMES_FAMILIES)]
    _assert_none(breaches, files, "read families/registry.py, or a constant of families/names.py")


@pytest.mark.parametrize("start", ANOTHER_MEANING)
def test_a_word_of_another_meaning_is_still_used(start: str) -> None:
    files = [p for p in FILES if _inside(p).startswith(start)]
    strings = " ".join(line for p in files for line in _family_strings(p))
    unused = [word for word in ANOTHER_MEANING[start][0] if repr(word) not in strings]
    assert not unused, f"{start} says {unused} no more: take it off the list"


def test_a_family_named_by_a_string_is_found(tmp_path: Path) -> None:
    breach = tmp_path / "breach.py"
    breach.write_text('"""A softmax of gemm."""\n\n\nPRODUCTS = ("gemm", "gemv", "gemm_fp8")\n')
    assert _family_strings(breach) == ["line 4: 'gemm'", "line 4: 'gemv'"]


#: Words that only kernels' names hold. Elsewhere than in kernels/ a name is read by the columns it states.
NAME_FRAGMENT = re.compile(
    r"_kernel\b|_kernel[<_]|\bsm_?\d\d_|ampere_|s16816|s1688|flash_fwd|ncclDev|Cijk|xmma|cutlass|triton_|at::native"
    r"|nvjet|gemv2|vectorized_|elementwise_|Memcpy|memcpy [HD]to|splitKreduce"
)
#: Where a literal with such a word reads no kernel's name, and why.
NAME_FRAGMENTS_YET = {
    "sources/": "readers of formats spell what a profiler writes",
    "record/profilers.py": "names of files a profiler writes",
    "forecast/architectures/": "fields of configurations",
    "report/sentences.py": "shortens names for pages, whatever they are",
}
#: Columns of names, and methods that search or take apart a text.
TEXT_SEARCHES = {
    "contains",
    "contains_any",
    "extract",
    "extract_all",
    "find",
    "starts_with",
    "ends_with",
    "replace",
    "replace_all",
    "split",
}
#: Where a column called name is searched though it holds no kernel's name, and why.
NAME_SEARCHES_YET = {
    "sources/": "readers of formats",
    "replay/range_tree.py": "names of ranges: steps are numbered",
    "replay/iterations.py": "names of ranges: steps are numbered",
    "replay/module_paths.py": "names of modules: instances are numbered",
    "compare/sides.py": "names of ranges: steps are numbered",
}
#: Packages that may import re, and files beyond them with what they read.
MAY_IMPORT_RE = {
    "kernels/": "names of kernels",
    "sources/": "texts of formats",
    "core/": "texts for output",
    "hardware/": "names of GPUs",
    "tables/": "names of files",
    "record/": "command lines and versions",
    "report/": "short names and layout of pages",
    "compare/settings.py": "thresholds of a settings file",
    "replay/module_paths.py": "paths of modules",
    "compare/thresholds.py": "thresholds a user gives",
    "compare/baseline.py": "names of baselines",
}


def _kernel_name_reads(path: Path, *, all_of_them: bool = False) -> list[str]:
    """Return where a file outside kernels/ reads a kernel's name: literals of names, searches in a column.

    ``all_of_them`` counts what the lists above allow, too.
    """
    nodes, inside = _nodes(path), _inside(path)
    documents = {
        id(node.body[0].value)
        for node in nodes
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef) and ast.get_docstring(node)
        if isinstance(node.body[0], ast.Expr)
    }
    # a family's example and the operators of a framework are stated, not searched for
    stated = {
        id(part)
        for node in nodes
        if isinstance(node, ast.keyword) and node.arg in {"example", "operators", "words", "op"}
        for part in ast.walk(node)
    }

    def allowed(by: dict[str, str]) -> bool:
        return not all_of_them and inside.startswith(tuple(by))

    found = []
    for node in nodes:
        text = node.value if isinstance(node, ast.Constant) and id(node) not in documents | stated else None
        if isinstance(text, str) and NAME_FRAGMENT.search(text) and not allowed(NAME_FRAGMENTS_YET):
            found.append(f"line {node.lineno}: {text!r} is part of kernels' names")
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
            # only of a search: every call's chain would take the square of its length
            chain = ast.walk(node.func) if node.func.attr in TEXT_SEARCHES else ()
            columns = {part.value for part in chain if isinstance(part, ast.Constant)}
            if columns & {"name", "kernel"} and not allowed(NAME_SEARCHES_YET):
                found.append(f"line {node.lineno}: {node.func.attr} on a column of names")
        imported = [a.name for a in node.names] if isinstance(node, ast.Import) else []
        if "re" in imported and not allowed(MAY_IMPORT_RE):
            found.append(f"line {node.lineno}: import re")
    return found


def test_only_kernels_reads_names_of_kernels() -> None:
    files = [p for p in FILES if not _inside(p).startswith("kernels/")]
    _assert_none(_kernel_name_reads, files, "let kernels/ state it as a column")


@pytest.mark.parametrize("allowed", sorted({*NAME_SEARCHES_YET, *MAY_IMPORT_RE, *NAME_FRAGMENTS_YET}))
def test_what_may_read_names_still_does(allowed: str) -> None:
    files = [p for p in FILES if _inside(p).startswith(allowed)]
    reads = any(_kernel_name_reads(p, all_of_them=True) for p in files)
    assert reads, f"{allowed} reads none any more: take it off the list"


def test_a_name_read_outside_kernels_is_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys.modules[__name__], "PACKAGE", tmp_path)
    breach = tmp_path / "model" / "breach.py"
    breach.parent.mkdir()
    breach.write_text(
        '"""Of vectorized_elementwise_kernel."""\nimport re\n\nOLD = ("s16816", "fp16")\n'
        'flag = pl.col("name").str.contains("x")\nfine = Family(example="ampere_sgemm_128x64_tn")\n'
    )
    assert [line.split(":")[0] for line in sorted(_kernel_name_reads(breach))] == [
        "line 2",
        "line 4",
        "line 5",
    ]


#: Where figures are summed by groups: in any order their last digit and what stands first differ by run.
SUMMED_IN_ORDER = ("replay/", "report/", "compare/", "forecast/", "measure/")


def _unordered_groups(path: Path) -> list[str]:
    return [
        f"line {node.lineno}"
        for node in _nodes(path)
        if isinstance(node, ast.Call)
        and getattr(node.func, "attr", "") == "group_by"
        and not any(word.arg == "maintain_order" for word in node.keywords)
    ]


def test_groups_are_summed_in_one_order() -> None:
    files = [p for p in FILES if _inside(p).startswith(SUMMED_IN_ORDER)]
    _assert_none(
        _unordered_groups, files, "group_by(..., maintain_order=True): outputs are equal from run to run"
    )


def test_groups_in_any_order_are_found(tmp_path: Path) -> None:
    breach = tmp_path / "breach.py"
    breach.write_text('x.group_by("a").len()\nx.group_by("a", maintain_order=True).len()\n')
    assert _unordered_groups(breach) == ["line 1"]


PHYSICS = ("model/", "families/")
#: A comment states a unit in brackets, and what the number rests on.
UNIT = re.compile(r"\[[^\]\d][^\]]*\]|\[1\]")
BASIS = re.compile(
    r"\bprior\b|[Bb]y definition|\b[Ff]it|et al|arXiv|[Ww]hite ?paper|measured|\b[A-Z][\w-]+/[\w-]+"
)


def _numeric(node: ast.expr) -> bool:
    """Whether an expression is made of numbers alone."""
    if isinstance(node, ast.Constant):
        return isinstance(node.value, int | float) and not isinstance(node.value, bool)
    if isinstance(node, ast.UnaryOp):
        return _numeric(node.operand)
    if isinstance(node, ast.BinOp):
        return _numeric(node.left) and _numeric(node.right)
    if isinstance(node, ast.Tuple | ast.List | ast.Set):
        return bool(node.elts) and all(_numeric(one) for one in node.elts)
    if isinstance(node, ast.Dict):
        return bool(node.values) and all(_numeric(one) for one in node.values)
    if isinstance(node, ast.Call):
        return bool(node.args) and not node.keywords and all(_numeric(one) for one in node.args)
    return False


def _bare_constants(path: Path) -> list[str]:
    """Return the numeric constants of a module whose comment is missing a unit or a source."""
    lines, bare = path.read_text("utf-8").splitlines(), []
    for node in _tree(path).body:
        if isinstance(node, ast.Assign | ast.AnnAssign) and node.value is not None and _numeric(node.value):
            first = node.lineno - 1
            while first and lines[first - 1].startswith("#"):
                first -= 1
            comment = " ".join(line.lstrip("#: ") for line in lines[first : node.lineno - 1])
            if not (UNIT.search(comment) and BASIS.search(comment)):
                bare.append(f"line {node.lineno}: {lines[node.lineno - 1][:60]}")
    return bare


def test_a_constant_states_its_unit_and_source() -> None:
    files = [p for p in FILES if _inside(p).startswith(PHYSICS)]
    _assert_none(
        _bare_constants, files, "state [unit] and source (or prior, by definition) in its #: comment"
    )


def test_a_constant_without_unit_or_source_is_found(tmp_path: Path) -> None:
    breach = tmp_path / "breach.py"
    breach.write_text(
        "#: Share of the peak. [1] A prior.\nFINE = 0.5\n#: Bytes of a line. [B]\nNO_SOURCE = 32.0\n"
        "#: A prior.\nNO_UNIT = (1.0, -2.0)\nBARE = {'a': 2.0**3}\nTEXT = 'x'\nFLAG = True\n"
    )
    assert [line.split(":")[0] for line in _bare_constants(breach)] == ["line 4", "line 6", "line 7"]


def test_every_constant_for_a_family_is_one() -> None:
    from tracetool.families import names
    from tracetool.families.registry import families

    given = {key: value for key, value in vars(names).items() if key.isupper()}
    assert given
    assert set(given.values()) <= set(families())
    assert all(key == value.upper() for key, value in given.items())


def _array_imports(path: Path) -> list[str]:
    """Return where a file imports an array library: line and module."""
    found = []
    for node in _nodes(path):
        names = [a.name for a in node.names] if isinstance(node, ast.Import) else []
        names += [node.module or ""] if isinstance(node, ast.ImportFrom) else []
        found += [
            f"line {node.lineno}: {name}"
            for name in names
            if name.partition(".")[0] in {"numpy", "scipy", "numba"}
        ]
    return found


def test_the_api_only_joins() -> None:
    files = sorted((PACKAGE / "api").glob("*.py"))
    _assert_none(
        _array_imports, files, "arrays and statistics lie below the api: move the work to its package"
    )


def test_an_array_in_the_api_is_found(tmp_path: Path) -> None:
    breach = tmp_path / "breach.py"
    breach.write_text('"""A mean."""\n\n\ndef f():\n    import numpy as np\n    from scipy.stats import t\n')
    assert _array_imports(breach) == ["line 5: numpy", "line 6: scipy.stats"]


#: Names that say a value was come by, not what it is.
DEICTIC = frozenset(
    {
        *("found", "made", "said", "known", "told", "asked", "kept", "mine"),
        *("here", "seen", "there", "some", "given", "wanted", "taken", "held"),
    }
)
#: Share of all bound names that may be such. [1]
DEICTIC_SHARE = 0.01


def _bound_names(path: Path) -> list[str]:
    """Return every name a file binds, once per binding: variables and parameters."""
    nodes = _nodes(path)
    stored = [n.id for n in nodes if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Store)]
    return stored + [n.arg for n in nodes if isinstance(n, ast.arg)]


def test_variables_say_what_they_hold() -> None:
    bound = [name for path in FILES for name in _bound_names(path)]
    share = sum(name in DEICTIC for name in bound) / len(bound)
    assert share < DEICTIC_SHARE, f"{share:.2%} of {len(bound)} bound names say nothing of their value"


def test_a_name_that_says_nothing_is_counted(tmp_path: Path) -> None:
    breach = tmp_path / "breach.py"
    breach.write_text("found = 1\n\ndef f(told, power_w):\n    for made in told:\n        energy_j = made\n")
    assert sorted(n for n in _bound_names(breach) if n in DEICTIC) == ["found", "made", "told"]
