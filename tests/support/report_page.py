"""The page of a report, as a browser would parse it."""

import base64
import hashlib
import re
from html.parser import HTMLParser
from itertools import pairwise


class ReportPage(HTMLParser):
    """The tags and texts of a page, checked: every tag is ours, it asks for nothing, a screen reader can read it."""

    def __init__(self, content: str) -> None:
        super().__init__()
        self.text = ""
        self.pictures = 0
        self.policy = ""
        self.inside: list[str] = []
        self.own: dict[str, str] = {}
        self.heads = 0
        self.levels = [0]  # of headings
        self.ids: list[str] = []
        self.named_by: list[str] = []
        self.feed(content)
        self.close()
        assert len(content) < 20_000_000
        for name, text in self.own.items():
            digest = base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()
            assert f"{name}-src 'sha256-{digest}'" in self.policy
        assert set(self.own) == {"script", "style"}
        assert "default-src 'none'" in self.policy
        assert self.heads == 1
        assert all(deeper <= level + 1 for level, deeper in pairwise(self.levels)), self.levels
        assert len(self.ids) == len(set(self.ids))
        assert set(self.named_by) <= set(self.ids)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        given = {name: value or "" for name, value in attrs}
        assert not [name for name in given if name.startswith("on") or name == "style"], given
        for name in ("src", "href"):
            assert re.match(r"(data:|#|about:srcdoc$)", given.get(name, "#")), given
        assert tag != "img" or {"alt", "src"} <= given.keys()
        self.pictures += tag == "img"
        self.heads += tag == "h1"
        if given.get("http-equiv") == "Content-Security-Policy":
            self.policy = given["content"]
        self._check_reading(tag, given)
        self.inside.append(tag)
        if tag in self.own:
            raise AssertionError(f"a second {tag}")

    def _check_reading(self, tag: str, given: dict[str, str]) -> None:
        """Headings in order, and a name for each thing that is not text."""
        if re.fullmatch("h[1-6]", tag):
            self.levels.append(int(tag[1]))
        self.ids += [given["id"]] if "id" in given else []
        self.named_by += [given[name] for name in ("aria-labelledby", "data-table") if name in given]
        self.named_by += [given["href"][1:]] if tag == "a" else []
        assert tag != "th" or given["scope"] in ("row", "col")
        assert tag != "input" or self.inside[-1] == "label"
        assert tag != "button" or given["type"] == "button"
        assert given.get("class") != "chart" or given["aria-label"]
        assert tag != "svg" or (given["role"], bool(given["aria-label"])) == ("img", True)
        assert tag not in ("section", "article", "nav") or {"aria-label", "aria-labelledby"} & given.keys()
        if given.get("tabindex") == "0":  # scrolls, and can be reached by keyboard
            assert given["role"] in ("region", "group")
            assert given["aria-label"]

    def handle_endtag(self, tag: str) -> None:
        self.inside.append("")

    def handle_data(self, data: str) -> None:
        if self.inside and self.inside[-1] in ("script", "style"):
            self.own[self.inside[-1]] = data
        else:
            self.text += data
