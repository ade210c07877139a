"""Finding what is left of a damaged dataset, with its manifest or without."""

import os
from collections.abc import Callable

from shardfeed.converters.existing.salvage.survivors import SurvivingShard, Survivors, read_side_file
from shardfeed.converters.existing.salvage.unlisted import unlisted_survivors
from shardfeed.errors import IntegrityError, NewerFormatError, UsageError, escape
from shardfeed.formats.registry import NATIVE
from shardfeed.manifest import Manifest, parse_manifest
from shardfeed.naming import INDEX_DIRECTORY, MANIFEST, TFDS_FILES, is_shard, label_names_file
from shardfeed.storage.local import storage_error
from shardfeed.storage.local_reading import LOCAL, FileInfo
from shardfeed.storage.storage import sizes_by_name


def look_for_survivors(directory: str, progress: Callable[[int], object]) -> Survivors:
    """What there is of the dataset in `directory`. `progress` is called with bytes read.

    With a manifest every shard of a size in it is read, without one all files that are shards by their names. Raises
    UsageError where there is no such file, NewerFormatError, StorageError.
    """
    try:
        present = set(sizes_by_name(LOCAL, directory, [INDEX_DIRECTORY]))
    except (FileNotFoundError, NotADirectoryError):
        raise UsageError(directory, "no such directory", "give the directory of a dataset") from None
    except OSError as error:
        raise storage_error(directory, "list", error) from error
    path = os.path.join(directory, MANIFEST)
    data = read_side_file(path)
    problem = "is missing"
    try:
        if data is not None:
            manifest = parse_manifest(data, path)
            if manifest.format != NATIVE.name:
                problem = f"its shards are in the format {manifest.format}, whose records only an index finds"
                remedy = "`shardfeed reshard DIR OUT --max-bad N` takes what is whole"
                remedy += "; where an index is lost, `shardfeed index DIR --rebuild` says how to do without"
                raise UsageError(directory, problem, remedy)
            return _listed(directory, manifest, present, progress)
    except NewerFormatError:
        raise
    except IntegrityError as error:
        problem = f"is damaged ({error.problem})"
    note = f"{MANIFEST} {problem}: what it said is taken from the records"
    return unlisted_survivors(directory, present, note, progress)


def _listed(directory: str, manifest: Manifest, present: set[str], progress: Callable[[int], object]) -> Survivors:
    """A shard's file is the one that holds its bytes, whatever its name; else the one of its name."""
    expected = manifest.files()
    sizes = {info.size for name, info in expected.items() if is_shard(name)}
    by_content: dict[FileInfo, list[str]] = {}
    for name in sorted(present):
        path = os.path.join(directory, name)
        if is_shard(name) and os.path.isfile(path) and os.path.getsize(path) in sizes:
            info = FileInfo.of_file(path)
            by_content.setdefault(info, []).append(name)
            progress(info.size)
    # A file that is, byte for byte, another shard is not what is left of the one whose name it has.
    listed = {info.data for split in manifest.splits.values() for info in split.shards}
    elsewhere = {name for info, names in by_content.items() if info in listed for name in names}
    found = Survivors(manifest.schema, manifest, tuple(manifest.splits), [])
    used: set[str] = set()
    for split in manifest.splits.values():
        for number, info in enumerate(split.shards):
            name = split.shard_file(number)
            same = by_content.get(info.data, [])
            file = name if name in same or not same else same[0]
            if file != name:
                found.notes.append(f"{name} is what {escape(file)} holds")
            used.add(file)
            path = os.path.join(directory, file)
            there = path if os.path.isfile(path) and (same or name not in elsewhere) else None
            shard = SurvivingShard(split.name, number, len(split.shards), there, bool(same), info.data, info.records)
            found.shards.append(shard)
    made_again = TFDS_FILES | {label_names_file(key) for key in manifest.schema.class_names}
    for name in sorted(manifest.sidecars.keys() - made_again):
        data = read_side_file(os.path.join(directory, name))
        if data is not None and FileInfo.of(data) == manifest.sidecars[name]:
            found.kept[name] = data
        else:
            found.notes.append(f"{escape(name)} is missing or damaged, and left out")
    for name in sorted(present - expected.keys() - {MANIFEST} - used):
        found.notes.append(f"{escape(name)} is not part of the dataset, and not read")
    return found
