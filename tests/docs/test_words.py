"""The project speaks the field's language: no text holds a word of ``words.txt``."""

from __future__ import annotations

import io
import re
import tokenize
from collections.abc import Iterator
from fnmatch import fnmatch
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
LIST = Path(__file__).with_name("words.txt")
FOLDERS = ("tracetool", "docs", "schemas", "tests", "benchmarks", "ci", "sample_traces")
SUFFIXES = {".py", ".md", ".svg", ".json", ".toml", ".yml", ".js", ".css", ".html"}
#: Files that quote other texts: kernel names as libraries spell them, recorded data, the tests of this list.
QUOTING = (
    "tests/docs/test_words.py",
    "tests/kernels/*",
    "tests/samples/*",
    "tests/damaged/*",
    "sample_traces/*.json",
    "CHANGELOG.md",  # names what was renamed
    "docs/names.md",
    "tracetool/kernels/grammars/*",
)
#: Phrases in which a listed word is the right one.
ALLOWED = re.compile(
    r"random walk|of course|board power|Colour Schemes"
    r"|cancelled\(\)|walk\(|const walk|`\w*GPU\w*`|\bboards?_\w+|GPU\.py"
    r"|\"formerly\": \"\w+\"|Formerly `\w+`",
    re.IGNORECASE,
)


def words() -> list[tuple[re.Pattern[str], str]]:
    """Return each listed pattern with what to say instead."""
    lines = [line for line in LIST.read_text("utf-8").splitlines() if line and not line.startswith("#")]
    return [(re.compile(rf"\b(?:{p})\b", re.IGNORECASE), say) for p, say in (x.split("\t") for x in lines)]


WORDS = words()
#: Tokens of text; from Python 3.12 on a formatted string is several, its text apart from its expressions.
STRINGS = {tokenize.STRING, getattr(tokenize, "FSTRING_MIDDLE", tokenize.STRING)}
#: Any of them, in text of lower case, which takes half of a search that ignores case: most files and lines
#: hold none, and one search says so.
ANY_WORD = re.compile("|".join(f"(?:{pattern.pattern})" for pattern, _ in WORDS))


def texts(path: Path) -> Iterator[tuple[int, str]]:
    """Yield the text of a file with its line numbers: of Python, comments and strings only."""
    text = path.read_text("utf-8")
    if path.suffix != ".py":
        yield from enumerate(text.splitlines(), 1)
        return
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        if token.type == tokenize.COMMENT or (token.type in STRINGS and " " in token.string):
            plain = re.sub(r"\{[^{}]*\}", "{}", token.string) if token.string[:1] in "fF" else token.string
            plain = re.sub(r"(?m)^\s*(>>>|\.\.\.) .*$|``[^`\n]*``|:\w+:`[^`]*`", "", plain)
            for number, line in enumerate(plain.split("\n"), token.start[0]):
                yield number, re.sub(r"^\s*\w+(, \w+)* : .*", "", line)  # parameters of a docstring


def breaches(path: Path) -> list[str]:
    """Return each use of a listed word in a file, with what to say instead."""
    made: list[str] = []
    if not ANY_WORD.search(path.read_text("utf-8").lower()):
        return made
    for number, line in texts(path):
        if not ANY_WORD.search(line.lower()):
            continue
        plain = ALLOWED.sub("", line)
        for pattern, say in WORDS:
            if hit := pattern.search(plain):
                made.append(f"{path.name}:{number}: {hit.group(0)!r}; say: {say}")
    return made


def scanned() -> list[Path]:
    """Return every file whose text people read."""
    files = [p for folder in FOLDERS for p in (ROOT / folder).rglob("*")] + list(ROOT.glob("*.md"))
    files += [ROOT / "action.yml", ROOT / "Makefile", ROOT / "pyproject.toml"]
    kept = [p for p in files if p.is_file() and (p.suffix in SUFFIXES or p.name == "Makefile")]
    return sorted(p for p in kept if not any(fnmatch(p.relative_to(ROOT).as_posix(), q) for q in QUOTING))


def test_no_text_holds_a_listed_word() -> None:
    files = scanned()
    assert len(files) > 400
    found = [f"{p.parent.relative_to(ROOT)}/{b}" for p in files for b in breaches(p)]
    assert not found, "\n".join(found[:60])


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("# The mend is to try again.\n", "fix, hint"),
        ('NOTE = "These two cannot be told apart by this log"\n', "not identifiable"),
        ('"""A neighbouring colour."""\n', "American"),
        ('NOTE = f"{3} kernels on matrix units"\n', "tensor"),
        ("x = 1  # a board of this model\n", "GPU"),
        ('NOTE = "found 1 GPUs in the log"\n', "1 GPU"),
    ],
)
def test_a_planted_word_is_found(text: str, says: str, tmp_path: Path) -> None:
    file = tmp_path / "planted.py"
    file.write_text(text, "utf-8")
    assert any(says in breach for breach in breaches(file)), text


@pytest.mark.parametrize(
    "text", ["mend = 1\n", "# a random walk of board power\n", '"""``gone`` is a name of code."""\n']
)
def test_names_of_code_and_terms_of_the_field_pass(text: str, tmp_path: Path) -> None:
    file = tmp_path / "fine.py"
    file.write_text(text, "utf-8")
    assert breaches(file) == []
