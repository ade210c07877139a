"""A server that plays the part of the Hugging Face Hub, for one private repository of datasets.

Small files come from the server itself, others by a redirect to another one, which refuses tokens. It answers what
huggingface_hub's client asks to list, to download and to upload without LFS.
"""

import base64
import json
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, quote, unquote, urlsplit

from web_server import WebServer, web_server

TOKEN, REPOSITORY = "hf_secretofthetests", "datasets/user/flowers"
FORMER = "datasets/user/plants"  # the repository's name before it was renamed
COMMIT, LATER = "0123456789" * 4, "a" * 40
_API = f"/api/{REPOSITORY}"


class Hub:
    """`web`: the server itself. `main`: the current commit. `page`: entries of a page of a list. `busy`: so many of
    the next requests to the API get status 429. `lost`: whether pages of a list after the first get status 404.
    """

    lost = False

    def __init__(self, folder: Path, web: WebServer, files: WebServer) -> None:
        self.web, self.main, self.page, self.busy = web, COMMIT, 1000, 0
        self._folder, self._files = folder, files
        self.files(COMMIT).mkdir(parents=True)
        web.answer, web.posted = self._get, self._post
        files.answer = lambda path, token: (400, {}, b"") if token else None

    def files(self, commit: str) -> Path:
        """The folder with the files of a commit."""
        return self._folder / REPOSITORY / "resolve" / commit

    def api(self) -> list[str]:
        """The requests to the API, from now on without these."""
        asked = [f"{method} {path}" for method, path, _ in self.web.requests if path.startswith("/api/")]
        self.web.requests.clear()
        return asked

    def _get(self, path: str, token: str) -> Any:
        address = urlsplit(path)
        name = unquote(address.path)
        if refused := self._refused(name, token):
            return refused
        if f"/{FORMER}/" in path:
            return _renamed(path)
        if name == f"{_API}/revision/main":
            return _json({"sha": self.main, "id": "user/flowers"})
        if name.startswith(f"{_API}/tree/"):
            commit, _, folder = name.removeprefix(f"{_API}/tree/").partition("/")
            return self._tree(self.main if commit == "main" else commit, folder, parse_qs(address.query))
        if name.startswith("/api/"):
            return 404, {}, b""
        name = name.replace("/resolve/main/", f"/resolve/{self.main}/")
        file = self._folder / name.lstrip("/")
        if not file.is_file():
            return 404, {}, b""
        if name.endswith(".json"):
            return None
        head = {"X-Repo-Commit": name.split("/")[5], "X-Linked-ETag": '"linked"'}
        head |= {"X-Linked-Size": str(file.stat().st_size), "Location": self._files.url + quote(name)}
        return 302, head, b""

    def _refused(self, name: str, token: str) -> Any:
        if token != f"Bearer {TOKEN}":
            return 401, {}, b""
        if name.startswith("/api/") and self.busy:
            self.busy -= 1
            return 429, {"Retry-After": "0"}, b""
        return None

    def _tree(self, commit: str, folder: str, query: dict[str, list[str]]) -> Any:
        top = self.files(commit)
        if not (top / folder).is_dir():
            return 404, {}, b""
        found = (top / folder).rglob("*") if query.get("recursive") == ["true"] else (top / folder).iterdir()
        begin = int(query.get("cursor", ["0"])[0])
        if begin and self.lost:
            return 404, {}, b""
        entries = [_entry(top, path) for path in sorted(found)]
        head = {}
        if len(entries) > begin + self.page:
            more = f"recursive={query['recursive'][0]}&cursor={begin + self.page}"
            head["Link"] = f'<{self.web.url}{_API}/tree/{commit}/{quote(folder)}?{more}>; rel="next"'
        return _json(entries[begin : begin + self.page], head)

    def _post(self, path: str, token: str, body: bytes) -> Any:
        if refused := self._refused(path, token):
            return refused
        if f"/{FORMER}/" in path:
            return _renamed(path)
        if path.startswith(f"{_API}/paths-info/"):
            top = self.files(path.rpartition("/")[2])
            found = [top / name for name in parse_qs(body.decode())["paths"]]
            return _json([_entry(top, file) for file in found if file.exists()])
        if path.startswith(f"{_API}/preupload/"):
            files = [one["path"] for one in json.loads(body)["files"]]
            return _json({"files": [{"path": one, "uploadMode": "regular", "shouldIgnore": False} for one in files]})
        if path.startswith(f"{_API}/commit/"):
            shutil.copytree(self.files(self.main), self.files(LATER))
            self.main = LATER
            for line in map(json.loads, body.splitlines()):
                if line["key"] == "file":
                    file = self.files(LATER) / line["value"]["path"]
                    file.parent.mkdir(parents=True, exist_ok=True)
                    file.write_bytes(base64.b64decode(line["value"]["content"]))
            there = f"{self.web.url}/{REPOSITORY}/commit/{LATER}"
            return _json({"success": True, "commitOid": LATER, "commitUrl": there, "hookOutput": ""})
        return (200, {}, b"{}") if path.startswith("/api/validate-yaml") else (404, {}, b"")


def _entry(top: Path, path: Path) -> dict[str, Any]:
    name = {"path": path.relative_to(top).as_posix(), "oid": "0" * 40}
    return name | ({"type": "file", "size": path.stat().st_size} if path.is_file() else {"type": "directory"})


def _renamed(path: str) -> tuple[int, dict[str, str], bytes]:
    return 307, {"Location": path.replace(FORMER, REPOSITORY)}, b""


def _json(value: Any, head: dict[str, str] | None = None) -> tuple[int, dict[str, str], bytes]:
    return 200, {"Content-Type": "application/json", **(head or {})}, json.dumps(value).encode()


@contextmanager
def hub_server(folder: Path) -> Iterator[Hub]:
    """Serve a repository whose commits are in `folder`, until the block ends."""
    with web_server(folder) as files, web_server(folder) as web:
        yield Hub(folder, web, files)
