"""Contract tests for a source, a format and a storage, for your own tests to inherit. Only this folder needs pytest."""

import pytest

pytest.register_assert_rewrite("shardfeed.testing.source", "shardfeed.testing.recorded_source")
