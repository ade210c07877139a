"""`Edit.WARP`: each pixel comes from another place, by a homography."""

import numpy as np

_BITS = 7  # of the fraction of a place, for bilinear interpolation
# From pixels counted from the corner of the first one to pixels counted from its centre, and back.
_TO_CENTRE = np.array([[1, 0, -0.5], [0, 1, -0.5], [0, 0, 1]])
_TO_CORNER = np.array([[1, 0, 0.5], [0, 1, 0.5], [0, 0, 1]])


def edited(image: np.ndarray, numbers: np.ndarray) -> np.ndarray:
    """The image as the homography shows it. Outside of it is the fill colour, and bilinear edges blend with that."""
    height, width, channels = image.shape
    fill = numbers[10 : 10 + channels] * (np.iinfo(image.dtype).max // 255)
    columns, rows = places(numbers[:9].reshape(3, 3), height, width)
    if not numbers[9]:
        return _taken(image, np.floor(rows + 0.5), np.floor(columns + 0.5), fill).astype(image.dtype)
    top, left = np.floor(rows), np.floor(columns)
    down, right = (np.rint((at - low) * (1 << _BITS)).astype(np.int64) for at, low in ((rows, top), (columns, left)))
    total = np.zeros((height, width, channels), np.int64)
    for row, tall in ((top, (1 << _BITS) - down), (top + 1, down)):
        for column, wide in ((left, (1 << _BITS) - right), (left + 1, right)):
            total += (tall * wide)[..., None] * _taken(image, row, column, fill)
    return ((total + (1 << (2 * _BITS - 1))) >> (2 * _BITS)).astype(image.dtype)


def moved(pixels: np.ndarray, numbers: np.ndarray, outside: int | None) -> np.ndarray:
    """A mask or raster, [height, width], as `edited` moves the image: the nearest values, `outside` (or 0) beyond."""
    columns, rows = places(numbers[:9].reshape(3, 3), *pixels.shape)
    beyond = np.array([outside or 0])
    return _taken(pixels[..., None], np.floor(rows + 0.5), np.floor(columns + 0.5), beyond)[..., 0].astype(pixels.dtype)


def nearest(numbers: np.ndarray, outside: int) -> np.ndarray:
    """The numbers of the same move of a raster of bytes with one channel: nearest pixels, and `outside` beyond."""
    made = numbers.copy()
    made[9], made[10:13] = 0, outside
    return made


def forward(numbers: np.ndarray, target: tuple[int, int]) -> np.ndarray:
    """The homography from a place (x, y, 1) of the old image to one of the new, float64 [3, 3].

    Places are in pixels from the image's corner, as boxes have them: the centre of the first pixel is (0.5, 0.5).
    `target`: (height, width). All places are far outside if the homography has no inverse.

    What has a scale, the third number, of 0 or less is behind the horizon. If that crosses the image, as with
    `perspective` of more than 2/3, where four corners may make an arrowhead, the side that is not mirrored is in front.
    """
    try:
        inverse = np.linalg.inv(numbers[:9].reshape(3, 3))
    except np.linalg.LinAlgError:
        return np.array([[0, 0, -(2.0**20)], [0, 0, -(2.0**20)], [0, 0, 1]])
    from_corner = _TO_CORNER @ inverse @ _TO_CENTRE
    (height, width), (a, b, c) = target, from_corner[2]
    scales = c, c + a * width, c + b * height, c + a * width + b * height
    is_crossed = min(scales) < 0 < max(scales)
    from_corner /= max(scales, key=abs)  # which is the same homography; now the largest scale is 1
    return -from_corner if is_crossed and np.linalg.det(from_corner) < 0 else from_corner


def places(homography: np.ndarray, height: int, width: int) -> tuple[np.ndarray, np.ndarray]:
    """The column and the row in the old image of each pixel of the new one: float64 [height, width] each.

    Places are far outside where the homography has none.
    """
    column, row = np.arange(width, dtype=np.float64), np.arange(height, dtype=np.float64)[:, None]
    x, y, scale = (a * column + (b * row + c) for a, b, c in homography)
    with np.errstate(divide="ignore", invalid="ignore"):
        found = x / scale, y / scale
    return tuple(np.where(np.abs(at) < 2**20, at, -(2.0**20)) for at in found)  # type: ignore[return-value]  # two


def _taken(image: np.ndarray, rows: np.ndarray, columns: np.ndarray, fill: np.ndarray) -> np.ndarray:
    """The pixels at whole places, int64 [height, width, channels]."""
    height, width = image.shape[:2]
    inside = (rows >= 0) & (rows < height) & (columns >= 0) & (columns < width)
    at = (np.where(inside, values, 0).astype(np.int64) for values in (rows, columns))
    return np.where(inside[..., None], image[tuple(at)].astype(np.int64), fill.astype(np.int64))
