"""Sources: one class per raw format, registered by name; a source only reads."""

from trajpipe.sources.base import ReadOptions, Source, detect, register, source, sources

__all__ = ["ReadOptions", "Source", "detect", "register", "source", "sources"]
