"""What source tells of kernels of single warps, and which format lends where none was measured."""

from __future__ import annotations

from dataclasses import replace

from tracetool.families.attention.tile_sizes import FLASHINFER, TRTLLM_WARPS
from tracetool.families.implementations import FittedLaw, Implementation
from tracetool.families.pricing import laws
from tracetool.model.other_formats import beside_parent
from tracetool.model.unmeasured_libraries import host_of


def test_source_tells_kernels_of_single_warps_on_every_chip_without_others() -> None:
    law = laws()["prefill"]
    told = {a: host_of(law, "trtllm", "torch_flow", a).get("by_head") for a in ("ada", "turing", "hopper")}
    assert told == {"ada": (0.0, TRTLLM_WARPS), "turing": (0.0, TRTLLM_WARPS), "hopper": None}
    assert host_of(law, "sglang", "flashinfer", "ada")["by_head"] == (0.0, FLASHINFER)
    assert "by_head" not in host_of(law, "sglang", "flashinfer", "blackwell")


def _fitted(efficiency: float, *architectures: str) -> FittedLaw:
    gpus = {"hopper": "h100-sxm", "ampere-ga100": "a100-sxm"}
    return FittedLaw(
        values={"tensor_efficiency": efficiency}, by_architecture={}, versions=frozenset(), band=(-0.1, 0.1),
        gpus={gpus[name]: 100 for name in architectures}, band_by_architecture={},
    )  # fmt: skip


def test_an_encoder_of_other_kernels_goes_halfway_to_prefill_of_like_ones() -> None:
    law = laws()["encoder"]
    own = _fitted(0.9, "hopper")
    fitted = {"encoder": own, "prefill": _fitted(0.4, "ampere-ga100")}
    one = Implementation("x", "x", "trtllm", frozenset(), (), fitted)

    def efficiency(one: Implementation, architecture: str) -> float:
        def on(_law: object, fitted: FittedLaw, _architecture: str) -> dict[str, float]:
            return dict(fitted.values)

        values = beside_parent(law, dict(own.values), one, architecture, on)
        return round(values["tensor_efficiency"], 3)

    assert efficiency(one, "ada") == 0.6
    assert efficiency(one, "blackwell") == 0.9  # kernels of its kind were measured as an encoder
    both = replace(one, laws={**one.laws, "encoder": _fitted(0.9, "hopper", "ampere-ga100")})
    assert efficiency(both, "ada") == 0.9
