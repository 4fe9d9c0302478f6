"""AMD GPUs through amdsmi: socket power, the energy accumulator, clocks, temperature."""

from __future__ import annotations

import contextlib
import io
from collections.abc import Callable, Sequence
from typing import Any

from tracetool.core.errors import MissingPart
from tracetool.record.meter import Device, MeterLost, Values

_INSTALL = "install amd-smi-lib with ROCm, then: pip install 'tracetool-energy[amd]' of the same version"


class AmdSmi:
    """A :class:`~tracetool.record.meter.Meter` over AMD's own Python package.

    The accumulator counts steps of about 15.3 µJ; the package gives the step with every reading.
    """

    vendor = "amd"
    library = "amdsmi"

    def __init__(self) -> None:
        self.driver = ""
        self._handles: list[Any] = []
        self._fields: dict[int, tuple[str, ...]] = {}

    def open(self) -> Sequence[Device]:
        """Load amdsmi and return its GPUs."""
        with contextlib.redirect_stdout(io.StringIO()):  # without its library the package prints, then breaks
            try:
                import amdsmi
            except ImportError as error:
                raise MissingPart("amdsmi is not installed", _INSTALL) from error
            except Exception as error:
                raise MissingPart("amdsmi cannot load libamd_smi.so", _INSTALL) from error
        self._smi = amdsmi
        try:
            amdsmi.amdsmi_init()
            self._handles = list(amdsmi.amdsmi_get_processor_handles())
        except Exception as error:
            raise MissingPart(
                f"amdsmi: {_error_text(error)}", "install the amdgpu driver, or check amd-smi"
            ) from error
        if not self._handles:
            raise MissingPart("amdsmi finds no GPU", "check amd-smi list")
        return [self._open_device(i, handle) for i, handle in enumerate(self._handles)]

    def _open_device(self, index: int, handle: Any) -> Device:
        smi = self._smi
        asic = self._maybe(lambda: smi.amdsmi_get_gpu_asic_info(handle)) or {}
        driver = self._maybe(lambda: smi.amdsmi_get_gpu_driver_info(handle)) or {}
        cap = self._maybe(lambda: smi.amdsmi_get_power_cap_info(handle)) or {}
        self.driver = self.driver or str(driver.get("driver_version", ""))
        self._fields[index] = ("instant_mw", "average_mw", "energy_uj")
        try:
            first_values = self.read_power(index)
        except MeterLost:
            first_values = {}
        self._fields[index] = tuple(k for k, v in first_values.items() if v is not None)
        return Device(
            index,
            str(asic.get("market_name", "AMD GPU")),
            str(self._maybe(lambda: smi.amdsmi_get_gpu_device_uuid(handle)) or ""),
            str(self._maybe(lambda: smi.amdsmi_get_gpu_device_bdf(handle)) or ""),
            _micro_to_milli(cap.get("power_cap")),
            self._fields[index],
            {
                "target": str(asic.get("target_graphics_version", "")),
                "limit_range_mw": [_micro_to_milli(cap.get(k)) for k in ("min_power_cap", "max_power_cap")],
                "default_limit_mw": _micro_to_milli(cap.get("default_power_cap")),
            },
        )

    def _handle(self, index: int) -> Any:
        if index >= len(self._handles):
            raise MeterLost("the GPU is not there any more")
        return self._handles[index]

    def _maybe(self, read: Callable[[], Any]) -> Any:
        try:
            return read()
        except Exception:  # noqa: BLE001 - the package raises its own tree, and KeyError where names changed
            return None

    def read_power(self, index: int) -> Values:
        """Return the power fields and the energy counter."""
        smi, handle, fields = self._smi, self._handle(index), self._fields[index]
        values: dict[str, int | str | None] = {}
        problem: Exception | None = None
        if "instant_mw" in fields or "average_mw" in fields:
            try:
                answer = smi.amdsmi_get_power_info(handle)
                values["instant_mw"] = _watts(answer.get("current_socket_power"))
                values["average_mw"] = _watts(answer.get("average_socket_power"))
            except Exception as error:  # noqa: BLE001
                problem = error
        if "energy_uj" in fields:
            try:
                answer = smi.amdsmi_get_energy_count(handle)
                count = answer.get("energy_accumulator", answer.get("power"))
                values["energy_uj"] = round(int(count) * float(answer["counter_resolution"]))
            except Exception as error:  # noqa: BLE001
                problem = error
        if problem is not None and all(v is None for v in values.values()):
            raise MeterLost(_error_text(problem)) from problem
        return values

    def read_state(self, index: int) -> Values:
        """Return clocks, temperature, utilization and limit."""
        smi, handle = self._smi, self._handle(index)
        edge = smi.AmdSmiTemperatureType.HOTSPOT
        now = smi.AmdSmiTemperatureMetric.CURRENT

        def clock(kind: str) -> int | None:
            answer = self._maybe(lambda: smi.amdsmi_get_clock_info(handle, getattr(smi.AmdSmiClkType, kind)))
            return _as_integer((answer or {}).get("clk", (answer or {}).get("cur_clk")))

        activity = self._maybe(lambda: smi.amdsmi_get_gpu_activity(handle)) or {}
        cap = self._maybe(lambda: smi.amdsmi_get_power_cap_info(handle)) or {}
        return {
            "clock_mhz": clock("GFX"),
            "mem_clock_mhz": clock("MEM"),
            "temperature_c": _as_integer(self._maybe(lambda: smi.amdsmi_get_temp_metric(handle, edge, now))),
            "utilization_pct": _as_integer(activity.get("gfx_activity")),
            "limit_mw": _micro_to_milli(cap.get("power_cap")),
        }

    def close(self) -> None:
        """Release amdsmi."""
        self._handles = []
        if hasattr(self, "_smi"):
            self._maybe(self._smi.amdsmi_shut_down)


def _as_integer(value: Any) -> int | None:
    return int(value) if isinstance(value, int | float) and not isinstance(value, bool) else None


def _watts(value: Any) -> int | None:
    watts = _as_integer(value)
    return None if watts is None or watts in (0xFFFF, 0xFFFFFFFF) else 1000 * watts


def _micro_to_milli(value: Any) -> int | None:
    micro = _as_integer(value)
    return None if micro is None else micro // 1000


def _error_text(error: Exception) -> str:
    return " ".join(str(error).split()) or type(error).__name__
