# SPDX-License-Identifier: Apache-2.0
"""Names from outside may hold anything. Whatever they hold, it is shown as text, after what figure/figure.h documents: control
characters become spaces, what is not UTF-8 U+FFFD, what is too long ends in an ellipsis, and "]]>" and "\\U+" are kept apart.
What no font has is a question mark in pictures, and itself in an SVG."""
import random

import pytest

from drawn_studies import SIZES
from figure_files import HOSTILE, NO_PICTURES, draw_texts, drawn, labels_of, needs_gnuplot, sketch, svg_texts
from made_tables import make_heads, write_results

LIMITS = {"title": 60, "label": 60, "legend": 60, "tic": 32}
MISSING = "\U000f1234"  # of a private plane: no font has it

ALONE = [chr(c) for c in range(1, 0x80)]
KNOWN = [
    "a\"><script>alert(1)</script>", "'; system \"touch created\"; '", "=cmd()", "' . system('touch created') . '",
    "`touch created`", "$(touch created)", "'; !touch created #", "\n!touch created\n", "\n#", "\\\\", "\\'", "'\\", "''", "'''",
    "''''x", "x''''", "'{}'", "{'}", "\"'\"'", "{/Bold x", "{/=50 big}", "x^2", "x_{", "@{x}", "&{hidden}", "~a{b}", "{@_}",
    "\\U+263A", "\\U+", "\\U+0", "\\n\\t\\101\\x41", "%%", "%s%s%n", "100 %", "$1", "$HOME", "@macro", "NaN", "1e9", "-1", "",
    " ", "  a  b  ", "\r\n", "a\u2028b\u2029c", "a\x85b", "\u200b", "\ufeff", "\u202eabc", "e\u0301\u0302", "漢字",
    "Ωμέγα", "😀😀", "\U0010ffff", "\ufffe\uffff", "]]>", "]]]>>", "<![CDATA[", "<!--", "&amp;", "&#x41;", "</text>", "</svg>",
    "x" * 100, "'" * 100, "\\" * 100, "{" * 100, "😀" * 100, "]]>" * 40, "a # b", "; quit", "\\;", "if (1) { quit }",
    "set output 'created'", "<br>", "notitle", "columnheader(1)", "--", "a,b", "(1,2)"]
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
    texts = [t.encode() if isinstance(t, str) else t for t in texts]
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
    assert len(shown) == len(expected) and [p.name for p in folder.parent.iterdir()] == ["figures"]


@needs_gnuplot
@pytest.mark.parametrize("role", LIMITS)
def test_known_tricks(tmp_path, role):
    check(tmp_path / "figures", role, ALONE + KNOWN + BYTES)


@pytest.mark.test_all
@needs_gnuplot
@pytest.mark.parametrize("role", LIMITS)
@pytest.mark.parametrize("seed", range(2))
def test_random_texts(tmp_path, role, seed):
    check(tmp_path / "figures", role, hostile_texts(300 if role == "title" else 1000, seed))


@pytest.mark.parametrize("phases", [False, True])
def test_names_of_models_are_text(qkscope, tmp_path, phases):
    """Wherever they stand; long ones are cut."""
    rows = [row for i in range(len(HOSTILE)) for row in make_heads(f"m{i}", 3, 4, 2, seed=i)]
    models = [{"model": f"m{i}", "label": name, "family": HOSTILE[i // 2], "phase": HOSTILE[i // 3] if phases else ""}
              for i, name in enumerate(HOSTILE)]
    write_results(tmp_path, rows, models, [{"model": f"m{i}", HOSTILE[0]: i ** 2} for i in range(len(HOSTILE))], **SIZES)
    figures = sketch(qkscope, tmp_path)
    for name in ("pca-03-layer-heatmap-rq", "rotation-02-drift-correlation", "rotation-06-layer-heatmaps", "plasticity-05-score",
                 "plasticity-04-trajectory" if phases else "plasticity-06-by-model", "map-01-r-q"):
        labels = labels_of(figures / name)
        for label in HOSTILE:
            assert any(text.startswith(label[:24].strip().replace("\n", " ")) for text in labels), (name, label, labels)
    assert len(drawn(figures, "plasticity-02")) == len(HOSTILE) and not list(tmp_path.rglob("[xy]"))


# ---- characters that no font has ---------------------------------------------------------------

@needs_gnuplot
def test_a_picture_shows_question_marks(tmp_path):
    for name, text in [("missing", f"a{MISSING}b{MISSING}"), ("question", "a?b?"), ("common", "naïve Ωмега – ‘q’")]:
        assert draw_texts(tmp_path / name, [text], role="title", formats="svg").code == 0
    script = (tmp_path / "missing" / "sample.gp").read_text()
    assert f"a{MISSING}b{MISSING}" in svg_texts(tmp_path / "missing" / "sample.svg") and "'a?b?'" in script
    assert "text1" not in (tmp_path / "common" / "sample.gp").read_text(), "common characters need no variable"


def test_without_fontconfig(tmp_path):
    """It is loaded when a character asks for it. Then nothing is known of the fonts, and the picture is drawn all the same."""
    (tmp_path / "bad").mkdir()
    (tmp_path / "bad" / "libfontconfig.so.1").write_text("no library")
    for name, env in [("with", {}), ("without", {"LD_LIBRARY_PATH": tmp_path / "bad"})]:
        made = draw_texts(tmp_path / name, ["a∀b"], role="title", env={**NO_PICTURES, **env})
        assert made.code == 0, made.err
        assert ("a?b" in (tmp_path / name / "sample.gp").read_text()) == (name == "without")
