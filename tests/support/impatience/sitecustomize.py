"""A bucket that does not answer is said after half a second, in every process with this folder on its PYTHONPATH."""

SAID_AFTER = 0.5

if __name__ == "sitecustomize":
    from shardfeed.storage import outage

    outage.SAID_AFTER = SAID_AFTER
