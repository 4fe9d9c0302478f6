"""Folders and buckets by one set of verbs: list, read, write whole, fetch and store files.

A bucket is named as its own tools name it: ``s3://bucket/path`` (endpoint and keys from the environment, or
as options of the address: ``?endpoint_override=http://host:9000&scheme=http``), ``gs://``, ``abfs://``.
Writing to a folder goes aside and is renamed; an object of a bucket appears whole or not at all by itself.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import pyarrow as pa
import pyarrow.fs as pafs

from tracetool.core.errors import BadInput
from tracetool.core.paths import text_name
from tracetool.tables.run_folder import put_folder
from tracetool.tables.write import aside_file

#: Read and written at once. [byte]
_CHUNK: Final = 8 << 20


@dataclass(frozen=True)
class Item:
    """A file of a place: its path there, its size [byte], and a mark that changes when it is written anew."""

    path: str
    size: int
    mark: str


def _first_line(error: BaseException) -> str:
    return (str(error).splitlines() or [type(error).__name__])[0][:200]


def _local_items(root: str) -> Iterator[Item]:
    """Yield the files under a folder of this machine; each folder counts once, whatever links lead to it."""
    waiting, linked, seen = [root], list[str](), set()
    while waiting or linked:
        folder = waiting.pop() if waiting else linked.pop(0)  # under its own name rather than a link's
        try:
            status = os.stat(folder)  # noqa: PTH116
            if (status.st_dev, status.st_ino) in seen:
                continue
            seen.add((status.st_dev, status.st_ino))
            entries = sorted(os.scandir(folder), key=lambda e: e.name)
        except FileNotFoundError:  # not there, or no longer
            continue
        for entry in entries:
            try:
                status = entry.stat()
            except OSError:  # a link to nothing, or a file just removed
                continue
            if stat.S_ISDIR(status.st_mode):
                (linked if entry.is_symlink() else waiting).append(entry.path)
            elif stat.S_ISREG(status.st_mode):
                yield Item(entry.path, status.st_size, str(status.st_mtime_ns))


class Place:
    """A folder, or a prefix of a bucket.

    Parameters
    ----------
    where : str or path
        Folder or address.

    Raises
    ------
    BadInput
        If the address cannot be understood.
    """

    def __init__(self, where: str | os.PathLike[str]) -> None:
        self.where = os.fspath(where)
        self.local = "://" not in self.where
        try:
            if self.local:
                self.files: pafs.FileSystem = pafs.LocalFileSystem()
                self.root = os.path.realpath(text_name(self.where))
            else:
                self.files, root = pafs.FileSystem.from_uri(self.where)
                self.root = root.rstrip("/")
        except (pa.ArrowInvalid, pa.ArrowNotImplementedError, OSError, ValueError) as error:
            raise BadInput.in_file(self.name, f"no such place: {_first_line(error)}") from error

    @property
    def name(self) -> str:
        """Return the address for people: without options and credentials."""
        scheme, _, path = self.where.partition("://")
        return self.where if self.local else f"{scheme}://{path.partition('?')[0].rpartition('@')[2]}"

    def path(self, *segments: str) -> str:
        """Return the path of something under this place."""
        return "/".join((self.root, *segments))

    def items(self, *under: str) -> list[Item]:
        """Return all files under this place, by path; none where it does not exist.

        Raises
        ------
        BadInput
            If it cannot be read.
        """
        try:
            if self.local:
                return sorted(_local_items(self.path(*under)), key=lambda i: i.path)
            selector = pafs.FileSelector(self.path(*under), recursive=True, allow_not_found=True)
            infos = self.files.get_file_info(selector)
        except OSError as error:
            fault = error.strerror if self.local and error.strerror else _first_line(error)
            raise BadInput.in_file(
                self.name, f"cannot be listed: {fault}", "name a folder that may be read"
            ) from error
        return sorted(
            (Item(i.path, i.size, str(i.mtime_ns)) for i in infos if i.type == pafs.FileType.File),
            key=lambda i: i.path,
        )

    def require(self) -> None:
        """Refuse a place that does not exist; a prefix of a bucket exists once anything is under it.

        Raises
        ------
        BadInput
            If there is no such folder, or nothing under the prefix.
        """
        exists = Path(self.root).is_dir() if self.local else bool(self.items())
        if not exists:
            raise BadInput.in_file(
                self.name, "no such data set", "make it: tracetool fleet ingest SRC -o DST"
            )

    def require_folder(self) -> None:
        """Refuse a place where no folder can be: a file stands there, or above it.

        Raises
        ------
        BadInput
            If one does.
        """
        above = self.root
        while self.local and not os.path.lexists(above):
            above = os.path.dirname(above)  # noqa: PTH120
        if self.local and not Path(above).is_dir():
            fault = f"no folder can be made there: {above} is none"
            raise BadInput.in_file(self.name, fault, "choose another place")

    def item(self, path: str) -> Item | None:
        """Return one file, or None."""
        info = self.files.get_file_info([path])[0]
        return Item(info.path, info.size, str(info.mtime_ns)) if info.type == pafs.FileType.File else None

    def read(self, path: str) -> bytes | None:
        """Return a file's contents, or None where there is none."""
        try:
            with self.files.open_input_stream(path) as stream:
                return bytes(stream.read())
        except FileNotFoundError:
            return None

    def head(self, path: str, count: int) -> bytes:
        """Return the first bytes of a file."""
        with self.files.open_input_stream(path, compression=None) as stream:
            return bytes(stream.read(count))

    def write(self, path: str, contents: bytes) -> None:
        """Write a file, whole."""
        if self.local:
            target = Path(path)
            target.parent.mkdir(parents=True, exist_ok=True)
            with aside_file(target) as aside:
                aside.write_bytes(contents)
            return
        with self.files.open_output_stream(path) as stream:
            stream.write(contents)

    def fetch(self, path: str, folder: Path) -> Path:
        """Return a file of this place on this machine: itself, or a copy in ``folder``."""
        if self.local:
            return Path(path)
        target = folder / path.rsplit("/", 1)[-1]
        with self.files.open_input_stream(path) as stream, target.open("wb") as copy:
            while chunk := stream.read(_CHUNK):
                copy.write(chunk)
        return target

    def store(self, folder: Path, *segments: str) -> None:
        """Put a folder's files under this place, in place of what was there; the folder is used up."""
        target = self.path(*segments)
        if self.local:
            last = Path(target)
            last.parent.mkdir(parents=True, exist_ok=True)
            put_folder(folder, last)
            return
        old = {i.path for i in self.items(*segments)}
        for file in sorted(p for p in folder.rglob("*") if p.is_file()):
            path = f"{target}/{file.relative_to(folder).as_posix()}"
            with file.open("rb") as source, self.files.open_output_stream(path) as stream:
                while chunk := source.read(_CHUNK):
                    stream.write(chunk)
            old.discard(path)
        for path in old:
            self.files.delete_file(path)

    def fetch_folder(self, folder: Path, *segments: str) -> Path:
        """Return a folder of this place on this machine: itself, or a copy in ``folder``."""
        path = self.path(*segments)
        if self.local:
            return Path(path)
        for item in self.items(*segments):
            target = folder / item.path.removeprefix(f"{path}/")
            target.parent.mkdir(parents=True, exist_ok=True)
            self.fetch(item.path, target.parent)
        return folder

    def remove(self, *segments: str) -> None:
        """Remove a folder of this place, if it is there."""
        path = self.path(*segments)
        if self.files.get_file_info([path])[0].type == pafs.FileType.Directory:
            self.files.delete_dir(path)

    def remove_file(self, *segments: str) -> None:
        """Remove a file of this place, if it is there."""
        path = self.path(*segments)
        if self.item(path) is not None:
            self.files.delete_file(path)
