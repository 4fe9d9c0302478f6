"""Matching of the work of two runs: by signature, then by operator, then by module."""

from __future__ import annotations

from typing import Final

import polars as pl

#: Keys tried in turn on what is still unmatched, the level a match by them is called, and which of them
#: mean nothing where they are empty: no module known, no operator stated.
LEVELS: Final = (
    (("operator", "shapes", "name", "geometry", "module"), "signature", ()),
    (("operator", "shapes", "name", "geometry"), "signature", ()),
    (("operator", "name", "module"), "signature", ()),
    (("operator", "name"), "signature", ()),
    (("operator", "shapes", "module"), "operator", ("operator",)),
    (("operator", "shapes"), "operator", ("operator",)),
    (("operator",), "operator", ("operator",)),
    (("module", "family"), "module", ("module",)),
    (("module",), "module", ("module",)),
    (("family",), "family", ()),
)
#: What work of one run only is called.
ONLY: Final = {"base": "base only", "head": "head only"}


def matched_classes(base: pl.DataFrame, head: pl.DataFrame) -> tuple[pl.DataFrame, pl.DataFrame]:
    """Return the classes of two runs with the pair each is in, and the level it was matched by.

    Parameters
    ----------
    base, head : DataFrame
        ``operator``, ``shapes``, ``name``, ``geometry``, ``module``, ``family`` of each class.

    Returns
    -------
    base, head : DataFrame
        With ``pair`` (number) and ``level`` (``signature``, ``operator``, ``module``, ``family``, or the run
        it is in alone). Every class is in exactly one pair.

    Notes
    -----
    A kernel of the same name under the same operator is the same on other shapes too: how much more work
    that is, its operations state. A fused kernel matches the operators of its module.
    """
    remaining = {"base": base, "head": head}
    placed: dict[str, list[pl.DataFrame]] = {"base": [], "head": []}
    begin = 0
    for keys, level, needed in LEVELS:
        usable = pl.all_horizontal(pl.lit(value=True), *(pl.col(key) != "" for key in needed))
        common = (
            remaining["base"].filter(usable).select(keys).unique()
            .join(remaining["head"].filter(usable).select(keys).unique(), on=list(keys), how="inner")
            .sort(keys)
            .with_row_index("pair", offset=begin)
            .with_columns(pl.col("pair").cast(pl.Int64), pl.lit(level).alias("level"))
        )  # fmt: skip
        begin += common.height
        for name, classes in remaining.items():
            matched = classes.filter(usable).join(common, on=list(keys), how="inner", maintain_order="left")
            placed[name].append(matched)
            inside = classes.join(common, on=list(keys), how="left", maintain_order="left")
            remaining[name] = classes.filter(~(usable & pl.lit(inside["pair"].is_not_null())))
    for name, classes in remaining.items():
        alone = classes.with_row_index("pair", offset=begin).with_columns(
            pl.col("pair").cast(pl.Int64), pl.lit(ONLY[name]).alias("level")
        )
        placed[name].append(alone.select(placed[name][0].columns))
        begin += classes.height
    return pl.concat(placed["base"]), pl.concat(placed["head"])
