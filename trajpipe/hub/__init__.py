"""Push and pull of finished datasets, so that nobody ever trains on half of one.

`push` publishes a version under an immutable tag, `pull` fetches one and verifies every byte, `verify` does
so again without a network. What is not here: which files a project's dataset consists of, see
`trajpipe.pipeline.publish`.
"""

from trajpipe.hub.card import CardFacts, CardTable, merged_card
from trajpipe.hub.client import Repository, split_address
from trajpipe.hub.errors import HubError
from trajpipe.hub.licences import require_publishable, restriction
from trajpipe.hub.local import files_below
from trajpipe.hub.manifest import Entry, Manifest
from trajpipe.hub.pull import PullResult, pull, pull_tree
from trajpipe.hub.push import Publication, PushOptions, PushResult, plan_push, push
from trajpipe.hub.retry import Patience
from trajpipe.hub.selection import Selection, episodes_of
from trajpipe.hub.verify import Receipt, Verified, read_manifest, verify

__all__ = [
    "CardFacts",
    "CardTable",
    "Entry",
    "HubError",
    "Manifest",
    "Patience",
    "Publication",
    "PullResult",
    "PushOptions",
    "PushResult",
    "Receipt",
    "Repository",
    "Selection",
    "Verified",
    "episodes_of",
    "files_below",
    "merged_card",
    "plan_push",
    "pull",
    "pull_tree",
    "push",
    "read_manifest",
    "require_publishable",
    "restriction",
    "split_address",
    "verify",
]
