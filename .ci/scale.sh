#!/usr/bin/env bash
# Builds the environment of the scale-out test: all that `pip install 'trajpipe[ray]'` brings (Ray, dagster-ray,
# dagster-postgres), not trajpipe itself, which the test puts on PYTHONPATH.
#
#   .ci/scale.sh [DIR]     default: $TRAJPIPE_SCALE, else ${XDG_CACHE_HOME:-~/.cache}/trajpipe/scale
#
# Made once and used again while the pins are the same. The last line printed is the environment variable to set.
# DIR/env/bin/python     What is not here: Postgres, which is the system's (Debian: postgresql).
set -euo pipefail

here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
dir=${1:-${TRAJPIPE_SCALE:-${XDG_CACHE_HOME:-$HOME/.cache}/trajpipe/scale}}
mkdir -p "$dir"
dir=$(cd "$dir" && pwd)

# Two runs may want it at once: the second waits and finds it made.
exec 9>"$dir/.lock"
flock 9

requirements=$(python3 - "$here/../pyproject.toml" <<'PYTHON'
import sys
import tomllib

with open(sys.argv[1], "rb") as file:
    project = tomllib.load(file)["project"]
print("\n".join([*project["dependencies"], *project["optional-dependencies"]["ray"]]))
PYTHON
)

stamp=$({ cat "$here/scale.sh" "$here/scale-constraints.txt" "$here/../constraints.txt"; echo "$requirements"; } \
  | sha256sum | cut -d' ' -f1)
if [ "$(cat "$dir/.stamp" 2>/dev/null)" = "$stamp" ]; then
  echo "scale-out: unchanged in $dir" >&2
  echo "TRAJPIPE_SCALE=$dir"
  exit 0
fi

echo "scale-out: building in $dir" >&2
rm -rf "$dir/env" "$dir/.stamp"
python3 -m venv "$dir/env"
"$dir/env/bin/python" -m pip --disable-pip-version-check install --quiet \
  --constraint "$here/../constraints.txt" --constraint "$here/scale-constraints.txt" \
  --requirement <(echo "$requirements")

echo "$stamp" > "$dir/.stamp"
echo "scale-out: built" >&2
echo "TRAJPIPE_SCALE=$dir"
