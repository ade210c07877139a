"""The table of remedies: all its rows."""

from remedies import annotations, containers, derived, folders, more, repair, tables  # noqa: F401  # each adds its rows
from remedies.typed import ROWS

__all__ = ["ROWS"]
