"""The recorder's end of the sampler: start it, know that it reads, end it."""

from __future__ import annotations

import json
import os
import select
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, Literal

from tracetool.core.errors import MissingPart

#: Loading a driver that no one holds open can take this long.
START_S = 60.0
END_S = 20.0
#: The sampler's exit code where the disk did not take all of its log.
NOT_ALL_WRITTEN = 2


class Sampler:
    """A running sampler."""

    def __init__(self, process: subprocess.Popen[bytes], facts: Mapping[str, Any], log: Path) -> None:
        self._process, self.facts, self.log = process, facts, log

    @classmethod
    def start(
        cls,
        log: Path,
        vendor: Literal["nvidia", "amd"],
        *,
        devices: Sequence[int] = (),
        poll_ms: float | None = None,
    ) -> Sampler:
        """Start sampling and return once the first reading is due.

        Raises
        ------
        MissingPart
            If the vendor's library or its GPUs are absent, or do not answer.
        """
        arguments = [sys.executable, "-m", "tracetool.record.sampler", "--log", str(log), "--vendor", vendor]
        if devices:
            arguments += ["--devices", ",".join(map(str, devices))]
        if poll_ms:
            arguments += ["--poll-ms", str(poll_ms)]
        process = subprocess.Popen(
            arguments,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            start_new_session=True,  # Ctrl-C at the terminal is for the program
        )
        try:
            first = _first_line(process)
        except BaseException:  # an interrupt: nobody else would end it
            process.kill()
            process.communicate()
            raise
        try:
            facts = json.loads(first)
        except ValueError:
            process.kill()
            stderr_lines = process.communicate()[1].decode("utf-8", "replace").strip().splitlines()
            raise MissingPart(
                f"the sampler did not start: {stderr_lines[-1] if stderr_lines else 'no answer'}",
                "see: tracetool doctor",
            ) from None
        if "ready" not in facts:
            process.communicate()
            raise MissingPart(str(facts.get("missing")), str(facts.get("fix", "")))
        return cls(process, facts, log)

    @property
    def alive(self) -> bool:
        """Whether it still reads."""
        return self._process.poll() is None

    def stop(self) -> int:
        """End sampling and return the sampler's exit code: 0, or 2 where the disk took not all."""
        try:
            with suppress(OSError):
                if self._process.stdin:
                    self._process.stdin.close()
            return self._process.wait(END_S)
        except subprocess.TimeoutExpired:  # stuck in the driver
            self._process.kill()
            return self._process.wait()
        finally:
            for stream in (self._process.stdout, self._process.stderr):
                if stream:
                    stream.close()


def _first_line(process: subprocess.Popen[bytes]) -> bytes:
    assert process.stdout is not None
    number, text, deadline = process.stdout.fileno(), b"", time.monotonic() + START_S
    while b"\n" not in text and (remaining_s := deadline - time.monotonic()) > 0:
        if select.select([number], [], [], remaining_s)[0]:
            received = os.read(number, 65536)
            if not received:
                break
            text += received
    return text
