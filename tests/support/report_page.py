"""Read the HTML report in tests: its elements, its text, its sections."""

import re
from html.parser import HTMLParser

VOID_TAGS = {"meta", "br", "wbr", "input"}


class Page(HTMLParser):
    """The elements of a page; fails on a closing tag that does not match the last opened one."""

    def __init__(self, html: str) -> None:
        super().__init__(convert_charrefs=True)
        self.elements: list[tuple[str, dict[str, str | None]]] = []
        self._texts: list[str] = []
        self._open: list[str] = []
        self.feed(html)
        self.close()
        self.text = "".join(self._texts)
        assert self._open == []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.append((tag, dict(attrs)))
        if tag not in VOID_TAGS:
            self._open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.append((tag, dict(attrs)))

    def handle_endtag(self, tag: str) -> None:
        assert self._open.pop() == tag

    def handle_data(self, data: str) -> None:
        if not {"style", "script"} & set(self._open):
            self._texts.append(data)

    def attributes(self, name: str) -> list[str]:
        return [str(attrs[name]) for _, attrs in self.elements if name in attrs]

    def of_class(self, tag: str, name: str) -> int:
        return sum(1 for each, attrs in self.elements if each == tag and name in (attrs.get("class") or "").split())

    def tags(self) -> set[str]:
        return {tag for tag, _ in self.elements}


def section_text(html: str, name: str) -> str:
    """The text of one section of the page; empty if the page does not have it."""
    found = re.search(rf'<section id="{name}"[^>]*>.*?(?=<section id="|</main>)', html, re.DOTALL)
    return "" if found is None else re.sub(r"\s+", " ", re.sub(r"<[^>]+>", " ", found[0]))


def without_style(html: str) -> str:
    """A page without its style sheet and its script."""
    html = re.sub(r"<(style|script)>.*?</\1>", r"<\1></\1>", html, flags=re.DOTALL)
    return re.sub(r"sha256-[A-Za-z0-9+/=]+", "sha256-", html)
