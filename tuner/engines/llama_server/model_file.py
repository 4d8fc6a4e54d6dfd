"""Reads what a GGUF file says of itself, without touching its weights.

The `gguf` package's own reader builds an object for every array element and needs tens of seconds for a vocabulary of
262144 tokens. Here arrays are stepped over, which takes a fraction of a second. The layout is the one of the GGUF
specification (ggml's docs/gguf.md), versions 2 and 3: magic, version, number of tensors, number of key-value pairs,
the pairs; all little-endian.
"""

from __future__ import annotations

import re
import struct
from pathlib import Path
from typing import BinaryIO

from tuner.domain.errors import MissingFile
from tuner.domain.facts import ModelFacts

_SCALARS = {0: "B", 1: "b", 2: "H", 3: "h", 4: "I", 5: "i", 6: "f", 7: "?", 10: "Q", 11: "q", 12: "d"}
"""Value type -> struct format."""
_STRING, _ARRAY = 8, 9
_LONGEST_KEY = 65535
_LONGEST_KEPT = 4096
"""Bytes of the longest string that is kept; a chat template is longer and not wanted."""
_GUESSED = 1024
"""Bit of `general.file_type` that says that the type was guessed by the converter (LLAMA_FTYPE_GUESSED)."""
_PART = re.compile(r"(.*)-(\d{5})-of-(\d{5})\.gguf$")

_AGAIN = "download the file again"
_LOOKS_LIKE = (
    (b"version https://git-lfs", "a Git LFS pointer and not the file itself", "fetch it with `git lfs pull`"),
    (b"PK\x03\x04", "a zip archive (perhaps a PyTorch checkpoint)", "convert the model to GGUF first"),
    (b"<!doctype", "a web page: the download saved an error or login page", _AGAIN),
    (b"<html", "a web page: the download saved an error or login page", _AGAIN),
)

Scalar = str | int | float | bool


class _Damaged(Exception):
    """The metadata cannot be read to its end."""


def read_model(path: Path) -> ModelFacts:
    """The facts of a GGUF model; for a split one (`-00001-of-00003.gguf`) the size of all parts together.

    Raises:
        MissingFile: the file or one of its parts is not there, cannot be read, or is not a whole GGUF file.
    """
    size = sum(_size(part) for part in _parts(path))
    try:
        with path.open("rb") as file:
            metadata = _metadata(file, path)
    except OSError as error:
        raise _unreadable(path, error) from error
    except _Damaged as error:
        raise MissingFile(
            f"the model file's metadata is damaged or cut off: {error}", where=str(path), advice=_AGAIN
        ) from error
    architecture = metadata.get("general.architecture")
    if not isinstance(architecture, str) or not architecture:
        raise MissingFile(
            "the GGUF file names no model architecture",
            where=str(path),
            advice="use a file that holds a language model",
        )

    def number(key: str) -> int | None:
        value = metadata.get(f"{architecture}.{key}")
        return value if isinstance(value, int) and not isinstance(value, bool) else None

    blocks, mtp_layers = number("block_count"), number("nextn_predict_layers") or 0
    return ModelFacts(
        path=str(path),
        name=str(metadata.get("general.name") or _PART.sub(r"\1", path.name).removesuffix(".gguf")),
        architecture=architecture,
        size_bytes=size,
        trained_context=number("context_length"),
        layers=None if blocks is None else max(blocks - mtp_layers, 0),
        mtp_layers=mtp_layers,
        experts=number("expert_count") or 0,
        quantisation=_quantisation(metadata.get("general.file_type")),
    )


def _parts(path: Path) -> list[Path]:
    """All parts of a split model, or the file alone."""
    match = _PART.match(path.name)
    if not match or match[3] == "00000":
        return [path]
    if int(match[2]) != 1:
        raise MissingFile(
            f"this is part {int(match[2])} of a split model, and the engine loads it by its first part",
            where=str(path),
            advice=f"name {match[1]}-00001-of-{match[3]}.gguf",
        )
    return [path.with_name(f"{match[1]}-{part:05}-of-{match[3]}.gguf") for part in range(1, int(match[3]) + 1)]


def _size(path: Path) -> int:
    try:
        if path.is_dir():
            files = sorted(entry.name for entry in path.glob("*.gguf"))
            advice = f"name one file in it, such as {files[0]}" if files else "name a .gguf file"
            raise MissingFile("the model is a folder, not a file", where=str(path), advice=advice)
        if not path.exists():
            if _PART.match(path.name):
                raise MissingFile("a part of the split model is not there", where=str(path), advice="fetch all parts")
            raise MissingFile("the model file is not there", where=str(path), advice="check the path")
        if not path.is_file():
            raise MissingFile("the model is not a regular file", where=str(path), advice="name a .gguf file")
        return path.stat().st_size
    except OSError as error:
        raise _unreadable(path, error) from error


