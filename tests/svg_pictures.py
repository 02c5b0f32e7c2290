# SPDX-License-Identifier: Apache-2.0
"""What an SVG of gnuplot shows, in nominal pixels from the top left: texts with the boxes they take, samples
(markers), marks of tics, filled areas. Widths of texts are those of DejaVu Sans, which Debian's `sans-serif` is and
which is wider than most."""
import functools
import pathlib
import re
from dataclasses import dataclass, field

from figure_files import SVG, read_svg

XLINK = "{http://www.w3.org/1999/xlink}href"
PLACE = re.compile(r"translate\(([-\d.]+),([-\d.]+)\)(?: rotate\(([-\d.]+)\))?(?: scale\(([-\d.]+)\))?")
POINT = re.compile(r"([-\d.]+),([-\d.]+)")


@functools.cache
def font(size):
    from matplotlib import get_data_path
    from PIL import ImageFont
    return ImageFont.truetype(pathlib.Path(get_data_path()) / "fonts" / "ttf" / "DejaVuSans.ttf", size)


def width_of(text, size):
    return font(100).getlength(text) * size / 100


def color_of(text):
    """'#rrggbb' of what gnuplot writes; "" for none."""
    found = re.match(r"rgb\(\s*(\d+),\s*(\d+),\s*(\d+)\)", text or "")
    return "#%02x%02x%02x" % tuple(map(int, found.groups())) if found else (text or "").lower()


@dataclass
class Text:
    text: str
    x: float  # of its anchor, and the baseline
    y: float
    turn: float
    size: float
    anchor: str
    color: str
    width: float

    @property
    def box(self):
        """left, top, right, bottom, of lower-case letters with room for the others; None if it slants."""
        start = {"start": 0, "middle": -self.width / 2, "end": -self.width}[self.anchor]
        if self.turn == 0:
            return self.x + start, self.y - 0.75 * self.size, self.x + start + self.width, self.y + 0.2 * self.size
        if self.turn == 270:  # up
            return self.x - 0.75 * self.size, self.y - start - self.width, self.x + 0.2 * self.size, self.y - start
        return None

    @property
    def middle(self):
        """Between the base line and the top of its capitals."""
        return self.y - 0.365 * self.size


@dataclass
class Sample:
    point: str
    x: float
    y: float
    size: float
    color: str


@dataclass
class Area:
    color: str
    points: list
    pattern: bool = False

    @property
    def box(self):
        xs, ys = zip(*self.points, strict=True)
        return min(xs), min(ys), max(xs), max(ys)


@dataclass
class Picture:
    width: float
    height: float
    background: str
    texts: list = field(default_factory=list)
    samples: list = field(default_factory=list)
    marks: list = field(default_factory=list)  # x0, y0, x1, y1 of straight lines
    areas: list = field(default_factory=list)
    lines: list = field(default_factory=list)  # (colour, points)

    def words(self):
        return [t.text for t in self.texts]

    def find(self, text):
        return [t for t in self.texts if t.text == text]

    def legend(self):
        """(sample, text) of entries: the text that begins right of a sample, on its line."""
        entries = []
        for sample in self.samples:
            beside = [t for t in self.texts if t.anchor == "start" and t.turn == 0
                      and 4 < t.x - sample.x < 16 and abs(t.middle - sample.y) < 5]
            if beside:
                entries.append((sample, min(beside, key=lambda t: t.x)))
        return entries


def read_text(group, element):
    place = PLACE.match(group.get("transform"))
    size, width = float(group.get("font-size")), 0.0
    for part in element.iter(SVG + "tspan"):
        width += width_of(part.text or "", float(part.get("font-size") or size))
    return Text("".join(element.itertext()), float(place[1]), float(place[2]), float(place[3] or 0) % 360, size,
                group.get("text-anchor"), color_of(group.get("fill")), width)


def read_picture(path):
    root = read_svg(path)
    width, height = map(float, root.get("viewBox").split()[2:])
    page = next(root.iter(SVG + "rect"))
    picture = Picture(width, height, color_of(page.get("fill")))
    inside = {id(e) for d in root.iter(SVG + "defs") for e in d.iter()}
    for group in root.iter(SVG + "g"):
        element = group.find(SVG + "text")
        if element is not None and group.get("transform"):
            picture.texts.append(read_text(group, element))
    for element in root.iter():
        if id(element) in inside:
            continue
        if element.tag == SVG + "use":
            place = PLACE.match(element.get("transform"))
            picture.samples.append(Sample(element.get(XLINK)[1:], float(place[1]), float(place[2]),
                                          float(place[4] or 1), color_of(element.get("color"))))
        elif element.tag == SVG + "polygon":
            points = [(float(x), float(y)) for x, y in POINT.findall(element.get("points"))]
            fill = element.get("fill") or ""
            picture.areas.append(Area(color_of(fill), points, fill.startswith("url")))
        elif element.tag == SVG + "path" and element.get("d"):
            for part in re.findall(r"M[^M]*", element.get("d")):
                points = [(float(x), float(y)) for x, y in POINT.findall(part)]
                if len(points) == 2:
                    picture.marks.append((*points[0], *points[1]))
                picture.lines.append((color_of(element.get("stroke")), points))
    return picture


def overlap(one, two):
    """How far two boxes lie over one another, the lesser of both directions."""
    across = min(one[2], two[2]) - max(one[0], two[0])
    down = min(one[3], two[3]) - max(one[1], two[1])
    return min(across, down)
