"""Short deadlines and pauses for requests, in every process that has this folder on its PYTHONPATH."""

from datetime import timedelta

VALUES = {
    "_ATTEMPT_SECONDS": (0.4,),
    "_PAUSE_SECONDS": 0.005,
    "_DEADLINE_SECONDS": 6,
    "_RETRY": {
        "max_retries": 3,
        "backoff": {
            "init_backoff": timedelta(milliseconds=2),
            "max_backoff": timedelta(milliseconds=20),
            "base": 2,
        },
    },
}

if __name__ == "sitecustomize":
    from shardfeed.storage import bucket_destination, hub, objects, s3_destination

    for name, value in VALUES.items():
        setattr(objects, name, value)
    s3_destination._REQUESTS = 2
    bucket_destination._PAUSE_SECONDS = 0.005
    hub.DEADLINE_SECONDS = VALUES["_DEADLINE_SECONDS"]
