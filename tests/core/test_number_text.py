"""Numbers as people read them have the significant figures that are promised."""

from __future__ import annotations

import pytest

from tracetool.core.number_text import number, of_gpus


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (9.9996, "10.00"), (99.996, "100.0"), (999.96, "1,000"), (9999.96, "10,000"), (0.99996, "1.000"),
        (-9.9996, "-10.00"), (0.0099996, "0.01000"), (9.9994, "9.999"), (10.0, "10.00"), (9.9996e14, "1e+15"),
    ],
)  # fmt: skip
def test_a_number_rounded_into_the_next_decade_keeps_its_figures(value: float, text: str) -> None:
    assert number(value) == text


def test_fewer_figures_and_places_round_alike() -> None:
    assert [number(v, 2) for v in (9.96, 0.0996, 99.6)] == ["10", "0.10", "100"]
    assert [number(v, places=3) for v in (0.9996, 1.0, 0.0996)] == ["1.000", "1.000", "0.100"]


def test_what_is_said_of_several_gpus_in_the_same_words_is_said_once() -> None:
    said = [f"GPU {i}: beat: {'100.0' if i != 10 else '99.96'} ms" for i in range(16)]
    assert of_gpus(said) == ["GPUs 0 to 15: beat: 99.96 to 100.0 ms"]
    assert of_gpus(["one", "two", "one"]) == ["one", "two"]


def test_sentences_of_many_gpus_that_differ_in_figures_give_ranges() -> None:
    shifted = [
        "timeline shifted by +3.1 ms (90 %: +2.7 to +3.4)",
        "timeline shifted by +20.1 ms (90 %: +19.8 to +20.3)",
    ]
    two = [f"GPU {gpu}: {said}" for gpu, said in enumerate(shifted)]
    assert of_gpus(two) == two  # each is said where there are two
    three = [*two, "GPU 2: timeline shifted by -1.0 ms (90 %: -1.2 to +0.1)"]
    assert of_gpus(three) == ["GPUs 0 to 2: timeline shifted by -1.0 to +20.1 ms (90 %: -1.2 to +20.3)"]


def test_figures_in_names_are_no_ranges() -> None:
    said = [
        f"GPU {i}: {24 + i % 2} ms of NVIDIA H{100 if i else 200} 80GB (yang-sc24), 1,{i}00 W"
        for i in range(4)
    ]
    assert of_gpus(said) == [
        "GPU 0: 24 ms of NVIDIA H200 80GB (yang-sc24), 1,000 W",
        "GPUs 1 to 3: 24 to 25 ms of NVIDIA H100 80GB (yang-sc24), 1,100 to 1,300 W",
    ]
