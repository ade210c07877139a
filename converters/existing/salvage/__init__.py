"""Salvage: a new dataset of the undamaged records of a damaged one."""
