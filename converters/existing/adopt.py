"""Make a dataset of existing TFRecords without copying or changing them.

If the files already have a dataset's names, the missing files are written next to them; otherwise a new directory is
made with links to them as shards.
"""

import os
from collections.abc import Mapping, Sequence

from shardfeed.converters.commit.finish import split_info, stage_manifest
from shardfeed.converters.commit.output import new_dataset
from shardfeed.converters.existing.surveying import Survey, files_of
from shardfeed.converters.existing.tally import ShardTally, image_options, shards_fingerprint, tfds_view
from shardfeed.converters.shards.task import Receipt, shard_paths
from shardfeed.converters.sources.shard_names import FoundSplit
from shardfeed.declared import checked
from shardfeed.errors import UsageError, escape
from shardfeed.formats.format import ShardInfo
from shardfeed.formats.tfrecord import Index
from shardfeed.manifest import Manifest, SplitInfo
from shardfeed.naming import (
    INDEX_DIRECTORY,
    MANIFEST,
    TFDS_FILES,
    column_file,
    dataset_name,
    index_file,
    is_dataset_file,
    shard_file,
)
from shardfeed.schema import ENCODED, LABEL, Schema
from shardfeed.storage.local import (
    TEMPORARY,
    locked,
    make_directory,
    remove_file,
    remove_tree,
    storage_error,
    write_file,
)
from shardfeed.storage.storage import LOCAL, FileInfo, local_output, sizes_by_name
from shardfeed.version import __version__


@checked
def adopt(survey: Survey, out: str | os.PathLike[str] | None = None) -> Manifest:
    """Create a dataset from the surveyed files: in their own folder, or in the new directory `out`, with links to them.

    Without `out`, all other files in the folder stay unchanged and are listed in the manifest. Raises
    OutputExistsError; StorageError; BusyError; UsageError if the files do not have shardfeed's names and `out` is None.

    Example:
        adopt(survey("records", label_key="image/class/label"), "adopted")
        data = shardfeed.open("adopted")
    """
    if out is not None:
        target = local_output(out)
        with new_dataset(target) as directory:
            return _write(survey, directory, target)
    with locked(survey.directory):
        _check_beside(survey)  # another run may have made it a dataset since
        _sweep(survey.directory)
        return _write(survey, survey.directory, survey.directory)


def _write(survey: Survey, directory: str, target: str) -> Manifest:
    """Everything but the records, into `directory`; the manifest last."""
    beside = directory == survey.directory
    splits: dict[str, SplitInfo] = {}
    make_directory(os.path.join(directory, INDEX_DIRECTORY))
    for split in survey.splits:
        receipts: list[Receipt] = []
        for number, file in enumerate(split.files):
            shard, index = shard_paths(directory, split.name, number, len(split.files))
            if not beside:
                _link(os.path.join(survey.directory, file or ""), shard)
            tally = survey.tallies[split.name][number]
            written = FileInfo(*write_file(index, Index.from_sizes(tally.sizes).written(index)))
            info = ShardInfo(len(tally.sizes), survey.data[split.name][number], written)
            receipts.append(tally.receipt(split.name, number, survey.schema, info))
        splits[split.name] = split_info(directory, split.name, survey.schema, receipts)
    name = dataset_name(target)
    ours = {file for split in survey.splits for file in split.files}
    others = [file for file in files_of(directory) if file not in ours] if beside else []
    kept = {file: FileInfo.of_file(os.path.join(directory, file)) for file in others}
    tallies = [tally for of_split in survey.tallies.values() for tally in of_split]
    image = survey.schema.key(ENCODED)
    size = image_options(tallies, image).shape
    return stage_manifest(
        directory,
        name=name,
        schema=survey.schema,
        splits=splits,
        sidecars=_tfds_view(name, survey.schema, splits, tallies, kept),
        fingerprint=shards_fingerprint(b"adopted", survey.data),
        options={
            "adopted": True,  # so `salvage` does not identify records by their file names
            "distinct": survey.distinct,
            "image_key": image,  # and its formats are by the bytes of each
            "label_key": survey.schema.key(LABEL),
            "size": list(size) if size else None,
        },
        rejected={},
        made_by={"shardfeed": __version__},
        kept=kept if beside else None,
    )


def _tfds_view(
    name: str,
    schema: Schema,
    splits: Mapping[str, SplitInfo],
    tallies: Sequence[ShardTally],
    kept: Mapping[str, FileInfo],
) -> dict[str, bytes]:
    """Make TFDS's files, unless the folder has its own; files that a killed run of ours made do not count."""
    view = tfds_view(name, schema, splits, tallies)
    own = [file for file in TFDS_FILES & kept.keys() if file not in view or kept[file] != FileInfo.of(view[file])]
    return {} if own else view


def _sweep(directory: str) -> None:
    """Remove files that a killed run had begun to write."""
    remove_tree(os.path.join(directory, INDEX_DIRECTORY))
    for file in files_of(directory):
        if file.endswith(TEMPORARY) and is_dataset_file(file.removesuffix(TEMPORARY)):
            remove_file(os.path.join(directory, file))


def check_names(directory: str, splits: Sequence[FoundSplit]) -> None:
    """Raise UsageError unless all files have the names of a dataset's shards, which a dataset in their folder wants."""
    for split in splits:
        if not split.has_standard_names:
            file = next(file for file in split.files if file is not None)
            wanted = shard_file(split.name, 0, len(split.files))
            problem = f"{escape(file)} is not named like a dataset shard ({wanted})"
            raise UsageError(directory, problem, "give a new directory for links to them")


def _check_beside(survey: Survey) -> None:
    """Raise UsageError unless the folder itself can become a dataset, with the manifest next to its files."""
    check_names(survey.directory, survey.splits)
    if os.path.lexists(os.path.join(survey.directory, MANIFEST)):
        problem = f"has a {MANIFEST} of another program, which would be overwritten"
        raise UsageError(survey.directory, problem, "give a new directory for links to the shards")
    ours = {column_file(split.name, key) for split in survey.splits for key in survey.schema.class_names}
    ours |= {index_file(split.name, i, len(split.files)) for split in survey.splits for i in range(len(split.files))}
    present = sizes_by_name(LOCAL, survey.directory, [INDEX_DIRECTORY])
    others = sorted(
        name
        for name, size in present.items()
        if size < 0 or name == INDEX_DIRECTORY or ("/" in name and name.removesuffix(TEMPORARY) not in ours)
    )
    if others:
        problem = f"holds {escape(others[0])}, which is not part of a dataset"
        raise UsageError(survey.directory, problem, "move it away, or give a new directory for links to the shards")


def _link(source: str, path: str) -> None:
    try:
        os.symlink(source, path)
    except OSError as error:
        raise storage_error(path, "link", error) from error
