"""Choose records by a condition as text, `class in (cat, dog) and height >= 224`, or by a list of keys.

Nothing of a condition is ever run as code.
"""
