"""A fragment of HTML, and what it shows."""

from html.parser import HTMLParser


class Page(HTMLParser):
    """The tags and the text of a fragment."""

    def __init__(self, fragment: str) -> None:
        super().__init__()
        self.tags: list[str] = []
        self.open: list[str] = []
        self.pictures: list[str] = []
        self.text: list[str] = []
        self.feed(fragment)
        self.close()
        assert self.open == []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        if tag == "img":
            assert [name for name, _ in attrs] == ["alt", "src"]
            self.pictures.append(str(attrs[1][1]))
        else:
            assert attrs == []
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.text.append(data)
