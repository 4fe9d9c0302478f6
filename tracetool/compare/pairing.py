"""Matching of the work of two runs whose names, shapes and launches changed."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import polars as pl

from tracetool.compare.sides import Side

#: Keys tried in turn on what is still unmatched, and what a match by that key is called.
LEVELS: Final = (
    (("group", "range", "operator", "shapes", "name", "geometry"), "same"),
    (("range", "operator", "shapes", "name", "geometry"), "same"),
    (("operator", "shapes", "name", "geometry"), "relocated"),
    (("range", "operator", "name"), "reshaped"),
    (("operator", "name"), "reshaped"),
    (("name", "geometry"), "relocated"),
    (("name",), "reshaped"),
    (("range", "operator", "shapes"), "by operator"),
    (("operator", "shapes"), "by operator"),
    (("operator", "family"), "by operator"),
)
#: What every relation means, for the reader.
RELATIONS: Final = {
    "same": "same range, operator, shapes and kernel",
    "relocated": "same kernel under another range or operator",
    "reshaped": "same kernel on other shapes or grids",
    "renamed": "another kernel in the same place",
    "fused": "fewer kernels in the same place",
    "split": "more kernels in the same place",
    "added": "in head only",
    "removed": "in base only",
}
_MOST_IN_PLACE = 24  # a longer stretch of unmatched launches is other work, not other kernels for the same


def pair_sides(base: Side, head: Side) -> pl.DataFrame:
    """Return which part of which class belongs to which pair.

    Parameters
    ----------
    base, head : Side
        The two sides.

    Returns
    -------
    DataFrame
        ``side`` (base, head), ``class``, ``pair`` (number), ``relation``, ``launches`` (of that part, per
        unit), ``places`` (how often the pair occurs on that side, per unit). Every launch of every class
        is in exactly one pair.

    Notes
    -----
    First by identity, from the most telling key to the least. What is left on both sides of one operator
    is the same operator done by other kernels. What is left then is matched by order: launches between
    the same two matched neighbors stand in the same place. The rest is added or removed.
    """
    unmatched = {"base": base.classes, "head": head.classes}
    pair_parts: list[pl.DataFrame] = []
    begin = 0
    for columns, relation in LEVELS:
        keys = [pl.col(c) for c in columns]
        usable = _has_keys(columns, relation)
        shared_keys = (
            unmatched["base"].filter(usable).select(keys).unique()
            .join(unmatched["head"].filter(usable).select(keys).unique(), on=list(columns), how="inner")
            .sort(columns)
            .with_row_index("pair", offset=begin)
            .with_columns(pl.col("pair").cast(pl.Int64))
        )  # fmt: skip
        if not shared_keys.height:
            continue
        begin += shared_keys.height
        for side, frame in unmatched.items():
            matched = frame.filter(usable).join(shared_keys, on=list(columns), how="inner")
            pair_parts.append(
                matched.select(pl.lit(side).alias("side"), "class", "pair",
                               pl.lit(relation).alias("relation"), "launches",
                               pl.col("launches").alias("places"))
            )  # fmt: skip
            unmatched[side] = frame.join(matched.select("class"), on="class", how="anti")
    placed = pl.concat(pair_parts) if pair_parts else None
    if unmatched["base"].height and unmatched["head"].height:
        in_order = _by_place(base, head, placed, unmatched, begin)
        if in_order.height:
            pair_parts.append(in_order)
            begin = int(in_order["pair"].to_numpy().max()) + 1
    for side, relation in (("base", "removed"), ("head", "added")):
        unpaired = _left_over(unmatched[side], pair_parts, side)
        pair_parts.append(
            unpaired.with_row_index("pair", offset=begin).select(
                pl.lit(side).alias("side"), "class", pl.col("pair").cast(pl.Int64),
                pl.lit(relation).alias("relation"), "launches", pl.col("launches").alias("places"),
            )
        )  # fmt: skip
        begin += unpaired.height
    return _name_operator_matches(pl.concat(pair_parts), base, head)


def _has_keys(columns: Sequence[str], relation: str) -> pl.Expr:
    """Return an expression for the classes that have the keys of a level: a group, a range, an operator."""
    if "group" in columns:
        return pl.col("group") != ""
    needed = [c for c in columns if c == "range" or (c == "operator" and relation == "by operator")]
    return pl.all_horizontal(pl.col(c) != "" for c in needed) if needed else pl.lit(value=True)


def _left_over(unmatched: pl.DataFrame, pair_parts: Sequence[pl.DataFrame], side: str) -> pl.DataFrame:
    """Return the unmatched classes that no place took: whole classes or parts of them."""
    if not pair_parts:
        return unmatched.select("class", "launches")
    paired = (
        pl.concat(pair_parts)
        .filter(pl.col("side") == side)
        .group_by("class", maintain_order=True)
        .agg(pl.col("launches").sum().alias("taken"))
    )
    unpaired = unmatched.select("class", "launches").join(paired, on="class", how="left")
    unpaired = unpaired.with_columns(pl.col("launches") - pl.col("taken").fill_null(0.0))
    return unpaired.filter(pl.col("launches") > 1e-9).select("class", "launches")


def _name_operator_matches(parts: pl.DataFrame, base: Side, head: Side) -> pl.DataFrame:
    """Say of operators done by other kernels whether these are as many, fewer or more."""
    operator_parts = parts.filter(pl.col("relation") == "by operator")
    calls = pl.concat(
        [
            side.sequence.select("class", "call")
            .join(
                operator_parts.filter(pl.col("side") == name).select("class", "pair"), on="class", how="inner"
            )
            .group_by("pair", maintain_order=True)
            .agg(pl.col("call").n_unique().alias("calls"), pl.len().alias("all"))
            .select(
                pl.lit(name).alias("side"),
                "pair",
                (pl.col("calls") / side.units).alias("calls"),
                (pl.col("all") / pl.col("calls")).alias("each"),
            )
            for name, side in (("base", base), ("head", head))
        ]
    )
    each = calls.group_by("pair", maintain_order=True).agg(
        pl.col("each").filter(pl.col("side") == s).first().alias(s) for s in ("base", "head")
    )
    named = each.select("pair", _count_relation(pl.col("base"), pl.col("head")).alias("named"))
    named_parts = parts.join(named, on="pair", how="left").join(
        calls.drop("each"), on=["side", "pair"], how="left"
    )
    relation = pl.coalesce("named", "relation")
    if not all(
        (side.classes["range"] != "").any() for side in (base, head)
    ):  # without ranges on both sides nothing can have been relocated between them
        relation = pl.when(relation == "relocated").then(pl.lit("same")).otherwise(relation)
    return named_parts.with_columns(
        relation.alias("relation"), pl.coalesce("calls", "places").alias("places")
    ).drop("named", "calls")


def _count_relation(base: pl.Expr, head: pl.Expr) -> pl.Expr:
    return (
        pl.when(head < 0.999 * base)
        .then(pl.lit("fused"))
        .when(head > 1.001 * base)
        .then(pl.lit("split"))
        .otherwise(pl.lit("renamed"))
    )


def _holes(side: Side, placed: pl.DataFrame | None, name: str) -> pl.DataFrame:
    """Return stretches of unmatched launches: their classes, and the matched pairs before and after."""
    class_pairs = (
        pl.DataFrame(schema={"class": pl.Int64, "pair": pl.Int64})
        if placed is None
        else placed.filter(pl.col("side") == name).select("class", "pair")
    )
    rows = side.sequence.join(class_pairs, on="class", how="left", maintain_order="left").with_columns(
        pl.col("pair").forward_fill().over("device").fill_null(-1).alias("before"),
        pl.col("pair").backward_fill().over("device").fill_null(-2).alias("after"),
        pl.struct("device", pl.col("pair").is_null()).rle_id().alias("stretch"),
    )
    return (
        rows.filter(pl.col("pair").is_null())
        .group_by("stretch", maintain_order=True)
        .agg(pl.col("before").first(), pl.col("after").first(), pl.col("class"))
        .filter(pl.col("class").list.len() <= _MOST_IN_PLACE)
        .group_by("before", "after", "class", maintain_order=True)
        .agg(pl.len().alias("times"))
    )


def _by_place(
    base: Side, head: Side, placed: pl.DataFrame | None, unmatched: dict[str, pl.DataFrame], begin: int
) -> pl.DataFrame:
    """Pair unmatched launches between the same matched neighbors."""
    holes = {"base": _holes(base, placed, "base"), "head": _holes(head, placed, "head")}
    shared_places = (
        holes["base"].select("before", "after").unique()
        .join(holes["head"].select("before", "after").unique(), on=["before", "after"], how="inner")
        .sort("before", "after")
        .with_row_index("place")
    )  # fmt: skip
    if not shared_places.height:
        return pl.DataFrame()
    sides = {"base": base, "head": head}
    inside = {
        name: frame.join(shared_places, on=["before", "after"], how="inner").with_row_index("hole")
        for name, frame in holes.items()
    }
    contents = {name: _contents(name, frame, sides[name].classes) for name, frame in inside.items()}
    launches_by_side = [
        _launches_inside(name, frame, sides[name].sequence, unmatched[name]) for name, frame in inside.items()
    ]
    # kernels of wholly other families in one place are other work, not the same work done otherwise
    places = contents["base"].join(contents["head"], on="place", how="inner").filter(
        pl.col("base_families").list.set_intersection("head_families").list.len() > 0
    )  # fmt: skip
    a = pl.col("base_launches") / pl.col("base_times")
    b = pl.col("head_launches") / pl.col("head_times")
    # places of equal content are one pair: a layer's kernel changed in every layer
    content = [pl.col(f"{s}_classes").cast(pl.List(pl.String)).list.join(",") for s in ("base", "head")]
    groups = places.select(
        "place",
        pl.concat_str(content, separator="|").rank("dense").cast(pl.Int64).alias("group"),
        _count_relation(a, b).alias("relation"),
        "base_times",
        "head_times",
    )
    joined = pl.concat(launches_by_side).join(groups, on="place", how="inner")
    times = groups.group_by("group", maintain_order=True).agg(
        pl.col("relation").mode().sort().first().alias("said"),
        pl.col("base_times").sum(),
        pl.col("head_times").sum(),
    )
    summed = joined.group_by("side", "class", "group", maintain_order=True).agg(pl.col("launches").sum())
    return summed.join(times, on="group", how="left").sort("group", "side", "class").select(
        "side",
        "class",
        (pl.col("group") - 1 + begin).alias("pair"),
        pl.col("said").alias("relation"),
        "launches",
        pl.when(pl.col("side") == "base")
        .then(pl.col("base_times") / base.units)
        .otherwise(pl.col("head_times") / head.units)
        .alias("places"),
    )  # fmt: skip


def _contents(side: str, inside: pl.DataFrame, classes: pl.DataFrame) -> pl.DataFrame:
    """Return the content of each place of a side: how often, its launches, classes and families."""
    families = (
        inside.explode("class")
        .join(classes.select("class", "family"), on="class", how="left", maintain_order="left")
        .group_by("hole", maintain_order=True)
        .agg("family")
    )
    with_families = inside.join(families, on="hole", how="left")
    return with_families.group_by("place", maintain_order=True).agg(
        pl.col("times").sum().alias(f"{side}_times"),
        (pl.col("class").list.len() * pl.col("times")).sum().alias(f"{side}_launches"),
        pl.col("class").explode().unique().sort().alias(f"{side}_classes"),
        pl.col("family").explode().unique().alias(f"{side}_families"),
    )


def _launches_inside(
    side: str, inside: pl.DataFrame, sequence: pl.DataFrame, unmatched: pl.DataFrame
) -> pl.DataFrame:
    """Return the launches of each unmatched class in each place: its share of all of that class."""
    in_place = (
        inside.explode("class")
        .group_by("place", "class", maintain_order=True)
        .agg(pl.col("times").sum().alias("count"))
    )
    everywhere = sequence["class"].value_counts(name="all")
    share = in_place.join(everywhere, on="class", how="left").with_columns(
        (pl.col("count") / pl.col("all")).alias("share")
    )
    return share.join(unmatched.select("class", "launches"), on="class", how="inner").select(
        pl.lit(side).alias("side"), "class", "place",
        (pl.col("launches") * pl.col("share")).alias("launches"),
    )  # fmt: skip
