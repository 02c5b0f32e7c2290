# SPDX-License-Identifier: Apache-2.0
"""A parser that forgives nothing: browsers mend a page that is wrong, and hide that it is."""
from html.parser import HTMLParser

VOID = {"br", "img", "link", "meta", "input"}


class StrictPage(HTMLParser):
    """Every element closes, in turn; no attribute comes twice, no id either, and no element is where it may not be."""

    def __init__(self, text):
        super().__init__()
        self.open, self.ids, self.count = [], set(), 0
        self.feed(text)
        self.close()
        assert not self.open, f"left open: {self.open}"

    def handle_starttag(self, tag, attributes):
        self.handle_startendtag(tag, attributes)
        if tag not in VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag, attributes):
        names = [name for name, _ in attributes]
        assert len(names) == len(set(names)), (tag, attributes, self.getpos())
        assert not (tag in ("div", "p", "ul", "table", "figure") and "p" in self.open), (tag, self.getpos())
        assert tag != "a" or "a" not in self.open, self.getpos()
        for name, value in attributes:
            assert name != "id" or value not in self.ids, (value, self.getpos())
            self.ids |= {value} if name == "id" else set()
        self.count += 1

    def handle_endtag(self, tag):
        assert self.open and self.open.pop() == tag, (tag, self.open[-3:], self.getpos())

    def handle_data(self, data):
        assert self.open or not data.strip(), (data[:50], self.getpos())

    def unknown_decl(self, data):
        raise AssertionError((data[:50], self.getpos()))
