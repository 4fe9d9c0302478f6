"""Families name their laws by keys: each key is a law, each law is used, and each row gets one."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from tracetool.core.operators import OperatorColumns
from tracetool.core.registry import constants_inside
from tracetool.families.law import Law
from tracetool.families.pricing import laws, split_by_law
from tracetool.families.registry import families
from tracetool.hardware.load import load_gpu


def _rows(family: str) -> OperatorColumns:
    columns = {
        "dtype": ["bf16", "fp32", "fp8", "fp8_block", "nvfp4", "fp64", ""],
        "phase": ["prefill", "decode", "", "backward", "", "", "decode"],
    }
    texts = {name: np.array(values, dtype=object) for name, values in columns.items()}
    return OperatorColumns(np.array([family] * 7, dtype=object), texts)


@pytest.mark.parametrize("name", sorted(families()))
def test_a_family_chooses_among_its_laws(name: str) -> None:
    family = families()[name]
    assert set(family.laws) <= set(laws())
    assert len(set(family.laws)) == len(family.laws)
    split = split_by_law(name, _rows(name), load_gpu("h100-sxm"))
    assert sorted(np.concatenate([rows for _, rows in split]).tolist()) == list(range(7))
    assert {law.name for law, _ in split} <= set(family.laws)


@pytest.mark.parametrize("law", sorted(laws()))
def test_a_law_is_used_and_its_parent_is_a_law(law: str) -> None:
    assert any(law in family.laws for family in families().values())
    assert laws()[law].parent in {"", *laws()}


def test_a_name_that_is_no_family_is_priced_as_an_unknown_kernel() -> None:
    (only,) = split_by_law("no such family", _rows("x"), load_gpu("h100-sxm"))
    assert only[0].name == families()["unknown"].laws[0]


def test_a_family_of_several_laws_must_choose() -> None:
    with pytest.raises(ValueError, match="chooses among its laws"):
        replace(families()["fft"], laws=("stream", "copy"))
    with pytest.raises(ValueError, match="chooses among its laws"):
        replace(families()["conv"], laws=("conv",))


def test_a_folder_that_defines_something_else_is_an_error() -> None:
    with pytest.raises(TypeError, match="FAMILIES"):
        constants_inside("tracetool.families", "FAMILIES", Law, module="spec")
    with pytest.raises(TypeError, match="must have a module"):
        constants_inside("tracetool.families", "FAMILIES", Law, module="no_such_module")
