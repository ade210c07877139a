"""A server that plays the part of the Hugging Face Hub, for one private repository of datasets.

Small files come from the server itself, others by a redirect to another one, which refuses tokens. It answers what
huggingface_hub's client asks to list, to download and to commit, with large files sent by LFS, to the other server, but
not by Xet.
"""

import base64
import hashlib
import json
import shutil
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, quote, unquote, urlsplit

import pytest

from web_server import WebServer, web_server

TOKEN, REPOSITORY = "hf_secretofthetests", "datasets/user/flowers"
FORMER = "datasets/user/plants"  # the repository's name before it was renamed
COMMIT, LATER = "0123456789" * 4, "a" * 40
_API = f"/api/{REPOSITORY}"


class Hub:
    """`web`: the server itself. `main`: the current commit. `page`: entries of a page of a list. `busy`: so many of
    the next requests to the API get status 429. `lost`: whether pages of a list after the first get status 404.

    `branches`: the commit of each other branch. `ignored`: names that a .gitignore of the repository has. `refuses`:
    what is answered to a commit, instead of making it.
    """

    lost = False
    large = 1000  # bytes of a file that is sent by LFS

    def __init__(self, folder: Path, web: WebServer, files: WebServer) -> None:
        self.web, self.main, self.page, self.busy = web, COMMIT, 1000, 0
        self.branches, self.ignored = dict[str, str](), set[str]()
        self.refuses: tuple[int, dict[str, str], bytes] | None = None
        self._folder, self._files = folder, files
        self.files(COMMIT).mkdir(parents=True)
        (folder / "lfs").mkdir()
        web.answer, web.posted = self._get, self._post
        files.answer = lambda path, token: (400, {}, b"") if token else None
        files.posted = self._stored

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
        if name.startswith(f"{_API}/revision/") and (commit := self._commit(name.rpartition("/")[2])):
            return _json({"sha": commit, "id": "user/flowers"})
        if name.startswith(f"{_API}/tree/"):
            commit, _, folder = name.removeprefix(f"{_API}/tree/").partition("/")
            return self._tree(self._commit(commit) or commit, folder, parse_qs(address.query))
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
            asked = json.loads(body)
            ignored = self.ignored if asked.get("gitIgnore") is None else ()
            return _json({"files": [self._mode(one, ignored) for one in asked["files"]]})
        if path == f"/{REPOSITORY}.git/info/lfs/objects/batch":
            return _json({"objects": [self._wanted(one) for one in json.loads(body)["objects"]]})
        if path == "/lfs/verify":
            one = json.loads(body)
            file = self._folder / "lfs" / one["oid"]
            return (200 if file.is_file() and file.stat().st_size == one["size"] else 404), {}, b"{}"
        if path.startswith(f"{_API}/commit/"):
            return self.refuses or self._committed(unquote(path.rpartition("/")[2]), body)
        if path == "/api/repos/create":
            there = {"url": f"{self.web.url}/{REPOSITORY}", "error": "You already created this repo"}
            return 409, {}, json.dumps(there).encode()
        if path.startswith(f"{_API}/branch/"):
            self.branches[path.rpartition("/")[2]] = self.main
            return 200, {}, b"{}"
        return (200, {}, b"{}") if path.startswith("/api/validate-yaml") else (404, {}, b"")

    def _commit(self, revision: str) -> str:
        """The commit of a branch; "" if there is none."""
        return self.main if revision == "main" else self.branches.get(revision, "")

    def _mode(self, file: dict[str, Any], ignored: Any) -> dict[str, Any]:
        """How a file of a request is sent; a file of the same content need not be, if its hash is given."""
        path, there = file["path"], self.files(self.main) / file["path"]
        large = file["size"] >= self.large
        answer = {"path": path, "uploadMode": "lfs" if large else "regular", "shouldIgnore": path in ignored}
        if not there.is_file():
            return answer
        content = there.read_bytes()
        git = hashlib.sha1(f"blob {len(content)}\0".encode() + content)
        return answer | {"oid": (hashlib.sha256(content) if large else git).hexdigest()}

    def _wanted(self, one: dict[str, Any]) -> dict[str, Any]:
        """Where an object is sent to, unless it is there."""
        if (self._folder / "lfs" / one["oid"]).is_file():
            return one
        verify = {"href": f"{self.web.url}/lfs/verify"}
        return one | {"actions": {"upload": {"href": f"{self._files.url}/lfs/{one['oid']}"}, "verify": verify}}

    def _stored(self, path: str, token: str, body: bytes) -> tuple[int, dict[str, str], bytes]:
        """Store an object, for which a token is refused."""
        if token or hashlib.sha256(body).hexdigest() != path.rpartition("/")[2]:
            return 400, {}, b""
        (self._folder / path.lstrip("/")).write_bytes(body)
        return 200, {}, b""

    def _committed(self, branch: str, body: bytes) -> tuple[int, dict[str, str], bytes]:
        """Make a commit: the first is LATER, each other one its digest."""
        lines, parent = [*map(json.loads, body.splitlines())], self._commit(branch)
        if lines[0]["value"].get("parentCommit", parent) != parent:
            return 412, {}, b""
        new = hashlib.sha1(parent.encode() + body).hexdigest() if self.files(LATER).exists() else LATER
        shutil.copytree(self.files(parent), self.files(new))
        for line in lines[1:]:
            value = line["value"]
            file = self.files(new) / value["path"]
            file.parent.mkdir(parents=True, exist_ok=True)
            if line["key"] == "file":
                file.write_bytes(base64.b64decode(value["content"]))
            elif line["key"] == "lfsFile":
                shutil.copy(self._folder / "lfs" / value["oid"], file)
            else:
                file.unlink()
        if branch == "main":
            self.main = new
        else:
            self.branches[branch] = new
        there = f"{self.web.url}/{REPOSITORY}/commit/{new}"
        return _json({"success": True, "commitOid": new, "commitUrl": there, "hookOutput": ""})


def _entry(top: Path, path: Path) -> dict[str, Any]:
    name = {"path": path.relative_to(top).as_posix(), "oid": "0" * 40}
    return name | ({"type": "file", "size": path.stat().st_size} if path.is_file() else {"type": "directory"})


def _renamed(path: str) -> tuple[int, dict[str, str], bytes]:
    return 307, {"Location": path.replace(FORMER, REPOSITORY)}, b""


def _json(value: Any, head: dict[str, str] | None = None) -> tuple[int, dict[str, str], bytes]:
    return 200, {"Content-Type": "application/json", **(head or {})}, json.dumps(value).encode()


def speak_lfs(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Have the Hub's own client upload by LFS, which this server speaks, and not by Xet; `home`: for its files.

    The client reads the variables once, when it is imported.
    """
    monkeypatch.setenv("HF_HUB_DISABLE_XET", "1")
    monkeypatch.setenv("HF_HOME", str(home))
    if "huggingface_hub" in sys.modules:
        monkeypatch.setattr("huggingface_hub.constants.HF_HUB_DISABLE_XET", True)


@contextmanager
def hub_server(folder: Path) -> Iterator[Hub]:
    """Serve a repository whose commits are in `folder`, until the block ends."""
    with web_server(folder) as files, web_server(folder) as web:
        yield Hub(folder, web, files)
