"""Chrome-trace JSON in chunks: whole events are decoded as typed records, never the document as a tree."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from pathlib import Path

import msgspec

from tracetool.core.errors import BadInput
from tracetool.core.number_text import counted
from tracetool.sources.pytorch.records import BareEvent, Chunk, Event, Header, Tail

#: Bytes of JSON decoded at once: bounds the memory whatever the file's size.
CHUNK_BYTES = 8 << 20
#: Bytes that may stand before the events.
LONGEST_HEADER = 32 << 20
#: Bytes that ``"traceEvents" : [`` may take, blanks included.
LONGEST_KEY = 1 << 12
#: Places tried for a cut before more bytes are read: a cut inside a nested value does not decode.
CUT_TRIES = 64
_HEAD = re.compile(rb'(?<!\\)"traceEvents"\s*:\s*\[')
_COMMA = re.compile(rb"\s*,?")
_SEAM = re.compile(rb"\}(\s*,\s*)\{")
_NOT_JSON = re.compile(rb"(?<=[:,\[])(\s*)(?:-?\b(?:NaN|nan|Infinity|inf)\b)(?=\s*[,}\]])")

_HEADER = msgspec.json.Decoder(Header)
_RAWS = msgspec.json.Decoder(list[msgspec.Raw])
#: An event whose arguments are no object: the rest of it counts all the same.
_ODD = msgspec.json.Decoder(BareEvent)


class EventReader:
    """Reads a file's events chunk by chunk; ``header`` is complete once they are exhausted."""

    def __init__(
        self, path: Path, blocks: Iterable[bytes], kind: type[Event], chunk_bytes: int = CHUNK_BYTES
    ) -> None:
        self.path = path
        self._kind = kind
        self._event = msgspec.json.Decoder(kind)
        self._events = msgspec.json.Decoder(list[kind])  # type: ignore[valid-type]
        self._tail = msgspec.json.Decoder(Tail[kind])  # type: ignore[valid-type]
        self.header = Header()
        self.count = 0
        self._blocks = iter(blocks)
        self._chunk_bytes = chunk_bytes
        self._offset = 0

    def __iter__(self) -> Iterator[Chunk]:
        """Yield chunks of events in the order of the file."""
        buffer = self._open()
        ended = False
        while not ended:
            pieces, size = [buffer], len(buffer)
            for block in self._blocks:
                pieces.append(block)
                size += len(block)
                if size >= self._chunk_bytes:
                    break
            else:
                ended = True
            buffer = b"".join(pieces)
            del pieces
            if not ended:
                cut = self._cut(buffer)
                if cut is None:
                    self._chunk_bytes = 2 * max(self._chunk_bytes, size)
                    continue
                chunk, remainder = cut
                self._offset += len(buffer) - len(remainder)
                buffer = remainder
                yield chunk
        yield self._last(buffer)

    def _open(self) -> bytes:
        """Return the bytes after the opening bracket of the events; those before it are read."""
        buffer = b""
        for block in self._blocks:
            searched = max(0, len(buffer) - LONGEST_KEY)  # a long header is not searched anew at every block
            buffer += block
            start = buffer.lstrip()
            if not buffer[:4].lstrip(b"\xef\xbb\xbf").strip() and len(buffer) < 4:
                continue
            start = start.removeprefix(b"\xef\xbb\xbf").lstrip()
            if start[:1] == b"[":
                self._offset = len(buffer) - len(start) + 1
                return self._bare(start[1:])
            if start[:1] != b"{":
                raise self._fault("does not start as JSON", 0)
            if head := _HEAD.search(buffer, searched):
                self._offset = head.end()
                self._read_header(buffer[: head.end()] + b"]}")
                return buffer[head.end() :]
            if len(buffer) > LONGEST_HEADER:
                break
        raise self._fault("has no traceEvents list", 0)

    def _bare(self, remaining: bytes) -> bytes:
        self._is_list = True
        return remaining

    _is_list = False
    #: Whether the text tried last is no JSON, wherever it is cut.
    _malformed = False

    def _read_header(self, text: bytes) -> None:
        text = text[text.find(b"{") :]
        try:
            self.header.update(_HEADER.decode(text))
        except (msgspec.DecodeError, RecursionError, UnicodeDecodeError):
            try:
                self.header.update(_HEADER.decode(_repaired(text)))
            except (msgspec.DecodeError, RecursionError, UnicodeDecodeError) as error:
                raise self._fault(str(error), 0) from error

    def _fault(self, text: str, offset: int) -> BadInput:
        place = f" (after {counted(self.count, 'event')}, near byte {offset})" if self.count or offset else ""
        return BadInput.in_file(
            self.path, f"is not a usable profiler JSON: {text}{place}", "copy the file again"
        )

    def _cut(self, buffer: bytes) -> tuple[Chunk, bytes] | None:
        """Return the events before the last seam that decodes, and the bytes after it."""
        end = len(buffer)
        self._malformed = False
        tries = 0
        window = 1 << 12
        while tries < CUT_TRIES and end > 0:
            start = max(0, end - window)
            seams = list(_SEAM.finditer(buffer, start, end))
            if not seams and start == 0:
                return None
            for seam in reversed(seams):
                at = seam.start() + 1
                chunk = self._decode(buffer, at)
                if chunk is not None:
                    self.count += len(chunk.events) + len(chunk.odd)
                    return chunk, buffer[seam.end() - 1 :]
                tries += 1
                if tries >= CUT_TRIES or self._malformed:
                    return None
            end, window = start + 1, 1 << 16
        return None

    def _decode(self, buffer: bytes, end: int) -> Chunk | None:
        """Return the events before ``end``, None where the text is not a list of whole values."""
        first = _COMMA.match(buffer)
        # Joined at once: big texts are copied no oftener than need be.
        text = b"".join((b"[", memoryview(buffer)[first.end() if first else 0 : end], b"]"))
        try:
            return Chunk(self.count, self._events.decode(text), text)
        except msgspec.ValidationError:
            return self._one_by_one(text)
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
            fault = error
        repaired = _repaired(text)
        if repaired == text:
            self._malformed = _is_malformed(fault, len(text))
            return None
        try:
            return Chunk(self.count, self._events.decode(repaired), repaired)
        except msgspec.ValidationError:
            return self._one_by_one(repaired)
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
            self._malformed = _is_malformed(error, len(repaired))
            return None

    def _one_by_one(self, text: bytes) -> Chunk | None:
        """Decode a list some of whose entries are no events."""
        try:
            raws = _RAWS.decode(text)
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
            return None
        chunk = Chunk(self.count, [], b"")
        decoded = []
        for i, raw in enumerate(raws):
            try:
                chunk.events.append(self._one(raw))
                decoded.append(bytes(raw))
            except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
                if bytes(raw).strip() not in (b"{}", b"null"):
                    chunk.odd.append((self.count + i, bytes(raw)[:200].decode("utf-8", "replace")))
        chunk.raw = b"[" + b",".join(decoded) + b"]"
        return chunk

    def _one(self, raw: msgspec.Raw) -> Event:
        """Decode one event, without its arguments where they are odd."""
        try:
            return self._event.decode(raw)
        except msgspec.ValidationError:
            return self._kind(**msgspec.structs.asdict(_ODD.decode(raw)))

    def _last(self, buffer: bytes) -> Chunk:
        """Return the last events and read the text after them."""
        opening = b"[" if self._is_list else b'{"traceEvents":['
        document = opening + buffer.lstrip().removeprefix(b",")
        # Old profilers end a list with a comma, and a crash leaves it open: Chrome's own viewer takes both.
        fault: Exception | None = None
        for fix in (bytes, _repaired):  # only where it has to be: it looks at every byte
            text = fix(document)
            try:
                if self._is_list:
                    return self._count(Chunk(self.count, self._events.decode(text), text))
                header = self._tail.decode(text)
            except msgspec.ValidationError as error:
                fault = error
                if (chunk := self._last_odd(text)) is not None:
                    return self._count(chunk)
            except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
                fault = error
            else:
                self.header.update(header)
                return self._count(Chunk(self.count, header.events, text))
        message = str(fault)
        place = re.search(r"\(byte (\d+)\)", message)
        offset = self._offset + int(place[1]) - len(opening) if place else self._offset + len(buffer)
        if "truncated" in message.lower():
            message = "it is cut short"
        raise self._fault(re.sub(r"\s*\(byte \d+\)", "", message), offset) from fault

    def _count(self, chunk: Chunk) -> Chunk:
        self.count += len(chunk.events) + len(chunk.odd)
        return chunk

    def _last_odd(self, text: bytes) -> Chunk | None:
        if self._is_list:
            return self._one_by_one(text)
        try:
            sections = msgspec.json.decode(text, type=dict[str, msgspec.Raw])
            self._read_header(text)
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError, BadInput):
            return None
        return self._one_by_one(bytes(sections["traceEvents"]))


def _is_malformed(error: Exception, length: int) -> bool:
    """Return whether a text breaks before the end at which it was cut: no other cut behind that decodes.

    What follows a whole list is no fault of the text but the rest of the document.
    """
    place = re.search(r"\(byte (\d+)\)", str(error))
    return place is not None and int(place[1]) < length - 2 and "trailing" not in str(error)


def _repaired(text: bytes) -> bytes:
    """Return JSON some writers meant: NaN and infinities as null, broken UTF-8 replaced."""
    return _NOT_JSON.sub(rb"\1null", text.decode("utf-8", errors="replace").encode())
