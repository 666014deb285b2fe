"""The geometry of the page's charts: from numbers to places in an SVG picture. Texts are not its business."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

#: No part of a picture is thinner than this, so that one record among millions is seen.
_THINNEST = 3.0
_GAP = 4.0
#: The height of a line of text: each part of a flow has one beside it.
_LINE = 20.0


@dataclass(frozen=True)
class Bar:
    """A bar of a chart, in units of the picture."""

    x: float
    """The place of its left side."""
    y: float
    """The place of its top, counted from the picture's top."""
    width: float
    """How wide it is."""
    height: float
    """How high it is."""


def bars(counts: Sequence[int | None], width: float, height: float) -> list[Bar | None]:
    """A bar for each count, the highest as high as the picture; a count of 0 is a line, an unknown one no bar."""
    most = max((count for count in counts if count), default=1)
    step = width / max(1, len(counts))
    found: list[Bar | None] = []
    for number, count in enumerate(counts):
        tall = 0.0 if count is None else max(1.0, height * count / most)
        bar = Bar(_short(number * step), _short(height - tall), _short(step * 0.78), _short(tall))
        found.append(None if count is None else bar)
    return found


@dataclass(frozen=True, kw_only=True)
class Band:
    """A band that flows from the whole on the left to a part on the right, in units of the picture."""

    name: str
    """The part's name."""
    count: int
    """How many the part is."""
    y: float
    """The place of the top of the part's bar, counted from the picture's top."""
    height: float
    """How high the part's bar is."""
    path: str
    """The band's outline, as the path of an SVG picture."""

    @property
    def middle(self) -> float:
        return _short(self.y + self.height / 2)


@dataclass(frozen=True)
class Flow:
    """A whole that flows to its parts."""

    whole: Bar
    """The bar of the whole."""
    bands: list[Band]
    """A band for each part that is not 0."""
    height: float
    """How high the picture is."""


def flow(parts: Sequence[tuple[str, int]], *, left: float, right: float, tall: float) -> Flow:
    """The parts that are not 0 as bands from x = ``left`` to x = ``right``; all of them together about ``tall`` high. On both
    sides a band is as thick as its count, but never thinner than can be seen."""
    shown = [(name, count) for name, count in parts if count]
    total = sum(count for _, count in shown) or 1
    thick = [max(_THINNEST, tall * count / total) for _, count in shown]
    height = sum(max(own, _LINE) for own in thick) + _GAP * max(0, len(shown) - 1)
    start, slot, bands = (height - sum(thick)) / 2, 0.0, []
    bend = (left + right) / 2
    whole = Bar(_short(left - 10), _short(start), 10, _short(max(sum(thick), _THINNEST)))
    for (name, count), own in zip(shown, thick, strict=True):
        target = slot + (max(own, _LINE) - own) / 2
        a, b, c, d = (_short(place) for place in (start, start + own, target, target + own))
        path = f"M{left} {a}C{bend} {a} {bend} {c} {right} {c}V{d}C{bend} {d} {bend} {b} {left} {b}Z"
        bands.append(Band(name=name, count=count, y=c, height=_short(own), path=path))
        start, slot = start + own, slot + max(own, _LINE) + _GAP
    return Flow(whole, bands, _short(max(height, _LINE)))


def _short(number: float) -> float:
    return round(number, 1)
