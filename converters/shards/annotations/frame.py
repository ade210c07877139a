"""Which image was annotated: the one in the file, or the one that its EXIF turns upright."""

from shardfeed.converters.images.fit import Placement
from shardfeed.converters.rejects import RejectCode, RejectedError
from shardfeed.errors import argument


def is_upright(placement: Placement, size: tuple[int, int] | None, said: bool | None, unclear: str) -> bool:
    """Whether annotations are of the upright image: its size tells, (width, height), where it differs, else `said`.

    Raises RejectedError, E_FRAME, where neither tells: `unclear` begins the reason.
    """
    stored, turned = placement.size(upright=False), placement.size(upright=True)
    if placement.orientation == 1:
        return True
    if size is not None and stored != turned:
        return size == turned
    if said is not None:
        return said
    remedy = argument("boxes_on", typed="upright|stored")
    raise RejectedError(RejectCode.FRAME, f"{unclear} of the upright image: say {remedy}")
