"""The report's pictures as PNG, through resvg (the Rust renderer, PyPI's resvg-py), where that is installed."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from importlib.util import find_spec

from tuner.report.page.colours import LIGHT, light
from tuner.report.page.document import Document, Picture, pictures_of
from tuner.report.page.sheet import Sheet, shortened

_WIDTH = 880
_MARGIN = 24
_ZOOM = 2


def all_pictures(document: Document) -> list[Picture]:
    """Every picture of a report, in order."""
    return [picture for section in document.sections for picture in pictures_of(section.blocks)]


def why_no_png() -> str | None:
    """What is missing for PNG files, and how to get it; None where nothing is."""
    if find_spec("resvg_py") is None:
        return "no PNG files: they need resvg, which `pip install 'llm-engine-tuner[report]'` brings"
    if not _draws_letters():
        return "no PNG files: no font was found to write with; any will do, such as the package fonts-dejavu-core"
    return None


def png(picture: Picture, document: Document) -> bytes:
    """One picture on white paper, with its title and what it was measured on, twice as large as on the page."""
    sheet = Sheet(_WIDTH, light)
    top = sheet.room(40)
    sheet.text(0, top + 16, shortened(picture.title, _WIDTH, 16), size=16, bold=True)
    picture.paint(sheet)
    under = "".join(run for run in document.under if isinstance(run, str))
    bottom = sheet.room(28)
    sheet.text(0, bottom + 20, shortened(f"{document.title}: {under}", _WIDTH, 10), "muted", size=10)
    drawn = sheet.svg(picture.says, picture=True)
    width, height = _WIDTH + 2 * _MARGIN, int(sheet.height) + 2 * _MARGIN
    framed = (
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="{height}" viewBox="0 0 {width} {height}">'
        f'<g transform="translate({_MARGIN} {_MARGIN})">{drawn}</g></svg>'
    )
    return _rendered()(svg_string=framed, background=LIGHT["paper"], zoom=_ZOOM)


def _rendered() -> Callable[..., bytes]:
    import resvg_py

    render: Callable[..., bytes] = resvg_py.svg_to_bytes
    return render


@cache
def _draws_letters() -> bool:
    """Without any font resvg leaves all words out, and says nothing."""
    page = '<svg xmlns="http://www.w3.org/2000/svg" width="40" height="20">{}</svg>'
    word = '<text x="2" y="15" font-family="DejaVu Sans, Segoe UI, Helvetica, Arial, sans-serif">Ag</text>'
    return _rendered()(svg_string=page.format(word)) != _rendered()(svg_string=page.format(""))
