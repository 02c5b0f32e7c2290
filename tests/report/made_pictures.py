# SPDX-License-Identifier: Apache-2.0
"""A picture of as many bytes as a collage of a real model has, for tests and benchmarks of the report."""


def collage():
    """Two clouds of shaded points, at twice the nominal size. ImportError without NumPy and Pillow."""
    import numpy
    from PIL import Image
    rng = numpy.random.default_rng(7)
    pixels = numpy.full((1200, 2074, 3), 255, "uint8")
    for center, tint in ((500, (33, 113, 181)), (1500, (203, 24, 29))):
        where = rng.normal((600, center), (170, 260), (40_000, 2)).astype(int).clip((2, 2), (1196, 2070))
        shade = rng.uniform(0.2, 1, (len(where), 1))
        colors = (255 - shade * (255 - numpy.array(tint))).astype("uint8")
        for dy in range(3):
            for dx in range(3):
                pixels[where[:, 0] + dy, where[:, 1] + dx] = colors
    return Image.fromarray(pixels)
