"""Packages whose code raises or returns what it may not: written to a folder as an installation leaves them."""

from pathlib import Path

# How a package fails -> code of its module, in which a reader, an engine and a command may be defined.
_GOOD = """
from types import SimpleNamespace
from shardfeed.converters import AnnotationOptions, Annotations, Evidence, Reader
from shardfeed.converters.shards.write_shard import write_shard

def recognise(look, options):
    return Evidence("odd", "odd files") if look.first((".odd",)) else None

def read(look, options):
    raise AssertionError

odd = Reader("odd", SimpleNamespace(recognise=lambda *a: recognise(*a), read=lambda *a: read(*a)), AnnotationOptions,
             suffixes=(".odd",))

class Here:
    warnings = []
    def start(self, tasks): pass
    def run(self, tasks, poll=lambda: None): return map(write_shard, tasks)
    def done(self): return 0, 0
    def stop(self): pass

def make(workers, tries):
    return Here()

HELP = "an odd command"
def add_arguments(parser): pass
def run(args): return 0
"""

_NO = "raise ValueError('bo\\x1bom\\n')"
_BROKEN_DEFS = """
class Odd(BaseException): pass
def boom(*a, **k): {0}
recognise = read = make = add_arguments = run = boom
"""

KINDS: dict[str, str] = {
    "raises at import": _NO,
    "raises BaseException at import": "class Odd(BaseException): pass\nraise Odd('bo\\x1bom')",
    "raises KeyboardInterrupt at import": "raise KeyboardInterrupt",
    "exits at import": "raise SystemExit('\\x1bbye')",
    "recurses at import": "def f(): return f()\nf()",
    "raises": _GOOD + _BROKEN_DEFS.format(_NO),
    "raises BaseException": _GOOD + _BROKEN_DEFS.format("raise Odd('bo\\x1bom')"),
    "recurses": _GOOD + _BROKEN_DEFS.format("return boom()"),
    "returns junk": _GOOD + "recognise = read = make = run = lambda *a, **k: 'ju\\x1bnk'\nHELP = 5",
    "is junk": """
class J:
    def __getattr__(self, n): raise ValueError('ju\\x1bnk')
    def __repr__(self): return '\\x1b'
odd = make = HELP = add_arguments = run = J()
""",
}
# `package` has no entry point of these kinds left: names that cannot be typed.
NAMES = ("od\x1b[31md", "od d", 'od"$(x)', "öd\x07")


def write_lying_package(site: Path, kind: str, name: str = "odd") -> None:
    """Write a package of a kind, which adds a reader, an engine and a command."""
    (site / "odd_package.py").write_text(KINDS[kind])
    info = site / "odd_package-1.5.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: odd-package\nVersion: 1.5\n")
    points = {"readers": "odd_package:odd", "engines": "odd_package:make", "commands": "odd_package"}
    lines = [f"[shardfeed.{group}]\n{name} = {point}\n" for group, point in points.items()]
    (info / "entry_points.txt").write_text("".join(lines))
