"""Batches of a dataset for training and evaluation, on one device or on many machines.

    train_batches, eval_batches, predict_batches, make_batches  tf.data for Keras and for your own loops
    array_batches, eval_array_batches           NumPy arrays, for JAX and others; TrainingArrays, ArrayBatches, Ranks
    crop                                                        several views of an image, decoded once
    augment                                                     augmentations of images and batches, and recipes of them
    keras_batches                                               the same for Keras on any backend
    distribute, distribute_eval, Feed, EvalFeed                 the same for tf.distribute
    Backup, Position                                            resuming a training run
    random_resized_crop, resize_center_crop, letterbox          transforms of images
    detection, segmentation, boxes_to_source, masks_to_source         transforms of boxes and masks, and their inverses
    multi_hot, draw_caption                                     transforms of labels and captions
    Global, Stream, Stored, Blocks, order_samples               orders of the samples
    shapes_of_area                                              shapes of batches for `Global(shapes=...)`
    mix, cached, Cache                                          several datasets as one; a copy on a faster disk
    prefetch_threads, prefetch_processes, prefetch_ray, as_dataset    batches of any Python producer
    WaitRecorder                                                how long each step waited for its batch

`pipelines.torch` is for PyTorch, `pipelines.prefetch` has the types of producers. Importing this package imports
neither TensorFlow nor PyTorch; using a name that needs tf.data does.
"""

from typing import TYPE_CHECKING

from shardfeed.lazy import lazy_names

if TYPE_CHECKING:
    from shardfeed.pipelines.arrays import ArrayBatches as ArrayBatches
    from shardfeed.pipelines.arrays import TrainingArrays as TrainingArrays
    from shardfeed.pipelines.arrays import array_batches as array_batches
    from shardfeed.pipelines.arrays import crop as crop
    from shardfeed.pipelines.arrays import eval_array_batches as eval_array_batches
    from shardfeed.pipelines.caching.cache import Cache as Cache
    from shardfeed.pipelines.caching.cache import cached as cached
    from shardfeed.pipelines.geometry import boxes_to_source as boxes_to_source
    from shardfeed.pipelines.geometry import masks_to_source as masks_to_source
    from shardfeed.pipelines.keras import keras_batches as keras_batches
    from shardfeed.pipelines.orders.choices import Blocks as Blocks
    from shardfeed.pipelines.orders.choices import Global as Global
    from shardfeed.pipelines.orders.choices import Stored as Stored
    from shardfeed.pipelines.orders.choices import Stream as Stream
    from shardfeed.pipelines.orders.choose_order import order_samples as order_samples
    from shardfeed.pipelines.orders.position import Position as Position
    from shardfeed.pipelines.orders.shapes import shapes_of_area as shapes_of_area
    from shardfeed.pipelines.prefetch import prefetch_processes as prefetch_processes
    from shardfeed.pipelines.prefetch import prefetch_ray as prefetch_ray
    from shardfeed.pipelines.prefetch import prefetch_threads as prefetch_threads
    from shardfeed.pipelines.ranks import Ranks as Ranks
    from shardfeed.pipelines.samples import mix as mix
    from shardfeed.pipelines.tensorflow.augment import letterbox as letterbox
    from shardfeed.pipelines.tensorflow.augment import random_resized_crop as random_resized_crop
    from shardfeed.pipelines.tensorflow.augment import resize_center_crop as resize_center_crop
    from shardfeed.pipelines.tensorflow.backup import Backup as Backup
    from shardfeed.pipelines.tensorflow.batches import make_batches as make_batches
    from shardfeed.pipelines.tensorflow.batches import train_batches as train_batches
    from shardfeed.pipelines.tensorflow.distribute import Feed as Feed
    from shardfeed.pipelines.tensorflow.distribute import distribute as distribute
    from shardfeed.pipelines.tensorflow.evaluate import EvalFeed as EvalFeed
    from shardfeed.pipelines.tensorflow.evaluate import distribute_eval as distribute_eval
    from shardfeed.pipelines.tensorflow.evaluate import eval_batches as eval_batches
    from shardfeed.pipelines.tensorflow.evaluate import predict_batches as predict_batches
    from shardfeed.pipelines.tensorflow.labels import draw_caption as draw_caption
    from shardfeed.pipelines.tensorflow.labels import multi_hot as multi_hot
    from shardfeed.pipelines.tensorflow.objects import detection as detection
    from shardfeed.pipelines.tensorflow.objects import segmentation as segmentation
    from shardfeed.pipelines.tensorflow.prefetched import as_dataset as as_dataset
    from shardfeed.pipelines.waits import WaitRecorder as WaitRecorder

__all__, __getattr__, __dir__ = lazy_names(__name__, packages=("augment", "prefetch", "recipes", "torch"))
