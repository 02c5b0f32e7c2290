# SPDX-License-Identifier: Apache-2.0
"""Colours of figures: ramps are matplotlib's, and colours that stand for different things stay
apart, also for people who see red and green alike.

ramps.txt holds matplotlib 3.11's ramps at 256 places, one line each."""
import itertools
import pathlib
import subprocess

import numpy as np
import pytest

from conftest import BUILD

# Machado, Oliveira and Fernandes (2009), severity 1, for linear RGB.
VISIONS = {
    "normal": np.eye(3),
    "protanopia": np.array([[0.152286, 1.052583, -0.204868], [0.114503, 0.786281, 0.099216],
                            [-0.003882, -0.048116, 1.051998]]),
    "deuteranopia": np.array([[0.367322, 0.860646, -0.227968], [0.280085, 0.672501, 0.047413],
                              [-0.011820, 0.042940, 0.968881]]),
}
TO_XYZ = np.array([[0.4124564, 0.3575761, 0.1804375], [0.2126729, 0.7151522, 0.0721750],
                   [0.0193339, 0.1191920, 0.9503041]])
WHITE = np.array([0.95047, 1, 1.08883])
# Differences by CIEDE2000: 2 is just seen side by side, 10 is plain at a glance.
PLAIN = 12


@pytest.fixture(scope="module")
def colors():
    path = BUILD / "tests" / "figure" / "print_colors"
    if not path.exists():
        pytest.skip(f"{path} is not built")
    done = subprocess.run([path], check=True, capture_output=True, text=True)
    return [line.split() for line in done.stdout.splitlines()]


def of_theme(colors, kind, theme):
    return [row[2:] for row in colors if row[0] == kind and row[1] == theme]


# ---- colour science --------------------------------------------------------------------------

def linear(color):
    rgb = np.array([int(color[i:i + 2], 16) for i in (1, 3, 5)]) / 255
    return np.where(rgb <= 0.04045, rgb / 12.92, ((rgb + 0.055) / 1.055) ** 2.4)


def lab(rgb):
    x = TO_XYZ @ np.clip(rgb, 0, 1) / WHITE
    f = np.where(x > 216 / 24389, np.cbrt(x), (24389 / 27 * x + 16) / 116)
    return 116 * f[1] - 16, 500 * (f[0] - f[1]), 200 * (f[1] - f[2])


def difference(one, two):
    """CIEDE2000 of two colours in Lab."""
    (l1, a1, b1), (l2, a2, b2) = one, two
    seventh = ((np.hypot(a1, b1) + np.hypot(a2, b2)) / 2) ** 7
    grey = 1.5 - 0.5 * np.sqrt(seventh / (seventh + 25.0 ** 7))
    c1, c2 = np.hypot(a1 * grey, b1), np.hypot(a2 * grey, b2)
    h1, h2 = (np.degrees(np.arctan2(b, a * grey)) % 360 for a, b in ((a1, b1), (a2, b2)))
    turn = (h2 - h1 + 180) % 360 - 180 if c1 * c2 else 0.0
    light, chroma = (l1 + l2) / 2, (c1 + c2) / 2
    hue = h1 + turn / 2 if c1 * c2 else h1 + h2
    t = (1 - 0.17 * cosine(hue - 30) + 0.24 * cosine(2 * hue) + 0.32 * cosine(3 * hue + 6)
         - 0.2 * cosine(4 * hue - 63))
    rotation = (-np.sin(2 * np.radians(30 * np.exp(-(((hue % 360) - 275) / 25) ** 2)))
                * 2 * np.sqrt(chroma ** 7 / (chroma ** 7 + 25.0 ** 7)))
    dl = (l2 - l1) / (1 + 0.015 * (light - 50) ** 2 / np.sqrt(20 + (light - 50) ** 2))
    dc = (c2 - c1) / (1 + 0.045 * chroma)
    dh = 2 * np.sqrt(c1 * c2) * np.sin(np.radians(turn / 2)) / (1 + 0.015 * chroma * t)
    return float(np.sqrt(dl ** 2 + dc ** 2 + dh ** 2 + rotation * dc * dh))


