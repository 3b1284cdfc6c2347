#!/usr/bin/env bash
# torchrun's environment starts ringzero's programs: set by hand here, and by torchrun itself where
# PyTorch is there.
set -euo pipefail
. tests/launchers/common.sh

# by_hand N PROGRAM...: processes with torchrun's variables.
by_hand() {
  local ranks=$1 status=0 port rank process processes=()
  shift
  port=$(/usr/bin/python3 python/tests/free_ports.py)
  for ((rank = 0; rank < ranks; ++rank)); do
    RANK=$rank WORLD_SIZE=$ranks LOCAL_RANK=$rank MASTER_ADDR=127.0.0.1 MASTER_PORT=$port \
      timeout 300 "$@" &
    processes+=($!)
  done
  for process in "${processes[@]}"; do wait "$process" || status=$?; done
  return "$status"
}

three_programs by_hand
/usr/bin/python3 tests/launchers/torchrun_test.py

# torchrun of PyTorch 1.13 does not start with Python 3.11, whose enumerations leave out Std.NONE; its
# --standalone is at port 29400 whoever else is there.
torchrun() {
  local ranks=$1 port
  shift
  port=$(/usr/bin/python3 python/tests/free_ports.py)
  timeout 300 /usr/bin/python3 -c '
import torch.distributed.elastic.multiprocessing.api as api
if api.Std.from_str("0") is None:
    api.Std.from_str = classmethod(lambda cls, text: cls(int(text)))
from torch.distributed.run import main
main()' --rdzv_backend c10d --rdzv_endpoint "localhost:$port" --rdzv_id "$port" \
    --nproc_per_node "$ranks" --no_python "$@"
}
if [ "$sanitized" = no ] && /usr/bin/python3 -c 'import torch.distributed.run' 2>/dev/null; then
  three_programs torchrun
else
  echo "without torchrun: tools/setup --with torch"
fi
