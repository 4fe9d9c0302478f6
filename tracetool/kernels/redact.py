"""Take out of a run's tables whatever names its makers: a keyed hash replaces each name.

What stays is what figures need and the public knows: names of kernels that the grammar of a public library
reads, of framework operators and driver calls, the family of a kernel, numbers of steps. Any other text is
replaced, in columns this module does not know, too: a new column is closed until somebody opens it.
"""

from __future__ import annotations

import hashlib
import os
import re
import secrets
from collections.abc import Callable, Mapping
from pathlib import PurePath
from typing import Any, Final

import polars as pl

from tracetool.kernels.classify import classify_names
from tracetool.tables.run import Run, write_run
from tracetool.tables.run_folder import RUN_TABLES

#: Variable that holds the key; the same key gives the same words, so that redacted runs can be compared.
KEY_VARIABLE: Final = "TRACETOOL_REDACT_KEY"
#: Columns whose words come from this tool, or from the maker of a GPU or profiler.
_PUBLIC: Final = {
    "devices": {"name", "gpu", "vendor", "compute_capability"},
    "host_calls": {"kind"},
    "kernels": {"kind"},
    "measured_work": {"counted_flops"},
    "operators": {"input_types"},
    "signatures": {"kind", "family", "device_name", "input_types"},
    "telemetry": {"power_kind", "throttle_reasons", "field", "scope"},
}
#: What profilers call a transfer, which is no kernel.
_TRANSFER: Final = re.compile(
    r"\[?(?:CUDA )?(?:memcpy|memset)\]?(?:[ _()-]*(?:[HDPA]to[HDPA]|Host|Device|Peer|Pageable|Pinned|to|Unknown|->))*[ )\]]*",
    re.IGNORECASE,
)
#: Fields of a source in ``run.json`` that name nobody.
_PUBLIC_FACTS: Final = ("format", "profiler", "profiler_version", "schema_version", "domain", "zone")
_OPERATOR: Final = re.compile(r"(aten|c10d|c10|nccl|prim|torch_scatter|xla|fbgemm)::?\w+|Memcpy.*|Memset.*")
_CALL: Final = re.compile(r"(cuda|cu|hip|hsa|nccl|roctx|cublas|cudnn)[A-Z_]\w*")
_STEP: Final = re.compile(r"(ProfilerStep#|(?:step|iteration|iter|batch|epoch)[ _#-]?)\d+", re.IGNORECASE)
_PLAIN_ARGUMENT: Final = re.compile(r"[\d\s.,+\-e\[\]()]*|True|False|None|nan|inf")
_NAMESPACE: Final = re.compile(r"([A-Za-z_]\w*)\s*::")
#: Namespaces that public libraries give their kernels and what these are templates of.
_PUBLIC_NAMESPACES: Final = frozenset(
    """at native cuda c10 c10d std torch anonymous _GLOBAL__N_1 detail internal modern memory policies impl
    cutlass cute gemm kernel device threadblock warp epilogue arch layout collective conv thrust THRUST
    cuda_cub cub CUB system _V_NS __future __uniform_copy transform op flash fmha vllm sglang flashinfer
    deep_gemm tensorrt_llm kernels ck tensor_operation rocprim hipcub rocblas hipblaslt Tensile cublasLt
    cudnn fusion nvfuser xla triton ops softmax_warp Blas functor Eigen tensorflow mlir apex marlin moe
    """.split()  # noqa: SIM905 - a family is named only by its registry
)
#: Bytes of a word's hash: of 100,000 names, two are alike once in 10^9 runs. [B]
_HASH_BYTES: Final = 8


def redaction_key() -> bytes:
    """Return the key of the environment, else a new one that is not stored."""
    stated = os.environ.get(KEY_VARIABLE)
    return hashlib.blake2b(stated.encode()).digest() if stated else secrets.token_bytes(64)


