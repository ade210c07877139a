"""Conversion of images and of existing datasets: `convert("photos", "dataset")`. It never imports TensorFlow.

    convert, ImageOptions, Shares, Report, Progress             conversion of images and labels
    LocalWorkers, RayWorkers, NamedWorkers, Engine              processes that write shards
    shard_tasks, write_shard, commit_shards, ShardTasks         conversion on a cluster of any kind
    open_source, LabelOptions, AnnotationOptions, ColumnOptions the source at a path, and the options of its reader
    from_dicts, ImageFolder, LabelFile, FileNames, Unlabelled   sources
    Source, Sample, SourceFile, SourceInfo, Skipped, Findings, RejectCode
                                                                your own source
    Reader, Look, Evidence, find_files, Gather, Row, Parts, ColumnInfo, choose_roles, Annotations, AnnotationCode
                                                                your own reader
    append, merge, filter, split, relabel, remove, reshard, MakingOptions
                                                                a new dataset from existing ones
    export, Exported                                            a dataset to the files of other tools
    card, CardOptions                                           croissant.json and a dataset card
    adopt, rebuild, Rebuilt, survey, Survey                     existing TFRecords
    salvage, Salvaged                                           the intact records of a damaged dataset
    push, Pushed, pull, Pulled                                  copies of a dataset to and from a bucket

Your own source needs a `schema`, `len(source)` and `source[i]`: see docs/your-own-source.md.
"""

from typing import TYPE_CHECKING

from shardfeed.lazy import lazy_names

if TYPE_CHECKING:
    from shardfeed.converters.cluster import ShardTasks as ShardTasks
    from shardfeed.converters.cluster import commit_shards as commit_shards
    from shardfeed.converters.cluster import shard_tasks as shard_tasks
    from shardfeed.converters.commit.push import Pushed as Pushed
    from shardfeed.converters.commit.push import push as push
    from shardfeed.converters.conversion import Progress as Progress
    from shardfeed.converters.conversion import convert as convert
    from shardfeed.converters.engines.choose_engine import LocalWorkers as LocalWorkers
    from shardfeed.converters.engines.choose_engine import NamedWorkers as NamedWorkers
    from shardfeed.converters.engines.choose_engine import RayWorkers as RayWorkers
    from shardfeed.converters.engines.engine import Engine as Engine
    from shardfeed.converters.engines.on_node import write_shard as write_shard
    from shardfeed.converters.existing.adopt import adopt as adopt
    from shardfeed.converters.existing.append import append as append
    from shardfeed.converters.existing.export_dataset import Exported as Exported
    from shardfeed.converters.existing.export_dataset import export as export
    from shardfeed.converters.existing.filter import filter as filter
    from shardfeed.converters.existing.filter import remove as remove
    from shardfeed.converters.existing.making import MakingOptions as MakingOptions
    from shardfeed.converters.existing.merge import merge as merge
    from shardfeed.converters.existing.passport import CardOptions as CardOptions
    from shardfeed.converters.existing.passport import card as card
    from shardfeed.converters.existing.pull import Pulled as Pulled
    from shardfeed.converters.existing.pull import pull as pull
    from shardfeed.converters.existing.rebuild import Rebuilt as Rebuilt
    from shardfeed.converters.existing.rebuild import rebuild as rebuild
    from shardfeed.converters.existing.relabel import relabel as relabel
    from shardfeed.converters.existing.salvage import Salvaged as Salvaged
    from shardfeed.converters.existing.salvage import salvage as salvage
    from shardfeed.converters.existing.split import reshard as reshard
    from shardfeed.converters.existing.split import split as split
    from shardfeed.converters.existing.surveying import Survey as Survey
    from shardfeed.converters.existing.surveying import survey as survey
    from shardfeed.converters.images.options import ImageOptions as ImageOptions
    from shardfeed.converters.planning.options import Shares as Shares
    from shardfeed.converters.rejects import AnnotationCode as AnnotationCode
    from shardfeed.converters.rejects import RejectCode as RejectCode
    from shardfeed.converters.report import Report as Report
    from shardfeed.converters.sources.files.parts import Parts as Parts
    from shardfeed.converters.sources.image_folder import FileNames as FileNames
    from shardfeed.converters.sources.image_folder import ImageFolder as ImageFolder
    from shardfeed.converters.sources.image_folder import Unlabelled as Unlabelled
    from shardfeed.converters.sources.look import Evidence as Evidence
    from shardfeed.converters.sources.look import Look as Look
    from shardfeed.converters.sources.look import find_files as find_files
    from shardfeed.converters.sources.open_source import open_source as open_source
    from shardfeed.converters.sources.options import AnnotationOptions as AnnotationOptions
    from shardfeed.converters.sources.options import ColumnOptions as ColumnOptions
    from shardfeed.converters.sources.options import LabelOptions as LabelOptions
    from shardfeed.converters.sources.readers import Reader as Reader
    from shardfeed.converters.sources.rows.annotations import Annotations as Annotations
    from shardfeed.converters.sources.rows.from_dicts import from_dicts as from_dicts
    from shardfeed.converters.sources.rows.gather import Gather as Gather
    from shardfeed.converters.sources.rows.gather import Row as Row
    from shardfeed.converters.sources.rows.label_file import LabelFile as LabelFile
    from shardfeed.converters.sources.rows.roles import ColumnInfo as ColumnInfo
    from shardfeed.converters.sources.rows.roles import choose_roles as choose_roles
    from shardfeed.converters.sources.source import Findings as Findings
    from shardfeed.converters.sources.source import Sample as Sample
    from shardfeed.converters.sources.source import Skipped as Skipped
    from shardfeed.converters.sources.source import Source as Source
    from shardfeed.converters.sources.source import SourceFile as SourceFile
    from shardfeed.converters.sources.source import SourceInfo as SourceInfo

__all__, __getattr__, __dir__ = lazy_names(__name__)
