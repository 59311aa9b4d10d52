"""Seeded, lifelike raw recordings of every kind, for tests and `trajpipe demo`.

What is not here: anything that a pipeline on real data needs.
"""

from __future__ import annotations

from trajpipe.testing.defects import DEFECTS, Injection, inject
from trajpipe.testing.recording import KINDS, write_recording
from trajpipe.testing.sample import write_sample

__all__ = ["DEFECTS", "KINDS", "Injection", "inject", "write_recording", "write_sample"]
