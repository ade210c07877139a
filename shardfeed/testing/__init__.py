"""What your own source, format or storage must promise, as tests to inherit. Needs pytest; nothing else here does."""

import pytest

pytest.register_assert_rewrite("shardfeed.testing.source", "shardfeed.testing.recorded_source")
