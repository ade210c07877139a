"""Remedies of label files: columns, cells and paths."""

import json

from remedies.typed import Box, Way, advises

LABEL, TEXT, NUMBER = (
    {f"--{kind}-column": name} for kind, name in (("label", "kind"), ("text", "kind"), ("number", "age"))
)
CLASSES = ("cat", "dog")


def photos(box: Box, count: int = 6, folder: str = "photos") -> None:
    box.images(*(f"{folder}/{i}.jpg" for i in range(count)))
    box.write("names.txt", "cat\ndog\n")


def table(head: str, *cells: str, between: str = ",") -> str:
    """A table of the photos, with these cells in turn."""
    rows = [f"{i}.jpg{between}{cells[i % len(cells)]}" for i in range(6)]
    return "\n".join([*([head] if head else []), *rows]) + "\n"


def labelled(box: Box, head: str, *cells: str, encoding: str = "utf-8") -> None:
    """The photos, and t.csv, that table of them."""
    photos(box)
    box.write("t.csv", table(head, *cells).encode(encoding))


COMMAND = "convert photos out --labels t.csv"


@advises(
    "converters/sources/rows/label_addresses.py: give --path-column",
    "convert list.csv out --dry-run",
    Way("--path-column", fill={"--path-column": "thumb"}),
)
def two_columns_of_addresses(box: Box) -> None:
    rows = [f"http://127.0.0.1:9/p{i},http://127.0.0.1:9/t{i}.jpg,{CLASSES[i % 2]}" for i in range(4)]
    box.write("list.csv", "\n".join(["page,thumb,label", *rows]) + "\n")


@advises("converters/sources/rows/label_columns.py: give --header or --no-header;", COMMAND, Way("--header", 6))
@advises(
    "converters/sources/rows/label_columns.py: --path-column NAME names the column of paths, in a file",
    COMMAND,
    Way("--path-column", 6, fill={"NAME": "where"}),
)
def a_first_row_that_may_be_a_header(box: Box) -> None:
    labelled(box, "where,kind", *CLASSES)


@advises(
    "converters/sources/rows/label_columns.py: give --header or --no-header;",
    COMMAND,
    Way("--no-header", then=Way("--max-bad", 6, listed=1, images=7)),
)
def a_first_row_without_a_file(box: Box) -> None:
    photos(box)
    box.write("t.csv", "gone,cat\n" + table("", *CLASSES))


@advises(
    "converters/sources/rows/label_columns.py: give --path-column",
    "convert photos out --labels t.jsonl",
    Way("--path-column", 6, fill={"--path-column": "where"}),
)
def a_key_of_paths_that_is_unknown(box: Box) -> None:
    photos(box)
    box.write("t.jsonl", "".join(json.dumps({"where": f"{i}.jpg", "label": CLASSES[i % 2]}) + "\n" for i in range(6)))


@advises(
    "converters/sources/rows/label_columns.py: give --delimiter or --format, or --unlabelled for images",
    COMMAND,
    Way("--unlabelled", 6),
    Way("--delimiter", 6, onto="convert photos out --labels s.csv", fill={"--delimiter": ":"}),
    Way("--format", 6, onto="convert photos out --labels l.csv", fill={"--format": "text"}),
)
def a_table_of_paths_alone(box: Box) -> None:
    photos(box)
    box.write("t.csv", "path\n" + "".join(f"{i}.jpg\n" for i in range(6)))
    box.write("s.csv", table("path:label", *CLASSES, between=":"))
    box.write("l.csv", table("", *CLASSES, between=" "))


@advises(
    "converters/sources/rows/label_columns.py: give --label-column, --text-column or --number-column",
    COMMAND,
    Way("--label-column", 6, fill=LABEL),
    Way("--text-column", 6, fill=TEXT),
    Way("--number-column", 6, fill=NUMBER),
)
def two_unknown_columns(box: Box) -> None:
    labelled(box, "path,kind,age", "cat,3", "dog,4")


@advises(
    "converters/sources/rows/label_columns.py: give --one-hot with the columns of 0 and 1 (or -1 and",
    COMMAND,
    Way("--one-hot", 6, fill={"--one-hot": "cat,dog"}),
    Way("--label-column", 6, fill={"--label-column": "cat"}),
)
def a_column_for_each_class(box: Box) -> None:
    labelled(box, "path,cat,dog", "1,0", "0,1")


@advises(
    "converters/sources/rows/label_file.py: write the path, or give the folder of these images as",
    "convert set out --labels set/l.csv",
    Way("SOURCE --labels", 4, fill={"SOURCE": "set/train", "--labels": "set/l.csv"}),
)
def ids_of_two_images(box: Box) -> None:
    box.images(*(f"set/{folder}/0{i}.jpg" for folder in ("train", "masks") for i in "abcd"))
    box.write("set/l.csv", "id,label\n" + "".join(f"0{i},{CLASSES[n % 2]}\n" for n, i in enumerate("abcd")))


