"""What it costs to write records in a format, in one thread, until they are safe on the disk."""

import os
import shutil
import time
from collections.abc import Mapping, Sequence

from shardfeed.formats.format import ShardFormat
from shardfeed.schema import Schema, Value


def write_once(
    shard: ShardFormat, schema: Schema, records: Sequence[Mapping[str, Value]], directory: str
) -> dict[str, float]:
    """Write all records into one shard below `directory`, and remove it: microseconds of one, "wall_us", "cpu_us".

    Raises StorageError.
    """
    os.makedirs(directory)
    data, index = (os.path.join(directory, "shard" + suffix) for suffix in (shard.data_suffix, shard.index_suffix))
    wall, cpu = time.perf_counter(), time.process_time()
    with shard.sink(data, index, schema, len(records)) as sink:
        for values in records:
            sink.write(values)
    wall, cpu = time.perf_counter() - wall, time.process_time() - cpu
    shutil.rmtree(directory)
    return {"wall_us": wall / len(records) * 1e6, "cpu_us": cpu / len(records) * 1e6}