class Redactor:
    """Turns texts into words by one key.

    Parameters
    ----------
    key : bytes
        At most 64 bytes.
    """

    def __init__(self, key: bytes) -> None:
        self._key = key
        #: What was replaced, by what stood there.
        self.words: dict[str, str] = {}

    def word(self, text: str, prefix: str) -> str:
        """Return the word that replaces a text: ``range_9f86d081884c7d65``."""
        if text not in self.words:
            digest = hashlib.blake2b(text.encode("utf-8", "replace"), key=self._key, digest_size=_HASH_BYTES)
            self.words[text] = f"{prefix}_{digest.hexdigest()}"
        return self.words[text]

    def tables(self, tables: Mapping[str, pl.DataFrame]) -> dict[str, pl.DataFrame]:
        """Return a run's tables without names of their makers.

        Parameters
        ----------
        tables : mapping of str to DataFrame
            Tables of a run, by name.
        """
        return {name: self._table(name, frame) for name, frame in tables.items()}

    def _table(self, table: str, frame: pl.DataFrame) -> pl.DataFrame:
        public = _PUBLIC.get(table, set())
        for name, dtype in frame.schema.items():
            if name in public:
                continue
            if dtype == pl.List(pl.String):
                plain = pl.element().str.contains(f"^(?:{_PLAIN_ARGUMENT.pattern})$")
                frame = frame.with_columns(
                    pl.col(name).list.eval(pl.when(plain).then(pl.element()).otherwise(pl.lit("")))
                )
            elif isinstance(dtype, pl.String | pl.Categorical | pl.Enum):
                texts = frame[name].cast(pl.String).drop_nulls().unique()
                words = self._words(table, name, texts)
                frame = frame.with_columns(
                    pl.col(name).cast(pl.String).replace_strict(texts, words, return_dtype=pl.String)
                )
        return frame

    def _words(self, table: str, column: str, texts: pl.Series) -> list[str]:
        """Return the replacement of each of a column's texts."""
        if column == "operator_name" or table == "operators":
            return self._each(texts, "operator", _OPERATOR.fullmatch)
        if table in ("kernels", "signatures", "measured_work") and column == "name":
            return self._kernels(texts)
        if table == "host_calls":
            return self._each(texts, "call", _CALL.fullmatch)
        if table == "ranges":
            return self._each(texts, "range", _STEP.fullmatch)
        return self._each(texts, "module" if table == "modules" else column, lambda _: None)

    def _each(self, texts: pl.Series, prefix: str, is_public: Callable[[str], object]) -> list[str]:
        return [text if is_public(text) else self.word(text, prefix) for text in texts]

    def _kernels(self, texts: pl.Series) -> list[str]:
        """Keep names that a public library gives; of others the family alone, in a way that it is read again."""
        stated = classify_names(texts.to_list())
        libraries, families = stated["library"], stated["family"]
        return [
            text
            if (library and set(_NAMESPACE.findall(text)) <= _PUBLIC_NAMESPACES) or _TRANSFER.fullmatch(text)
            else self.word(text, f"{family}_kernel")
            for text, library, family in zip(texts, libraries, families, strict=True)
        ]

    def facts(self, info: Mapping[str, Any]) -> dict[str, Any]:
        """Return ``run.json`` without file names, and its sentences without names of any kind."""
        for source in info.get("sources", ()):
            path = PurePath(str(source.get("path", "")))
            place = self.word(path.name, "file")
            self.words |= {str(path): place, path.name: place, str(source.get("sha256")): place}
        longest = sorted((w for w in self.words if len(w) > 2), key=len, reverse=True)

        def without(value: Any) -> Any:
            if isinstance(value, Mapping):
                return {k: v if k in _PUBLIC_FACTS else without(v) for k, v in value.items()}
            if isinstance(value, list | tuple):
                return [without(v) for v in value]
            if not isinstance(value, str):
                return value
            for text in longest:
                value = value.replace(text, self.words[text])
            return value

        return {**info, **{k: without(v) for k, v in info.items() if k != "tables"}}


def redacted_run(run: Run, path: str | os.PathLike[str]) -> Run:
    """Write a run anew without names of its makers, and open it.

    Parameters
    ----------
    run : Run
        The run.
    path : path
        Where to write it.
    """
    redactor = Redactor(redaction_key())
    tables = redactor.tables({name: run.table(name) for name in RUN_TABLES if name in run.info["tables"]})
    added = ("schema", "tool_version", "tables")  # by the writing
    info = {key: value for key, value in redactor.facts(run.info).items() if key not in added}
    return Run.open(write_run(path, tables, info))