@advises(
    "converters/sources/rows/label_file.py: ; several texts per image are a list in one row (JSON",
    "convert captions.csv out --images photos --text-column caption",
    Way("--reader", 6, drop="--text-column"),
)
def several_captions_of_an_image(box: Box) -> None:
    photos(box)
    box.write(
        "captions.csv", "image,caption\n" + "".join(f"{i}.jpg,a cat {i} {n}\n" for i in range(6) for n in range(2))
    )


@advises(
    "converters/sources/rows/label_file.py: give the folder that paths are relative to as SOURCE, and",
    "convert lists/t.csv out",
    Way("SOURCE --labels", 6, fill={"SOURCE": "photos", "--labels": "lists/t.csv"}),
)
def paths_relative_to_another_folder(box: Box) -> None:
    photos(box)
    box.image("lists/other.jpg")
    box.write("lists/t.csv", table("path,label", *CLASSES))


@advises(
    "converters/sources/files/text.py: save it as UTF-8, or give --encoding {}, or another encoding",
    COMMAND + " --encoding ascii",
    Way("--encoding", 6),
)
def a_table_in_latin_1(box: Box) -> None:
    labelled(box, "path,label", "Käfer", "Biene", encoding="latin-1")


@advises(
    "converters/sources/rows/label_table.py: give --format csv, tsv, jsonl or text",
    "convert photos out --labels t.dat",
    Way("--format", 6),
)
def a_table_with_an_unknown_ending(box: Box) -> None:
    photos(box)
    box.write("t.dat", table("path,label", *CLASSES))


@advises(
    "converters/sources/rows/label_table.py: write 'path label', or give --format csv where cells are",
    "convert photos out --labels l.txt",
    Way("--unlabelled", 3, onto="convert photos out --labels p.txt", images=3),
    Way("--format", 6, onto="convert photos out --labels c.txt"),
)
def a_line_without_a_label(box: Box) -> None:
    photos(box)
    box.write("l.txt", "0.jpg cat\n1.jpg\n2.jpg dog\n")
    box.write("p.txt", "0.jpg\n1.jpg\n2.jpg\n")
    box.write("c.txt", table("path,label", *CLASSES))


@advises(
    "converters/sources/rows/inference.py: ; several labels in a cell: give --label-separator {}",
    COMMAND,
    Way("--label-separator", 12),
)
def labels_in_a_cell_that_look_like_texts(box: Box) -> None:
    photos(box, 12)
    cells = ["a", "b", "a|b", "a|c", "b|c", "c", "a|b|c", "b|a", "c|a", "c|b", "a|c|b", "b|c|a"]
    box.write("t.csv", "path,note\n" + "".join(f"{i}.jpg,{cell}\n" for i, cell in enumerate(cells)))


@advises(
    "converters/sources/rows/inference.py: ; for numeric values give --number-column",
    COMMAND,
    Way("--number-column", 6, fill={"--number-column": "label"}),
)
@advises(
    "converters/sources/classes.py: give --class-names FILE: {}{} names keep the numbers, the {}",
    COMMAND,
    Way("--class-names", 6, fill={"FILE": "ten.txt"}),
    Way("--class-names", 6, fill={"FILE": "two.txt"}),
)
def labels_with_gaps(box: Box) -> None:
    labelled(box, "path,label", "3", "7")
    box.write("ten.txt", "".join(f"class{i}\n" for i in range(8)))
    box.write("two.txt", "3\n7\n")


@advises(
    "converters/sources/classes.py: give --class-names FILE: '1' to '{}' makes label 1 the class 0;",
    COMMAND,
    Way("--class-names", 6, fill={"FILE": "one.txt"}),
)
def labels_from_1(box: Box) -> None:
    labelled(box, "path,label", "1", "2")
    box.write("one.txt", "1\n2\n")


@advises(
    "converters/sources/rows/inference.py: give --encoding latin-1, or another encoding",
    "convert photos out --labels t.csv --text-column note",
    Way("--encoding", 6),
)
def texts_that_are_not_utf8(box: Box) -> None:
    labelled(box, "path,label,note", "cat,Käfer", "dog,Biene", encoding="latin-1")


@advises(
    "converters/sources/files/text.py: give --encoding {} if it is '{}', or another encoding",
    COMMAND,
    Way("--encoding", 6),
)
def cells_that_are_not_utf8(box: Box) -> None:
    labelled(box, "path,label,note", "cat,Käfer", "dög,Biene", encoding="latin-1")


@advises(
    "converters/sources/rows/inference.py: give --missing {}=nan, or another number than nan, for",
    "convert photos out --labels t.csv --number-column age",
    Way("--missing", 6),
    Way("--missing", 6, fill={"--missing": "age=-1"}),
)
def numbers_with_empty_cells(box: Box) -> None:
    labelled(box, "path,age,label", "3,cat", ",dog")


