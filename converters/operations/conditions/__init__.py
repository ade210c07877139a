"""Conditions on records, as text: `class in (cat, dog) and height >= 224`. Nothing of it is ever run as code."""
