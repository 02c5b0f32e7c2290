# SPDX-License-Identifier: Apache-2.0
"""Looking into the files of a figure: texts of an SVG, and SVG files that are alike."""
import re
import xml.etree.ElementTree as ElementTree

SVG = "{http://www.w3.org/2000/svg}"
NUMBER = re.compile(r"-?\d+\.?\d*(?:e[-+]?\d+)?")


def svg_texts(path):
    """The texts that an SVG shows, in order, without their markup."""
    return ["".join(text.itertext()) for text in read_svg(path).iter(SVG + "text")]


def read_svg(path):
    return ElementTree.parse(path).getroot()


def skeleton(root):
    """(everything but numbers, the numbers) of an SVG, in order; texts count as a whole, so that a
    number that is shown has to be the same."""
    words, numbers = [], []
    for element in root.iter():
        words.append(element.tag)
        for name, value in sorted(element.items()):
            words.append(f"{name}={NUMBER.sub('#', value)}")
            numbers += map(float, NUMBER.findall(value))
        words += [(element.text or "").strip(), (element.tail or "").strip()]
    return words, numbers