@advises(
    "converters/sources/rows/inference.py: fill it in, leave the row out, or give --missing",
    COMMAND,
    Way("--missing", 6, fill={"--missing": "label=none"}),
)
def labels_with_empty_cells(box: Box) -> None:
    labelled(box, "path,label", "cat", "")


@advises(
    "converters/sources/rows/inference.py: ; for numeric values --number-column and --missing",
    COMMAND,
    Way("--number-column --missing", 6, fill={"--number-column": "label", "--missing": "label=nan"}),
)
def numeric_labels_with_empty_cells(box: Box) -> None:
    labelled(box, "path,label", "0.5", "")


@advises(
    "converters/sources/rows/inference.py: correct it, or give --class-names with all names",
    COMMAND,
    Way("--class-names", 6, fill={"--class-names": "three.txt"}),
)
def names_and_a_number(box: Box) -> None:
    labelled(box, "path,label", "cat", "dog", "cat", "dog", "7", "cat")
    box.write("three.txt", "cat\ndog\n7\n")


@advises(
    "converters/sources/rows/inference.py: if some numbers are missing, give --number-column",
    COMMAND + " --label-column age",
    Way("--number-column", drop="--label-column", fill=NUMBER, then=Way("--missing", 6)),
)
@advises(
    "converters/sources/rows/inference.py: instead of --label-column",
    COMMAND + " --label-column age",
    Way("--number-column", drop="--label-column", fill=NUMBER, then=Way("--missing", 6)),
)
def numbers_of_which_some_are_missing(box: Box) -> None:
    labelled(box, "path,age", "3", "4", "NA")


@advises(
    "converters/sources/rows/inference.py: correct it; give --number-column for numeric values",
    COMMAND,
    Way("--number-column", 6, fill={"--number-column": "label"}),
)
def integers_and_a_fraction(box: Box) -> None:
    labelled(box, "path,label", "0", "1", "2", "0", "1", "2.5")


@advises("converters/sources/rows/evidence.py: --label-column {}", COMMAND, Way("--label-column", 6))
@advises("converters/sources/rows/evidence.py: --label-column {} for classes", COMMAND, Way("--label-column", 6))
@advises("converters/sources/rows/evidence.py: --text-column {} for texts", COMMAND, Way("--text-column", 6))
@advises(
    "converters/sources/rows/evidence.py: --group-column {} with --split for groups",
    COMMAND,
    Way("--group-column --split", 6, fill={"--split": "train=0.5,test=0.5"}),
)
@advises(
    "converters/sources/rows/evidence.py: give {}, or --unlabelled to leave it out", COMMAND, Way("--unlabelled", 6)
)
def a_column_of_patients(box: Box) -> None:
    labelled(box, "image,patient", "P1", "P1", "P2", "P2", "P3", "P3")


@advises(
    "converters/sources/rows/evidence.py: column {}: {}; --label-separator '{}' (in Python",
    "convert photos new --labels t.csv",
    Way("--label-separator", 12, onto="convert photos new --labels t.csv --replace"),
)
def classes_that_look_like_combinations(box: Box) -> None:
    photos(box, 12)
    cells = ["a", "b", "a|b", "a|c", "b|c", "c", "a|b", "b", "c", "b|c", "a|c", "a"]
    box.write("t.csv", "path,label\n" + "".join(f"{i}.jpg,{cell}\n" for i, cell in enumerate(cells)))


@advises(
    "converters/sources/rows/evidence.py: column {}: {} classes in {} rows; --text-column (in",
    "convert photos new --labels t.csv --label-column note",
    Way("--text-column", 24, fill={"--text-column": "note"}, onto="convert photos new --labels t.csv --replace"),
)
def classes_that_do_not_repeat(box: Box) -> None:
    photos(box, 24)
    box.write("t.csv", "path,note\n" + "".join(f"{i}.jpg,note {i}\n" for i in range(24)))


@advises("converters/sources/rows/evidence.py: --label-column {} for classes", COMMAND, Way("--label-column", 6))
@advises("converters/sources/rows/evidence.py: --text-column {} for texts", COMMAND, Way("--text-column", 6))
@advises(
    "converters/sources/rows/evidence.py: --group-column {} with --split for groups",
    COMMAND,
    Way("--group-column --split", 6, fill={"--split": "train=0.5,test=0.5"}),
)
def a_column_with_a_space_in_its_name(box: Box) -> None:
    labelled(box, "image,patient's id; 1", "P1", "P1", "P2", "P2", "P3", "P3")


@advises(
    "converters/sources/rows/inference.py: give --missing {}=nan, or another number than nan, for empty cells",
    COMMAND + " --number-column 'age in years'",
    Way("--missing", 6),
)
def a_number_with_spaces_in_its_name(box: Box) -> None:
    labelled(box, "path,age in years,label", "3,cat", ",dog")
