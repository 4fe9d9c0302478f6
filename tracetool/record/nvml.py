"""NVIDIA GPUs through NVML: both power fields, the energy counter, clocks, temperature, reasons."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from tracetool.core.errors import MissingPart
from tracetool.record.meter import Device, MeterLost, Values

_INSTALL = "pip install 'tracetool-energy[nvidia]'"
#: Field identifiers of nvmlDeviceGetFieldValues: average and instantaneous power. [mW]
_AVERAGE, _INSTANT = 185, 186
_SM, _MEMORY, _GPU_TEMPERATURE = 1, 2, 0


class Nvml:
    """A :class:`~tracetool.record.meter.Meter` over nvidia-ml-py."""

    vendor = "nvidia"
    library = "NVML"

    def __init__(self) -> None:
        self.driver = ""
        self._handles: dict[int, Any] = {}
        self._fields: dict[int, tuple[str, ...]] = {}

    def open(self) -> Sequence[Device]:
        """Load NVML and return its GPUs."""
        try:
            import pynvml
        except ImportError as error:
            raise MissingPart("nvidia-ml-py is not installed", _INSTALL) from error
        self._nvml = pynvml
        try:
            pynvml.nvmlInit()
            self.driver = _text(pynvml.nvmlSystemGetDriverVersion())
            count = pynvml.nvmlDeviceGetCount()
        except pynvml.NVMLError as error:
            raise MissingPart(
                f"NVML: {str(error).lower()}", "install the NVIDIA driver, or check nvidia-smi"
            ) from error
        devices = []
        for index in range(count):
            try:
                devices.append(self._open_device(index))
            except pynvml.NVMLError:  # one card that fell off the bus must not hide the others
                continue
        if not devices:
            raise MissingPart("NVML finds no GPU", "check nvidia-smi -L")
        return devices

    def _open_device(self, index: int) -> Device:
        nvml = self._nvml
        handle = nvml.nvmlDeviceGetHandleByIndex(index)
        self._handles[index] = handle
        self._fields[index] = tuple(
            name for name, read in self._power_fields(handle).items() if self._maybe(read) is not None
        )
        bus = self._maybe(lambda: _text(nvml.nvmlDeviceGetPciInfo(handle).busId))
        limits = self._maybe(lambda: list(nvml.nvmlDeviceGetPowerManagementLimitConstraints(handle)))
        default = self._maybe(lambda: nvml.nvmlDeviceGetPowerManagementDefaultLimit(handle))
        clocks = {
            name: self._maybe(lambda kind=kind: nvml.nvmlDeviceGetMaxClockInfo(handle, kind))  # type: ignore[misc]
            for name, kind in (("sm", _SM), ("memory", _MEMORY))
        }
        return Device(
            index,
            _text(nvml.nvmlDeviceGetName(handle)),
            self._maybe(lambda: _text(nvml.nvmlDeviceGetUUID(handle))) or "",
            bus or "",
            self._maybe(lambda: nvml.nvmlDeviceGetEnforcedPowerLimit(handle)),
            self._fields[index],
            {
                "limit_range_mw": limits,
                "default_limit_mw": default,
                "max_clock_mhz": clocks,
                "persistence": self._maybe(lambda: nvml.nvmlDeviceGetPersistenceMode(handle)),
            },
        )

    def _handle(self, index: int) -> Any:
        try:
            return self._handles[index]
        except KeyError as error:
            raise MeterLost("the GPU is not there any more") from error

    def _power_fields(self, handle: Any) -> dict[str, Callable[[], int | None]]:
        nvml = self._nvml
        return {
            "instant_mw": lambda: self._field(handle, _INSTANT),
            "average_mw": lambda: self._field(handle, _AVERAGE),
            "draw_mw": lambda: int(nvml.nvmlDeviceGetPowerUsage(handle)),
            "energy_uj": lambda: 1000 * int(nvml.nvmlDeviceGetTotalEnergyConsumption(handle)),
        }

    def _field(self, handle: Any, number: int) -> int | None:
        value = self._nvml.nvmlDeviceGetFieldValues(handle, [number])[0]
        return _number(value) if value.nvmlReturn == 0 else None

    def _maybe(self, read: Callable[[], Any]) -> Any:
        try:
            return read()
        except (self._nvml.NVMLError, ValueError, AttributeError):
            return None

    def read_power(self, index: int) -> Values:
        """Return the power fields and the energy counter."""
        nvml, handle, fields = self._nvml, self._handle(index), self._fields[index]
        values: dict[str, int | str | None] = {}
        queried = [
            (name, number)
            for name, number in (("instant_mw", _INSTANT), ("average_mw", _AVERAGE))
            if name in fields
        ]
        try:
            if queried:  # one call for both: they then show the same moment
                answers = nvml.nvmlDeviceGetFieldValues(handle, [number for _, number in queried])
                for (name, _), answer in zip(queried, answers, strict=True):
                    if answer.nvmlReturn == 0:
                        values[name] = _number(answer)
                    elif answer.nvmlReturn in _LOST:
                        raise MeterLost(str(nvml.NVMLError(answer.nvmlReturn)))
            elif "draw_mw" in fields:
                values["draw_mw"] = int(nvml.nvmlDeviceGetPowerUsage(handle))
            if "energy_uj" in fields:
                values["energy_uj"] = 1000 * int(nvml.nvmlDeviceGetTotalEnergyConsumption(handle))
        except nvml.NVMLError as error:
            raise MeterLost(str(error)) from error
        return values

    def read_state(self, index: int) -> Values:
        """Return clocks, temperature, utilization, limit and throttle reasons."""
        nvml, handle = self._nvml, self._handle(index)
        reasons = self._maybe(lambda: nvml.nvmlDeviceGetCurrentClocksEventReasons(handle))
        if reasons is None:
            reasons = self._maybe(lambda: nvml.nvmlDeviceGetCurrentClocksThrottleReasons(handle))
        return {
            "clock_mhz": self._maybe(lambda: int(nvml.nvmlDeviceGetClockInfo(handle, _SM))),
            "mem_clock_mhz": self._maybe(lambda: int(nvml.nvmlDeviceGetClockInfo(handle, _MEMORY))),
            "temperature_c": self._maybe(
                lambda: int(nvml.nvmlDeviceGetTemperature(handle, _GPU_TEMPERATURE))
            ),
            "utilization_pct": self._maybe(lambda: int(nvml.nvmlDeviceGetUtilizationRates(handle).gpu)),
            "limit_mw": self._maybe(lambda: int(nvml.nvmlDeviceGetEnforcedPowerLimit(handle))),
            "throttle": None if reasons is None else f"{int(reasons):#x}",
        }

    def close(self) -> None:
        """Release NVML."""
        self._handles.clear()
        if hasattr(self, "_nvml"):
            self._maybe(self._nvml.nvmlShutdown)


#: Return codes that mean the GPU is lost: uninitialized, lost, reset required, driver not loaded, unknown.
_LOST = frozenset({1, 9, 15, 16, 999})


def _text(value: str | bytes) -> str:
    return value.decode("utf-8", "replace") if isinstance(value, bytes) else value


def _number(answer: Any) -> int | None:
    """Return a field's value by its stated type: double, unsigned int, long, long long, signed."""
    member = {0: "dVal", 1: "uiVal", 2: "ulVal", 3: "ullVal", 4: "sllVal", 5: "siVal"}.get(answer.valueType)
    return None if member is None else int(getattr(answer.value, member))