def _unreadable(path: Path, error: OSError) -> MissingFile:
    return MissingFile(
        f"the model file cannot be read: {error.strerror or error}",
        where=str(path),
        advice="check its permissions and those of its folder",
    )


def _metadata(file: BinaryIO, path: Path) -> dict[str, Scalar]:
    """Key -> value of every pair that is a number or a short string."""
    start = file.read(64)
    if not start:
        raise MissingFile("the model file is empty", where=str(path), advice=_AGAIN)
    if start[:4] != b"GGUF":
        raise _not_gguf(start, path)
    file.seek(0, 2)
    reader = _Reader(file, file.tell())
    version = reader.number("I")
    if version not in (2, 3):
        raise MissingFile(f"GGUF version {version} is not supported", where=str(path), advice="convert the model again")
    reader.number("Q")  # tensors
    pairs: dict[str, Scalar] = {}
    for _ in range(reader.number("Q")):
        key = reader.text(_LONGEST_KEY)
        if key is None:
            raise _Damaged("a key of impossible length")
        value = reader.value(reader.number("I"))
        if value is not None:
            pairs[key] = value
    return pairs


def _not_gguf(start: bytes, path: Path) -> MissingFile:
    looks, advice = "not a GGUF file", "llama-server loads GGUF files only"
    # A safetensors file starts with the length of its JSON header.
    if len(start) > 8 and start[8:9] == b"{" and int.from_bytes(start[:8], "little") < 2**32:
        looks, advice = "a safetensors file", "convert the model to GGUF first"
    for magic, name, help_ in _LOOKS_LIKE:
        if start.lstrip().lower().startswith(magic.lower()):
            looks, advice = name, help_
    return MissingFile(f"the model file is {looks}", where=str(path), advice=advice)


def _quantisation(file_type: Scalar | None) -> str | None:
    """The usual name of a `general.file_type`, such as `Q4_K_M`; None if it is absent or too new to be known."""
    if not isinstance(file_type, int):
        return None
    from gguf.constants import LlamaFileType  # here, because the package takes a third of a second to import

    try:
        return str(LlamaFileType(file_type & ~_GUESSED).name).removeprefix("MOSTLY_").removeprefix("ALL_")
    except ValueError:
        return None


class _Reader:
    """Steps through the metadata and never past the end of the file."""

    def __init__(self, file: BinaryIO, size: int) -> None:
        self._file, self._size = file, size
        self._file.seek(4)  # behind the magic

    def number(self, form: str) -> int:
        return int(self._scalar(form))

    def text(self, longest: int) -> str | None:
        """The next string, or None if it is longer than is wanted."""
        length = self.number("Q")
        if length > longest:
            self._skip(length)
            return None
        return self._take(length).decode(errors="replace")

    def value(self, kind: int) -> Scalar | None:
        """The next value; None for an array or a long string, which are stepped over."""
        if kind == _STRING:
            return self.text(_LONGEST_KEPT)
        if kind == _ARRAY:
            self._skip_array()
            return None
        if kind not in _SCALARS:
            raise _Damaged(f"value type {kind} does not exist")
        return self._scalar(_SCALARS[kind])

    def _skip_array(self) -> None:
        kind, length = self.number("I"), self.number("Q")
        if kind == _STRING:
            # The one loop that matters for speed: a vocabulary has hundreds of thousands of strings.
            read, seek = self._file.read, self._file.seek
            for _ in range(length):
                head = read(8)
                if len(head) < 8:
                    raise _Damaged("the file ends in the middle")
                seek(min(int.from_bytes(head, "little"), self._size), 1)
            self._skip(0)
        elif kind in _SCALARS:
            self._skip(length * struct.calcsize(_SCALARS[kind]))
        else:
            raise _Damaged(f"an array of type {kind}")

    def _scalar(self, form: str) -> int | float | bool:
        (value,) = struct.unpack(f"<{form}", self._take(struct.calcsize(form)))
        assert isinstance(value, int | float)
        return value

    def _take(self, length: int) -> bytes:
        data = self._file.read(length)
        if len(data) < length:
            raise _Damaged("the file ends in the middle")
        return data

    def _skip(self, length: int) -> None:
        if length > self._size - self._file.tell():
            raise _Damaged("the file ends in the middle")
        self._file.seek(length, 1)
