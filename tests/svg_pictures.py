# SPDX-License-Identifier: Apache-2.0
"""What a drawing shows, in nominal pixels from the top left: texts with the boxes they take, and shapes by colour. Widths are those
that the program reckons with (src/draw/text.c), which tests/draw compares with a font."""
import functools
import re
from dataclasses import dataclass

from conftest import ROOT
from figure_files import SVG, read_svg, shown

SMALLER = 0.7


@functools.cache
def widths():
    text = (ROOT / "src" / "draw" / "text.c").read_text()
    tables = [[int(n) for n in re.findall(r"\d+", re.search(rf"{name}\[\] = \{{(.*?)\}}", text, re.S)[1])] for name in ("ASCII", "LATIN")]
    return {chr(first + i): width / 100 for first, table in zip((0x20, 0xa0), tables) for i, width in enumerate(table)}


def width_of(text, size):
    return size * sum(widths().get(c, 0.75) for c in text)


@dataclass
class Text:
    text: str
    x: float  # of its anchor
    y: float  # of its line
    size: float
    anchor: str
    turn: float
    color: str
    width: float

    @property
    def box(self):
        """left, top, right, bottom; None if it slants."""
        start = {"start": 0, "middle": -self.width / 2, "end": -self.width}[self.anchor]
        if self.turn == 0:
            return self.x + start, self.y - 0.75 * self.size, self.x + start + self.width, self.y + 0.2 * self.size
        if self.turn == -90:  # up; it turns about its middle, of which its line is 0.35 of the size away
            return self.x - 0.4 * self.size, self.y - 0.35 * self.size - start - self.width, self.x + 0.55 * self.size, self.y - 0.35 * self.size - start
        return None


def width_of_parts(element, size):
    own = float(element.get("font-size") or size)
    width = width_of(element.text or "", own)
    for part in element:
        if part.tag != SVG + "title":
            width += width_of_parts(part, size) + float(part.get("dx") or 0)
        width += width_of(part.tail or "", own)
    return width


class Picture:
    def __init__(self, path):
        self.root = read_svg(path)
        self.width, self.height = map(float, self.root.get("viewBox").split()[2:])
        self.texts = [self.text(element) for element in self.root.iter(SVG + "text")]

    @staticmethod
    def text(element):
        size, turn = float(element.get("font-size")), re.match(r"rotate\((\S+)", element.get("transform") or "")
        return Text(shown(element), float(element.get("x")), float(element.get("y")), size, element.get("text-anchor") or "start",
                    float(turn[1]) if turn else 0, element.get("fill"), width_of_parts(element, size))

    def words(self):
        return [text.text for text in self.texts]

    def shapes(self, tag):
        """Attributes of all elements of a name: rect, circle, path, image."""
        return [element.attrib for element in self.root.iter(SVG + tag)]

    def colors(self, tag):
        return [element.get("fill") if element.get("fill") != "none" else element.get("stroke") for element in self.root.iter(SVG + tag)]

    def legend(self):
        """{name: colour} of the legend: a shape right before a text that begins behind it, on its line."""
        found, before = {}, None
        for element in self.root.iter():
            if element.tag == SVG + "text" and before is not None and element.get("text-anchor") is None:
                found[shown(element)] = before.get("fill") if before.get("fill") != "none" else before.get("stroke")
            before = element if element.tag in (SVG + "rect", SVG + "circle", SVG + "path") else None
        return found

    def dashed(self):
        """(x0, y0, x1, y1) of dashed lines."""
        return [tuple(map(float, re.findall(r"-?[\d.]+", e.get("d")))) for e in self.root.iter(SVG + "path") if e.get("stroke-dasharray")]

    def faults(self):
        """Texts that leave the picture or run into one another."""
        shown_texts = [t for t in self.texts if t.box and t.text.strip()]
        out = []
        for i, text in enumerate(shown_texts):
            left, top, right, bottom = text.box
            if left < -1 or top < -1 or right > self.width + 1 or bottom > self.height + 1:
                out.append(("leaves the picture", text.text))
            out += [("run into one another", text.text, other.text) for other in shown_texts[i + 1:] if overlap(text.box, other.box) > 1.5]
        return out


def overlap(one, two):
    """How far two boxes lie over one another, the lesser of both directions."""
    across = min(one[2], two[2]) - max(one[0], two[0])
    down = min(one[3], two[3]) - max(one[1], two[1])
    return min(across, down)
