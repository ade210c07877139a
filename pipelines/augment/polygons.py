"""Convex polygons, many at once: how much of each lies within a rectangle.

Polygons are float64 [n, m, 2], x and y of m corners in turn, in either direction; the last corners may be equal.
Rectangles are xmin, ymin, xmax, ymax.
"""

import numpy as np

_LEAST_SCALE = 1e-6  # of a place under a homography: beyond that it is behind the horizon


def of_boxes(boxes: np.ndarray) -> np.ndarray:
    """The corners of boxes, [n, 4] as xmin, ymin, xmax, ymax: float64 [n, 4, 2]."""
    return boxes.astype(np.float64)[:, [[0, 1], [2, 1], [2, 3], [0, 3]]]


def through(homography: np.ndarray, points: np.ndarray) -> np.ndarray:
    """Points, [..., 2], as a homography moves them, float64 [3, 3]. Those behind its horizon become far away."""
    moved = points @ homography[:, :2].T + homography[:, 2]
    return moved[..., :2] / np.maximum(moved[..., 2:], _LEAST_SCALE)


def projected(homography: np.ndarray, polygons: np.ndarray) -> np.ndarray:
    """Polygons as a homography moves them, without the parts behind its horizon."""
    depths = polygons @ homography[2, :2] + homography[2, 2] - _LEAST_SCALE
    return through(homography, _cut(polygons, depths))


def areas(polygons: np.ndarray) -> np.ndarray:
    """Area of each, float64 [n]."""
    x, y = np.moveaxis(polygons - polygons[:, :1], 2, 0)  # from the first corner, as small numbers are more exact
    return np.abs((x * np.roll(y, -1, 1) - np.roll(x, -1, 1) * y).sum(1)) / 2


def enclosing(polygons: np.ndarray) -> np.ndarray:
    """The smallest box around each: float64 [n, 4]."""
    return np.concatenate([polygons.min(1), polygons.max(1)], 1)


def clipped(polygons: np.ndarray, rectangle: np.ndarray) -> np.ndarray:
    """The part of each within the rectangle; of one that is outside, a place without area.

    Sutherland and Hodgman 1974, "Reentrant Polygon Clipping": cut by each side of the rectangle in turn.
    """
    for axis in (0, 1):
        polygons = _cut(polygons, polygons[..., axis] - rectangle[axis])
        polygons = _cut(polygons, rectangle[2 + axis] - polygons[..., axis])
    return polygons.clip(rectangle[:2], rectangle[2:])


def _cut(polygons: np.ndarray, depths: np.ndarray) -> np.ndarray:
    """The parts where `depths` are 0 or more: those of the corners, [n, m], from which others follow linearly."""
    if (depths >= 0).all():
        return polygons
    count, corners = depths.shape
    inside = depths >= 0
    ends, next_depths, next_inside = (np.roll(part, -1, 1) for part in (polygons, depths, inside))
    crosses = inside != next_inside
    share = np.divide(depths, depths - next_depths, out=np.zeros_like(depths), where=crosses)
    crossings = polygons + share[..., None] * (ends - polygons)
    # Of each side its beginning, if that is inside, and where it crosses the line: at most one corner more in all.
    candidates = np.stack([polygons, crossings], 2).reshape(count, 2 * corners, 2)
    is_corner = np.stack([inside, crosses], 2).reshape(count, 2 * corners)
    order = np.argsort(~is_corner, axis=1, kind="stable")
    last = np.maximum(is_corner.sum(1), 1) - 1
    chosen = np.take_along_axis(order, np.minimum(np.arange(corners + 1), last[:, None]), 1)
    return np.take_along_axis(candidates, chosen[..., None], 1)
