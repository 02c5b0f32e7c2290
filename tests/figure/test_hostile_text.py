# SPDX-License-Identifier: Apache-2.0
"""Names from outside may hold anything. Whatever they hold, gnuplot shows it as text, after what
figure/figure.h documents: control characters become spaces, what is not UTF-8 U+FFFD, what is too long
ends in an ellipsis, and "]]>" and "\\U+" are kept apart."""
import random

import pytest

from figure_files import draw_texts, needs_gnuplot, svg_texts

pytestmark = needs_gnuplot

LIMITS = {"title": 60, "label": 60, "legend": 60, "tic": 32}

ALONE = [chr(c) for c in range(1, 0x80)]
KNOWN = [
    "a\"><script>alert(1)</script>", "'; system \"touch created\"; '", "=cmd()", "' . system('touch created') . '",
    "`touch created`", "$(touch created)", "'; !touch created #", "\n!touch created\n", "\n#", "\\",
    "\\\\", "\\'", "'\\", "''", "'''", "''''x", "x''''", "'{}'", "{'}", "\"", "\"'\"'", "{", "}",
    "{/Bold x", "{/=50 big}", "x^2", "x_i", "x_{", "^", "@x", "@{x}", "&{hidden}", "~a{b}", "a~", "{@_}",
    "\\U+263A", "\\U+", "\\U+0", "\\n\\t\\101\\x41", "\\{", "%", "%%", "%d", "%s%s%n", "100 %", "%1.f",
    "$1", "$HOME", "@macro", "NaN", "nan", "inf", "1e9", "0x10", "-1", "1:2", "", " ", "  a  b  ", "\t",
    "\ta\tb", "\r\n", "a\u2028b\u2029c", "a\x85b", "\u200b", "\ufeff", "\u202eabc", "e\u0301\u0302", "漢字",
    "Ωμέγα", "😀😀", "\U0010ffff", "\ufffe\uffff", "]]>", "]]]>>", "<![CDATA[", "<!--", "-->", "&amp;",
    "&#x41;", "&", "<", ">", "</text>", "</svg>", "<?xml", "x" * 100, "'" * 100, "\\" * 100, "{" * 100,
    "😀" * 100, "]]>" * 40, "# comment", "a # b", "; quit", "a;b", "\\;", "if (1) { quit }", "plot x",
    "set output 'created'", "<br>", "title", "notitle", "columnheader(1)", "--", "-e", "a,b", "(1,2)", "[1:2]"]
BYTES = [b"\xff\xfe", b"\x80", b"a\xc3", b"\xe2\x82'", b"\xed\xa0\x80", b"\xc0\x80", b"\xf4\x90\x80\x80",
         b"\xf0\x9f\x98", b"\xc3'\xa9", b"'\xc3'", b"\\\xff", b"\x1b[31m"]


def hostile_texts(count, seed):
    """Texts by many routes: what has meaning for gnuplot, XML or a shell, stuck together."""
    rng = random.Random(seed)
    pieces = [t.encode() for t in KNOWN if len(t) < 30] + BYTES
    bytes_ = [bytes([b]) for b in range(1, 256)]
    marks = [c.encode() for c in "''''\\\\{}{}^_@&~%\"`$<>;#]"]
    texts = []
    for _ in range(count):
        source = rng.choice([pieces, bytes_, marks, marks + [b"a", b"U+41", b" "]])
        texts.append(b"".join(rng.choices(source, k=rng.randint(1, rng.choice([2, 5, 12, 70])))))
    return texts


def characters(data):
    """What UTF-8 says of the bytes, each byte it says nothing of as U+FFFD."""
    i = 0
    while i < len(data):
        for length in (1, 2, 3, 4):
            try:
                yield data[i:i + length].decode()
                i += length
                break
            except UnicodeDecodeError:
                pass
        else:
            yield "\ufffd"
            i += 1


def as_shown(data, limit):
    def shown(c):
        if c < " " or "\x7f" <= c <= "\x9f" or c in "\u2028\u2029":
            return " "
        return "\ufffd" if c in "\ufffe\uffff" else c
    text = [shown(c) for c in characters(data)]
    for i in range(len(text)):
        if text[i:i + 3] == ["\\", "U", "+"]:
            text[i] += "\u200b"
        if text[i:i + 3] == ["]", "]", ">"]:
            text[i + 2] = "\u200b>"
    return "".join(text[:limit]) + ("…" if len(text) > limit else "")


def check(folder, role, texts):
    done = draw_texts(folder, texts, role=role, formats="svg", name="t")
    assert done.code == 0, done.err
    assert sorted(p.name for p in folder.iterdir()) == ["t.dat", "t.gp", "t.svg"]
    shown = [text for text in svg_texts(folder / "t.svg") if text]
    expected = [as_shown(t, LIMITS[role]) for t in texts]
    if role == "title":  # each is the label of both axes, too
        expected = [t for t in expected for _ in range(3)]
    expected = [t for t in expected if t]
    wrong = [(e, s) for e, s in zip(expected, shown) if e != s]
    assert not wrong, wrong[:5]
    assert len(shown) == len(expected)


def as_bytes(texts):
    return [t.encode() if isinstance(t, str) else t for t in texts]


@pytest.mark.parametrize("role", LIMITS)
def test_known_tricks(tmp_path, role):
    check(tmp_path / "figures", role, as_bytes(ALONE + KNOWN + BYTES))
    assert [p.name for p in tmp_path.iterdir()] == ["figures"]


@pytest.mark.parametrize("role", LIMITS)
@pytest.mark.parametrize("seed", range(3))
def test_random_texts(tmp_path, role, seed):
    check(tmp_path / "figures", role, hostile_texts(300 if role == "title" else 1000, seed))
    assert [p.name for p in tmp_path.iterdir()] == ["figures"]


@pytest.mark.parametrize("formats", ["png", "pdf"])
@pytest.mark.parametrize("role", LIMITS)
def test_other_formats_take_them(tmp_path, role, formats):
    texts = as_bytes(ALONE + KNOWN + BYTES) + hostile_texts(100, 9)
    done = draw_texts(tmp_path, texts, role=role, formats=formats, name="t")
    assert done.code == 0, done.err
    assert sorted(p.name for p in tmp_path.iterdir()) == sorted(["t.dat", f"t.{formats}", "t.gp"])
