# SPDX-License-Identifier: Apache-2.0
"""A drawing of as many bytes as a collage of a real model has, for tests and benchmarks of the report."""
import base64
import random


def collage():
    """Two panels of heads, whose points are images that do not pack."""
    noise = base64.b64encode(random.Random(7).randbytes(70_000)).decode()
    panels = "".join(f'<rect class="panel" x="{x}" y="60" width="400" height="250" fill="none"/>\n'
                     f'<text x="{x}" y="40" font-size="13" fill="#1f2328">Layer 2, Head {head}</text>\n'
                     f'<image x="{x}" y="60" width="400" height="250" href="data:image/png;base64,{noise}"/>\n'
                     for x, head in ((50, 3), (520, 1)))
    return f'<svg xmlns="http://www.w3.org/2000/svg" width="1037" height="600" viewBox="0 0 1037 600">\n{panels}</svg>\n'
