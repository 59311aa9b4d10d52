#!/usr/bin/env bash
# Builds the environment of the independent readers that the tests marked `readers` run: lerobot 0.3.3 and
# 0.4.4, robomimic 0.3.0 (one venv serves all three) and IsaacLab's HDF5 handler (unpacked, never installed).
#
#   .ci/readers.sh [DIR]     default: $TRAJPIPE_READERS, else ${XDG_CACHE_HOME:-~/.cache}/trajpipe/readers
#
# Made once and used again while the pins are the same. The last line printed is the environment variable to set.
# DIR/lerobot/bin/python   with robomimic; DIR/lerobot/lr033 and lr044 go on PYTHONPATH, one at a time
# DIR/isaaclab             the unpacked wheel
set -euo pipefail

here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
dir=${1:-${TRAJPIPE_READERS:-${XDG_CACHE_HOME:-$HOME/.cache}/trajpipe/readers}}
isaaclab=2.3.2.post1
mkdir -p "$dir"
dir=$(cd "$dir" && pwd)

# Two runs may want it at once: the second waits and finds it made.
exec 9>"$dir/.lock"
flock 9

stamp=$(cat "$here/readers.sh" "$here/readers-constraints.txt" | sha256sum | cut -d' ' -f1)
if [ "$(cat "$dir/.stamp" 2>/dev/null)" = "$stamp" ]; then
  echo "readers: unchanged in $dir" >&2
  echo "TRAJPIPE_READERS=$dir"
  exit 0
fi

echo "readers: building in $dir" >&2
rm -rf "$dir/lerobot" "$dir/isaaclab" "$dir/wheels" "$dir/.stamp"
python3 -m venv "$dir/lerobot"
pip=("$dir/lerobot/bin/python" -m pip --disable-pip-version-check)
install=("${pip[@]}" install --quiet --no-compile --constraint "$here/readers-constraints.txt")

"${install[@]}" torch==2.13.0
"${install[@]}" numpy datasets huggingface-hub av pyarrow pandas jsonlines packaging draccus einops accelerate \
  opencv-python-headless imageio termcolor pillow deepdiff h5py tqdm psutil matplotlib tensorboardX six
# Its compiled operators do not fit this torch; the reader scripts declare the two schemas that it asks for.
"${install[@]}" --no-deps torchvision==0.22.1
"${install[@]}" --no-deps robomimic==0.3.0
"${install[@]}" --no-deps --target "$dir/lerobot/lr033" lerobot==0.3.3
"${install[@]}" --no-deps --target "$dir/lerobot/lr044" lerobot==0.4.4

"${pip[@]}" download --quiet --no-deps --dest "$dir/wheels" "isaaclab==$isaaclab"
python3 -m zipfile -e "$dir"/wheels/isaaclab-*.whl "$dir/isaaclab"

echo "$stamp" > "$dir/.stamp"
echo "readers: built" >&2
echo "TRAJPIPE_READERS=$dir"
