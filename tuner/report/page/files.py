"""Writes a report: `report.html`, `report.md` and the pictures as PNG."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

from tuner.domain.errors import BadInput
from tuner.report.page.document import Document
from tuner.report.page.html import MARK, html
from tuner.report.page.markdown import markdown
from tuner.report.page.png import all_pictures, png, why_no_png


@dataclass(frozen=True)
class Written:
    """What lies in the folder now."""

    page: Path
    text: Path
    pictures: list[Path]
    no_pictures: str | None
    """Why there are none."""


def write(document: Document, folder: Path) -> Written:
    """Into `folder`, which is made where it is missing; what an earlier report left there is replaced.

    Raises:
        BadInput: files of these names are there that no report has written.
    """
    folder.mkdir(parents=True, exist_ok=True)
    page, text = folder / "report.html", folder / "report.md"
    _clear(page, text)
    page.write_text(html(document), encoding="utf-8")
    missing = why_no_png()
    files: dict[str, Path] = {}
    for picture in all_pictures(document) if missing is None else ():
        files[picture.key] = folder / f"{_file_name(picture.key)}.png"
        files[picture.key].write_bytes(png(picture, document))
    names = {key: file.name for key, file in files.items()}
    text.write_text(markdown(document, names), encoding="utf-8")
    return Written(page, text, list(files.values()), missing)


def _clear(page: Path, text: Path) -> None:
    """Makes sure that what lies there is an earlier report, and takes away the pictures that it names."""
    is_report = page.is_file() and MARK in page.read_text(encoding="utf-8", errors="replace")[:1000]
    foreign = next((file for file in (page, text) if file.exists() and not is_report), None)
    if foreign is not None:
        raise BadInput(
            "This file was not written by `tuner report`", where=str(foreign), advice="name another folder with --out"
        )
    if text.is_file():
        for name in re.findall(r"\]\(([\w-]+\.png)\)", text.read_text(encoding="utf-8", errors="replace")):
            (text.parent / name).unlink(missing_ok=True)


def _file_name(key: str) -> str:
    """A profile or a device may be named as no file can be."""
    return "".join(letter if letter.isalnum() or letter in "-_" else "-" for letter in key)
