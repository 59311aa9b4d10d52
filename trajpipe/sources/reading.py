"""How one recording is read: its own word, what is declared, and the kind's defaults, settled once per pass.

What is not here: reading columns, see `trajpipe.sources.demo_columns`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from trajpipe.core import names
from trajpipe.core.conventions import ImageConvention, QuaternionSite
from trajpipe.core.errors import InputError
from trajpipe.core.findings import Finding, Severity
from trajpipe.core.quaternions import QuaternionOrder
from trajpipe.hdf5 import attributes
from trajpipe.sources.base import ReadOptions
from trajpipe.sources.demo_columns import ColumnReading, sites_of_terms
from trajpipe.sources.images import ImageReading
from trajpipe.sources.quaternion_sites import QuaternionReading
from trajpipe.sources.recording import Recording, integer_attribute

_OPTIONS: Final[Mapping[str, tuple[Any, ...]]] = {
    "allow_gaps": (True, False),
    "float_images": ("keep", "unit"),
    "image_alignment": ("drop_first", "drop_last"),
    "image_layout": ("hwc", "chw"),
}
_IMAGE_CONVENTIONS: Final[tuple[ImageConvention, ...]] = ("opengl", "opencv")


@dataclass(frozen=True, slots=True)
class Defaults:
    """What a kind fixes by itself for one recording.

    Attributes:
        order: Order of the file's quaternions.
        sites: Where they lie.
        images: Row order of images when neither file nor declaration tells.
        alignment: obs against action; None = the format does not say.
    """

    order: QuaternionOrder = "xyzw"
    sites: tuple[QuaternionSite, ...] = ()
    images: ImageConvention = "opencv"
    alignment: names.Alignment | None = None


@dataclass(frozen=True, slots=True)
class Reading:
    """One pass over an open recording.

    Attributes:
        recording: The open recording.
        options: What the caller declared.
        images: How its images are read.
        images_from: `file`, `declared` or `default`.
        quaternions: Declared and built-in sites, the recorded order.
        alignment: obs against action; None = unknown.
    """

    recording: Recording
    options: ReadOptions
    images: ImageReading
    images_from: str
    quaternions: QuaternionReading
    alignment: names.Alignment | None

    def option(self, name: str) -> Any:
        """A source option; None when not given."""
        return self.options.options.get(name)

    def columns(self) -> ColumnReading:
        """How columns are read in this pass."""
        conventions = self.options.conventions
        return ColumnReading(
            recording=self.recording,
            quaternions=self.quaternions,
            images=self.images,
            term_widths=conventions.term_widths,
            extra_row=self.option("image_alignment"),
            report=self.options.report,
        )

    def facts(self) -> dict[str, Any]:
        """Conventions as settled, plain JSON values for the recipe."""
        sites = [
            {"path": s.path, "starts": list(s.starts), "order": self.quaternions.order_of(s)}
            for s in self.quaternions.sites
        ]
        return {
            "format_version": format_version(self.recording),
            "quaternion_order": self.quaternions.order,
            "quaternion_sites": sites,
            "images": self.images.convention,
            "images_from": self.images_from,
            "channel_order": self.images.channel_order,
            "alignment": None if self.alignment is None else self.alignment.value,
        }

    def image_conflict(self) -> list[Finding]:
        """A warning when the file's own row order is not the declared one."""
        declared = self.options.conventions.images
        if self.images_from != "file" or declared in (None, self.images.convention):
            return []
        message = (
            "the declared image convention is not the one that the recording tells; the recording's is taken"
        )
        place = self.recording.place(None, f"data@{names.ATTR_IMAGE_CONVENTION}")
        return [
            self.recording.finding(
                "image-convention-conflict",
                message,
                severity=Severity.WARN,
                place=place,
                got=self.images.convention,
                expected=declared,
            )
        ]


def reading_of(recording: Recording, options: ReadOptions, defaults: Defaults) -> Reading:
    """Settle how a recording is read: the file's own word, else the declared, else the kind's default.

    An L2 file is xyzw, top row first and RGB whatever is declared: reading it again changes nothing.

    Raises:
        InputError: an unknown option or value, or an unknown image convention in the file.
    """
    _refuse_unknown_options(recording, options)
    conventions, layout = options.conventions, options.options.get("image_layout")
    floats = options.options.get("float_images", "keep")
    if recording.is_l2:
        images, origin = ImageReading("opencv", "rgb", layout), "file"
        quaternions = QuaternionReading((), "xyzw", recording.path.name)
    else:
        row_order, origin = _row_order(recording, conventions.images, defaults.images)
        images = ImageReading(row_order, conventions.channel_order, layout, floats)
        order = conventions.quaternion_order or defaults.order
        sites = sites_of_terms((*conventions.quaternions, *defaults.sites), conventions.term_widths)
        quaternions = QuaternionReading(sites, order, recording.path.name)
    alignment = conventions.alignment or defaults.alignment
    return Reading(recording, options, images, origin, quaternions, alignment)


def _refuse_unknown_options(recording: Recording, options: ReadOptions) -> None:
    for name, value in options.options.items():
        if name not in _OPTIONS:
            allowed: object = ", ".join(_OPTIONS)
        elif value not in _OPTIONS[name]:
            allowed = f"{name}: one of {', '.join(str(v).lower() for v in _OPTIONS[name])}"
        else:
            continue
        raise InputError(
            "this source has no such option",
            place=recording.place(),
            got=f"{name}: {value}",
            expected=allowed,
            code="unknown-option",
        )


def _row_order(
    recording: Recording, declared: ImageConvention | None, default: ImageConvention
) -> tuple[ImageConvention, str]:
    told = attributes.text(recording.data, names.ATTR_IMAGE_CONVENTION)
    if told is None:
        return (default, "default") if declared is None else (declared, "declared")
    found = next((c for c in _IMAGE_CONVENTIONS if c == told.strip().lower()), None)
    if found is None:
        raise InputError(
            "the recording's image convention is unknown",
            place=recording.place(None, f"data@{names.ATTR_IMAGE_CONVENTION}"),
            got=told,
            expected=" or ".join(_IMAGE_CONVENTIONS),
            code="image-convention",
        )
    return found, "file"


def format_version(recording: Recording) -> int | None:
    """The file's `format_version`; None when absent.

    Raises:
        InputError: it is no whole number, or newer than what is known.
    """
    if names.ATTR_FORMAT_VERSION not in recording.handle.attrs:
        return None
    version = integer_attribute(recording.handle, names.ATTR_FORMAT_VERSION)
    if version is None or not 0 <= version <= names.L2_FORMAT_VERSION:
        raise InputError(
            "this format_version is not known",
            place=recording.place(None, f"@{names.ATTR_FORMAT_VERSION}"),
            got=attributes.plain(recording.handle.attrs[names.ATTR_FORMAT_VERSION]),
            expected=f"0..{names.L2_FORMAT_VERSION}",
            code="format-version-unknown",
        )
    return version
