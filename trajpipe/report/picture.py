"""`Picture`: an encoded image with its name and what it was made from; as Markdown and as a data URI.

What is not here: drawing, see `canvas` and the modules of each picture.
"""

from __future__ import annotations

from base64 import b64encode
from dataclasses import dataclass
from typing import Final, Literal

MAX_BYTES: Final = 30_000


@dataclass(frozen=True, slots=True)
class Picture:
    """One image, small enough to lie inside a page or an event.

    Attributes:
        name: Key and heading: `action distribution`.
        data: The encoded image, at most 30 kB.
        caption: What it shows, with its denominators: `40 of 500 episodes, 12,000 of 81,000 rows`.
        media_type: Of `data`.
    """

    name: str
    data: bytes
    caption: str
    media_type: Literal["image/png", "image/jpeg"] = "image/png"

    @property
    def data_uri(self) -> str:
        """`data:image/png;base64,…` for the `src` of an image."""
        return f"data:{self.media_type};base64,{b64encode(self.data).decode('ascii')}"

    @property
    def markdown(self) -> str:
        """The image itself as Markdown, and its caption below."""
        return f"![{self.name}]({self.data_uri})\n\n{self.caption}"
