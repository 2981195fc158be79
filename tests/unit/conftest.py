"""Property tests run on machines that are busy with other work: how long an example takes says nothing."""

from __future__ import annotations

from hypothesis import settings

settings.register_profile("untimed", deadline=None)
settings.load_profile("untimed")
