"""Remedies of outputs, of limits, and of the commands that make a dataset of datasets."""

from remedies.typed import Box, Way, advises

DIR_OUT = {"DIR": "out", "OUT": "new", "DATASET": "out"}


@advises(
    "converters/commit/output.py: choose another name, or give --replace", "convert images out", Way("--replace", 6)
)
@advises(
    "converters/planning/groups.py: store the column, with --text-column for example",
    "split out new --split a=0.5,b=0.5 --group-column patient",
    Way("--text-column", 6, onto="convert t.csv new", fill={"--text-column": "patient"}),
)
@advises(
    "converters/existing/split.py: choose other names, or leave --of out to divide all records",
    "split out new --split train=0.5,b=0.5 --of validation",
    Way(drop="--of", gives=6),
)
@advises(
    "converters/existing/filter.py: keys are file names such as {}; --missing-ok ignores",
    "remove out new --key daisy/0.jpg --key nothing",
    Way("--missing-ok", 5),
)
@advises(
    "converters/existing/filter.py: give --where, --keys or --min-objects for images with",
    "filter out new",
    Way("--where", 2, fill={"--where": "class == rose"}),
    Way("--keys", 1, fill={"--keys": "keys.txt"}),
)
@advises(
    "converters/existing/append.py: `shardfeed merge` joins datasets",
    "append out second new",
    Way("shardfeed merge", 8, fill={"shardfeed merge": "shardfeed merge out second new"}),
)
@advises(
    "converters/existing/append.py: {}; --new-classes adds them to the list",
    "append out other new",
    Way("--new-classes", 8),
)
@advises(
    "converters/planning/plan.py: leave it out; `shardfeed split` changes the splits of a dataset",
    "convert parts new --split train=0.9,test=0.1",
    Way(drop="--split", gives=4),
    Way("shardfeed split", 6, fill={"shardfeed split": "shardfeed split out new --split train=0.9,test=0.1"}),
)
@advises(
    "converters/conversion.py: for example --split train=0.9,test=0.1",
    "convert many.csv new --split-by hash --text-column patient",
    Way("--split", 60),
)
@advises(
    "converters/planning/groups.py: for example --split train=0.9,test=0.1",
    "convert many.csv new --group-column patient --text-column patient",
    Way("--split", 60),
)
@advises(
    "converters/planning/options.py: write {}MB, or --shards {}",
    "reshard out new --shard-size 2",
    Way("--shards", 6, drop="--shard-size"),
)
@advises(
    "converters/sources/open_source.py: `shardfeed reshard DIR OUT` rewrites its shards; `append`,",
    "convert out new",
    Way("shardfeed reshard", 6, fill=DIR_OUT),
)
@advises("tools/making.py: next: shardfeed inspect {}", "reshard out new", Way("shardfeed inspect"))
@advises(
    "tools/dataset_summary.py: {}, sizes as expected; `shardfeed verify DIR` reads every byte",
    "inspect out",
    Way("shardfeed verify", fill=DIR_OUT),
)
@advises(
    "tools/dataset_summary.py: more: --details (features, large images, classes by split),",
    "inspect out",
    Way("--details"),
    Way("--records", fill={"N": "2"}),
    Way("--json"),
)
@advises(
    "tools/next_steps.py: next, in Python:\\n{}\\nor look at it:\\n  shardfeed preview {} -o sheet.png",
    "convert images new",
    Way("shardfeed preview"),
)
@advises("tools/commands/pull_command.py: next: shardfeed inspect {}", "pull out new", Way("shardfeed inspect"))
@advises(
    "tools/commands/adopt_command.py: `shardfeed rebuild DIR` restores its indexes",
    "adopt out",
    Way("shardfeed rebuild", fill=DIR_OUT),
)
@advises("tools/parser.py: `{} --help` lists all", "convert images new --qqqq", Way("shardfeed convert --help"))
def a_dataset(box: Box) -> None:
    box.folder()
    box.folder("more", "rose", 1, 5)
    box.image("more/tulip/9.jpg")
    box.folder("other", "rose aster", 1, 7)
    box.images("parts/train/rose/1.jpg", "parts/train/aster/1.jpg", "parts/test/rose/2.jpg", "parts/test/aster/2.jpg")
    box.write("keys.txt", "rose/1.jpg\n")
    rows = [f"images/{label}/{i}.jpg,{label},P{i}" for label in ("daisy", "rose", "tulip") for i in range(2)]
    box.write("t.csv", "\n".join(["path,label,patient", *rows]) + "\n")
    box.folder("many", each=20)
    rows = [f"many/{label}/{i}.jpg,{label},P{i}" for label in ("daisy", "rose", "tulip") for i in range(20)]
    box.write("many.csv", "\n".join(["path,label,patient", *rows]) + "\n")
    assert box.type("convert images out --split train=0.5,validation=0.5") == 0
    assert box.type("convert other second") == 0


@advises(
    "converters/report.py: nothing was written; repair or remove them, leave them out",
    "convert images out",
    Way("--exclude", 6, fill={"PATTERN": "stray*"}, images=6),
    Way("--max-bad", 6, listed=2),
)
@advises(
    "converters/commit/staging.py: use the same options, or start over with --restart",
    "convert images half --quality 50 --size 8 --exclude 'stray*'",
    Way("--restart", 6, out="half", images=6),
)
def images_without_a_class(box: Box) -> None:
    box.folder()
    box.images("images/stray0.jpg", "images/stray1.jpg")
    box.write("images/rose/bad.jpg", b"\xff\xd8 no more")
    assert box.type("convert images half --exclude 'stray*'") == 3
    (box.root / "images/rose/bad.jpg").unlink()


@advises("converters/commit/staging.py: start over with --restart", "convert images half", Way("--restart", 7))
def a_damaged_plan(box: Box) -> None:
    box.folder()
    box.write("images/rose/bad.jpg", b"\xff\xd8 no more")
    assert box.type("convert images half") == 3
    (box.root / "images/rose/bad.jpg").unlink()
    box.image("images/rose/7.jpg")
    (plan,) = box.root.rglob("plan.json")
    plan.write_text("{")


@advises("converters/existing/passport.py: move it away, or give --replace", "card out", Way("--replace"))
def a_card_of_yours(box: Box) -> None:
    box.folder()
    assert box.type("convert images out") == 0
    box.write("out/README.md", "# Mine\n")