def cosine(degrees):
    return np.cos(np.radians(degrees))


def contrast(one, two):
    low, high = sorted(float(TO_XYZ[1] @ linear(color)) + 0.05 for color in (one, two))
    return high / low


def closest(colors):
    """(difference, vision, the two colours) of the two that are hardest to tell apart."""
    return min((difference(lab(matrix @ linear(one)), lab(matrix @ linear(two))), vision, one, two)
               for vision, matrix in VISIONS.items()
               for one, two in itertools.combinations(colors, 2))


def test_difference_is_the_published_one():
    """Of the test data of Sharma, Wu and Dalal (2005)."""
    assert difference((50, 2.6772, -79.7751), (50, 0, -82.7485)) == pytest.approx(2.0425, abs=1e-4)
    assert difference((22.7233, 20.0904, -46.6940), (23.0331, 14.9730, -42.5619)) == pytest.approx(2.0373, abs=1e-4)


# ---- ramps -----------------------------------------------------------------------------------

def test_ramps_are_those_of_matplotlib(colors):
    expected = dict(line.split() for line in
                    (pathlib.Path(__file__).parent / "ramps.txt").read_text().splitlines())
    ramps = {row[1]: row[2] for row in colors if row[0] == "ramp"}
    assert set(ramps) == set(expected)
    for name, text in ramps.items():
        error = np.abs(np.array(list(bytes.fromhex(text)), int)
                       - np.array(list(bytes.fromhex(expected[name])), int))
        print(f"{name}: largest error {error.max()}/255")
        assert error.size == 3 * 256 and error.max() < 3, name


@pytest.mark.parametrize("vision", VISIONS)
def test_ramps_grow_lighter_or_darker(colors, vision):
    """Order is seen from lightness alone, in print and with any colour vision."""
    for name, text in ((row[1], row[2]) for row in colors if row[0] == "ramp"):
        light = [lab(VISIONS[vision] @ linear("#" + text[i:i + 6]))[0]
                 for i in range(0, len(text), 6 * 15)]
        steps = np.diff(light)
        assert (steps > 0).all() or (steps < 0).all(), (name, light)


# ---- colours that stand for something --------------------------------------------------------

THEMES = ["paper", "screen", "dark"]


@pytest.mark.cases(3)
@pytest.mark.parametrize("theme", THEMES)
def test_colors_stay_apart(colors, theme):
    """Of series, which differ in points as well, of categories, of queries and keys."""
    series, roles = of_theme(colors, "series", theme), dict(of_theme(colors, "theme", theme))
    categories = of_theme(colors, "category", theme)[1:]  # the first is that of none, which may be the grey of "mixed"
    for found in ([row[0] for row in series], [row[0] for row in categories]):
        assert len(set(found)) == len(found) and closest(found)[0] > PLAIN, closest(found)
    assert len({row[1] for row in series}) == len(series)
    assert closest([roles["q"], roles["k"]])[0] > 35


@pytest.mark.cases(3)
@pytest.mark.parametrize("theme", THEMES)
def test_colors_show_on_the_page(colors, theme):
    """Text as WCAG AA asks (4.5), lines and areas at least plainly."""
    roles = dict(of_theme(colors, "theme", theme))
    page = roles["background"]
    assert contrast(roles["ink"], page) > 12
    assert contrast(roles["ink"], roles["box"]) > 10
    assert contrast(roles["muted"], page) >= 4.5
    for role in ("q", "k", "accent", "highlight"):
        assert contrast(roles[role], page) >= 3, role
    for color in [row[0] for kind in ("series", "category") for row in of_theme(colors, kind, theme)]:
        assert contrast(color, page) >= 2, color
