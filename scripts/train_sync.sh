#!/usr/bin/env bash
# Checks this installation, then trains: see --help.
set -euo pipefail

usage() {
  cat <<'TEXT'
usage: scripts/train_sync.sh [--tensorboard [PORT]] [--resume[=RUN] | --eval-only[=RUN]] [--dry-run] [OPTION=VALUE ...]

Checks the installation (versions, disk, folders), then trains a team in synchronous iterations: each collects
with one policy version, learns from it once, and proves that it did.

  --tensorboard [PORT]  show the run in TensorBoard, on PORT or the first free one; it ends with the run
  --resume[=RUN]        go on with a run: a folder, a checkpoint, latest (the default) or best
  --eval-only[=RUN]     measure a run instead of training, by default the latest
  --dry-run             check, print the command, and leave it at that
  OPTION=VALUE, -m ...  whatever else `python -m navrl.train` takes (with --eval-only: `navrl.evaluate`)

Unless env=, agent= or experiment= is given it trains env=alice_and_bob agent=hmasd experiment=alice_hmasd.
Ctrl-C and SIGTERM finish the iteration, save, and end with 130 and 143.

  scripts/train_sync.sh seed=1
  scripts/train_sync.sh --tensorboard env=coverage agent=mappo experiment=coverage_mappo
  scripts/train_sync.sh --resume=outputs/latest total_frames=1200000
  scripts/train_sync.sh --eval-only num_episodes=200
TEXT
}

fail() {
  echo "train_sync: error: $*" >&2
  exit 2
}

top=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
python=$top/.venv/bin/python
[ -x "$python" ] || python=python3

task=train run='' board='' dry='' words=()
becomes() {
  [ "$task" = train ] || fail "--resume and --eval-only were both given, or one of them twice; leave one out"
  task=$1 run=${2#=}
}
while [ $# -gt 0 ]; do
  case $1 in
    -h | --help) usage; exit 0 ;;
    --dry-run) dry=yes ;;
    --tensorboard) board=any; if [[ ${2-} =~ ^[0-9]+$ ]]; then board=$2; shift; fi ;;
    --resume | --resume=*) becomes resume "${1#--resume}" ;;
    --eval-only | --eval-only=*) becomes evaluate "${1#--eval-only}" ;;
    *) words+=("$1") ;;
  esac
  shift
done

case $task in
  evaluate) command=("$python" -m navrl.evaluate "checkpoint=${run:-latest}" ${words[@]+"${words[@]}"}) ;;
  resume) command=("$python" -m navrl.train "resume=${run:-latest}" ${words[@]+"${words[@]}"}) ;;
  train)
    chosen=(env=alice_and_bob agent=hmasd experiment=alice_hmasd)
    [[ " ${words[*]-}" =~ \ (env|agent|experiment)= ]] && chosen=()
    command=("$python" -m navrl.train ${chosen[@]+"${chosen[@]}"} ${words[@]+"${words[@]}"})
    ;;
esac
if [ -n "$board" ]; then
  [ "$task" != evaluate ] || fail "--tensorboard shows training; leave it out with --eval-only"
  command+=(logger=tensorboard)
fi

report=$("$python" -m navrl.commands.doctor) || { echo "$report" >&2; fail "this installation is not fit to train"; }
echo "${report##*$'\n'}: $(printf '%q ' "${command[@]}")"
[ -z "$dry" ] || exit 0

if [ -n "$board" ]; then
  port=$("$python" -c '
import socket, sys
wanted = sys.argv[1]
for port in range(6006, 6106) if wanted == "any" else [int(wanted)]:
    try:
        socket.create_server(("127.0.0.1", port)).close()
    except (OSError, OverflowError):
        continue
    print(port)
    break
' "$board")
  [ -n "$port" ] || fail "no free port (--tensorboard $board); name another one: --tensorboard PORT"
  mkdir -p outputs
  "$python" -m tensorboard.main --logdir outputs --port "$port" >outputs/tensorboard.log 2>&1 </dev/null &
  pid=$!
  echo "TensorBoard (process $pid): http://localhost:$port/"
  # The training takes the place of this shell, so signals and exit codes are its own; who waits for its
  # end, to end TensorBoard and nothing else, is a shell beside it.
  (
    trap '' INT TERM HUP
    while kill -0 $$ 2>/dev/null; do sleep 0.5; done
    kill "$pid" 2>/dev/null
  ) >/dev/null 2>&1 </dev/null &
fi
exec "${command[@]}"
