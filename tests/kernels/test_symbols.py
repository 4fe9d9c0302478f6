from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from tracetool.kernels.name_normalization import normalize
from tracetool.kernels.symbols import Symbol, split_arguments


def test_head_scope_and_arguments():
    symbol = Symbol("void at::native::(anonymous namespace)::f<(int)4, g<(bool)1>, 8u>(float*, h<int>)")
    assert symbol.head == "f"
    assert symbol.scope == "at::native::anon::f"
    assert symbol.arguments == ("4", "g<true>", "8")


def test_kernels_local_to_a_function_keep_their_own_head():
    assert Symbol("void outer(int)::inner<3>(float*)").head == "inner"


def test_suffixes_and_clones_fall_away():
    assert normalize("foo.kd") == normalize("foo [clone .kd]") == normalize("foo.intern.ab12cd") == "foo"


def test_a_mangled_name_cut_short_keeps_its_head_and_constants():
    whole = Symbol("_ZN7cutlass13device_kernelIN4gemm1AILi64ELi128EEEEEvv")
    cut = Symbol("_ZN7cutlass13device_kernelIN4gemm1AILi64ELi12")
    assert whole.head == cut.head == "device_kernel"
    assert "64" in cut.inside


@settings(max_examples=200, deadline=None)
@given(st.text(alphabet="ab<>()[]{},: _12&*", max_size=80))
def test_normal_form_is_stable(text):
    once = normalize(text)
    assert normalize(once) == once
    assert all(part.strip() == part for part in split_arguments(text))
    Symbol(text)
