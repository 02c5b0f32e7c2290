# SPDX-License-Identifier: Apache-2.0
"""What an SVG of gnuplot shows, in nominal pixels from the top left: texts with the boxes they take, samples
(markers), marks of tics, filled areas. Widths of texts are those of DejaVu Sans, which Debian's `sans-serif` is and
which is wider than most."""
import functools
import pathlib
import re
import zlib
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


# ---- PDF -------------------------------------------------------------------------------------

def pdf_objects(path):
    """{number: text} of a PDF of cairo; from 1.18 on most of them are compressed, many in one stream."""
    objects = {int(n): body for n, body in re.findall(rb"\n(\d+) 0 obj\n(.*?)\nendobj", path.read_bytes(), re.S)}
    for stream, body in list(objects.items()):
        if b"/Type /ObjStm" not in body:
            continue
        del objects[stream]
        text, first = pdf_stream(body), int(re.search(rb"/First (\d+)", body)[1])
        places = list(map(int, text[:first].split()))
        ends = [*places[3::2], len(text) - first]
        for number, start, end in zip(places[::2], places[1::2], ends, strict=True):
            objects[number] = text[first + start:first + end]
    return objects


def pdf_page(objects):
    """The page's size in points, and what draws it."""
    page = next(body for body in objects.values() if re.search(rb"/Type /Page\b", body))
    box = re.search(rb"/MediaBox \[ ?0 0 ([\d.]+) ([\d.]+)", page)
    return tuple(map(float, box.groups())), pdf_stream(objects[int(re.search(rb"/Contents (\d+)", page)[1])])


def pdf_characters(path):
    """The characters of a PDF of cairo, sorted, without spaces."""
    objects = pdf_objects(path)
    content = pdf_page(objects)[1]
    content = re.sub(rb"/ActualText\s*<[^>]*>", b"", content)  # says again what is drawn
    fonts = {name: pdf_font(objects, int(number)) for body in objects.values()
             for name, number in re.findall(rb"/(f-\d+-\d+) (\d+) 0 R", body)}
    out, decode = [], None
    for name, literal, code in re.findall(rb"/(f-\d+-\d+) \S+ Tf|\(((?:\\.|[^\\)])*)\)|<([0-9a-f]+)>", content, re.S):
        if name:
            decode = fonts[name]
        elif literal:
            out.append(decode(re.sub(rb"\\(\d{3}|.)", lambda m: bytes([int(m[1], 8)]) if len(m[1]) == 3 else m[1],
                                     literal)))
        else:
            out.append(decode(bytes.fromhex(code.decode())))
    return sorted("".join(out).replace(" ", "").replace("ﬁ", "fi").replace("ﬂ", "fl"))


def pdf_stream(body):
    raw = re.search(rb"stream\r?\n(.*)", body, re.S)[1]
    return zlib.decompressobj().decompress(raw) if b"/FlateDecode" in body else raw


def pdf_font(objects, number):
    """What turns a string of this font into text."""
    if b"/WinAnsiEncoding" in objects[number]:
        return lambda codes: codes.decode("cp1252")
    table = pdf_stream(objects[int(re.search(rb"/ToUnicode (\d+)", objects[number])[1])])
    known = {bytes.fromhex(a.decode()): bytes.fromhex(b.decode()).decode("utf-16-be")
             for a, b in re.findall(rb"^<([0-9a-fA-F]+)> <([0-9a-fA-F]+)>$", table, re.M)}
    step = len(max(known, key=len))
    return lambda codes: "".join(known.get(codes[i:i + step], "") for i in range(0, len(codes), step))
