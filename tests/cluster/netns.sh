#!/usr/bin/env bash
# Two network namespaces on this machine, joined by a cable that can be cut: netns.sh
#   up NAME               makes NAME-head (10.77.0.1) and NAME-work (10.77.0.2)
#   cut NAME | join NAME  sets the cable's end in NAME-work down, or up again
#   down NAME             removes both; end their processes first
#   can                   exits with 1, with the reason, if namespaces cannot be created
# Needs root and the command ip (Debian: iproute2).
set -euo pipefail

up() {
  local name=$1
  ip netns add "$name-head"
  ip netns add "$name-work"
  # Names of interfaces can have at most 15 characters.
  ip link add lh-head netns "$name-head" type veth peer name lh-work netns "$name-work"
  ip -n "$name-head" address add 10.77.0.1/24 dev lh-head
  ip -n "$name-work" address add 10.77.0.2/24 dev lh-work
  local side
  for side in head work; do
    ip -n "$name-$side" link set lo up
    ip -n "$name-$side" link set "lh-$side" up
  done
}

down() {
  ip netns delete "$1-head" 2>/dev/null || true
  ip netns delete "$1-work" 2>/dev/null || true
}

can() {
  local name=lh-try-$$ problem
  if [[ $(id -u) != 0 ]]; then
    echo "network namespaces need root" >&2
    return 1
  fi
  if ! command -v ip >/dev/null; then
    echo "network namespaces need the command ip (Debian: iproute2)" >&2
    return 1
  fi
  if ! problem=$(up "$name" 2>&1); then
    down "$name"
    echo "this machine has no network namespaces: $problem" >&2
    return 1
  fi
  down "$name"
}

case ${1:-} in
  up) up "$2" ;;
  down) down "$2" ;;
  cut) ip -n "$2-work" link set lh-work down ;;
  join) ip -n "$2-work" link set lh-work up ;;
  can) can ;;
  *) sed -n '2,7s/^# //p' "$0" >&2; exit 2 ;;
esac
