"""A recording: a folder that is of use at every moment, with trace, power log and what happened when."""

from __future__ import annotations

import json
import os
import shutil
import tempfile
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

from tracetool.core.errors import BadInput
from tracetool.record.clocks import boot_ns, read_pair
from tracetool.tables.run_folder import put_folder
from tracetool.tables.scratch import TEMPORARY, scratch_prefix

POWER_LOG = "power.log"
EVENTS = "events.jsonl"
SUFFIX = ".recording"


class Recording:
    """The folder of a recording being made.

    Parameters
    ----------
    folder : Path
        Where it is made.
    place : Path, optional
        Where it belongs, if not there: an older recording keeps that place until :meth:`take_place`.
    """

    def __init__(self, folder: Path, place: Path | None = None) -> None:
        self.folder, self.place = folder, place or folder
        self._events = os.open(folder / EVENTS, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o644)
        self.event("recording", pair=vars(read_pair()), process=os.getpid())

    @classmethod
    def create(cls, folder: Path) -> Recording:
        """Make the folder, beside an older recording of that name.

        Raises
        ------
        BadInput
            If it exists and is not an empty folder or an old recording, or cannot be made.
        """
        try:
            if (folder / EVENTS).is_file():
                place = Path(os.path.realpath(folder))
                prefix = scratch_prefix(place.parent / TEMPORARY)
                return cls(Path(tempfile.mkdtemp(prefix=prefix, dir=place.parent)), place)
            folder.mkdir(parents=True, exist_ok=True)
            if any(folder.iterdir()):
                raise BadInput.in_file(folder, "exists and is not a recording", "choose another with -o")
            return cls(folder)
        except OSError as error:
            raise BadInput.in_file(folder, f"cannot be made: {error.strerror or error}") from error

    def take_place(self) -> None:
        """Take the place of the older recording, which is removed; open files stay open.

        Raises
        ------
        BadInput
            If it cannot.
        """
        if self.folder == self.place:
            return
        mask = os.umask(0)
        os.umask(mask)
        try:
            self.folder.chmod(0o777 & ~mask)
            put_folder(self.folder, self.place)
        except OSError as error:
            raise BadInput.unwritable(self.place, error) from error
        self.folder = self.place

    @property
    def power_log(self) -> Path:
        """Where the sampler writes."""
        return self.folder / POWER_LOG

    def event(self, what: str, **facts: Any) -> None:
        """Append what happened now; a full disk loses the event, never the recording."""
        line = json.dumps({"what": what, "boot_ns": boot_ns(), **facts}, ensure_ascii=True)
        with suppress(OSError):
            os.write(self._events, line.encode() + b"\n")

    def close(self) -> None:
        """Close the file of events."""
        os.close(self._events)

    def discard(self) -> None:
        """Close and remove a recording that never began."""
        self.close()
        shutil.rmtree(self.folder, ignore_errors=True)


def read_events(folder: Path) -> list[Mapping[str, Any]]:
    """Return the events of a recording, also of one that was cut short.

    Raises
    ------
    BadInput
        If the folder is not a recording.
    """
    try:
        text = (folder / EVENTS).read_text("utf-8", "replace")
    except OSError as error:
        raise BadInput.in_file(folder, f"is not a recording (no {EVENTS})") from error
    events: list[Mapping[str, Any]] = []
    for line in text.splitlines():
        try:
            event = json.loads(line)
        except ValueError:
            continue
        if isinstance(event, dict) and isinstance(event.get("what"), str):
            events.append(event)
    return events


def find_traces(folder: Path, patterns: Sequence[str]) -> list[Path]:
    """Return the traces in a recording that match the first pattern with a match."""
    for pattern in patterns:
        if matches := sorted(p for p in folder.glob(pattern) if p.is_file() and p.stat().st_size):
            return matches
    return []
