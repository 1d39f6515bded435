#!/usr/bin/env bash
# Runs SLURM on only this machine, for tests; needs Debian's slurm-wlm and munge, and
# root.
#   slurm.sh start FOLDER [CPUS]   starts SLURM; FOLDER stores its state and logs
#   slurm.sh stop FOLDER           ends the processes that `start FOLDER` started
# After `start`, programs find SLURM by SLURM_CONF=FOLDER/slurm.conf.
set -euo pipefail

die() {
  printf 'slurm.sh: %s\n' "$*" >&2
  exit 1
}

# wait_for SECONDS COMMAND...: runs COMMAND again until it succeeds.
wait_for() {
  local n=$(($1 * 5))
  shift
  until "$@" >/dev/null 2>&1; do
    ((n-- > 0)) || die "no success within time: $*"
    sleep 0.2
  done
}

write_conf() {
  local folder=$1 cpus=$2 host
  host=$(hostname -s)
  cat >"$folder/slurm.conf" <<CONF
ClusterName=test
SlurmctldHost=$host(127.0.0.1)
SlurmctldPort=16817
SlurmdPort=16818
AuthType=auth/munge
AuthInfo=socket=$folder/munge.socket
CredType=cred/munge
SlurmUser=root
SlurmdUser=root
StateSaveLocation=$folder/state
SlurmdSpoolDir=$folder/spool
SlurmctldPidFile=$folder/slurmctld.pid
SlurmdPidFile=$folder/slurmd.pid
SlurmctldLogFile=$folder/slurmctld.log
SlurmdLogFile=$folder/slurmd.log
# A container cannot create cgroups, and has no systemd.
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
JobAcctGatherType=jobacct_gather/none
AccountingStorageType=accounting_storage/none
MpiDefault=none
SelectType=select/cons_tres
SelectTypeParameters=CR_CPU
SchedulerParameters=bf_interval=1,sched_interval=1
KillWait=30
MinJobAge=300
ReturnToService=2
SlurmdParameters=config_overrides
NodeName=$host NodeAddr=127.0.0.1 CPUs=$cpus State=UNKNOWN
PartitionName=test Nodes=$host Default=YES MaxTime=60 State=UP
CONF
}

start() {
  local folder=$1 cpus=${2:-8} program
  ((EUID == 0)) || die "only root can start it"
  for program in slurmctld slurmd munged; do
    command -v "$program" >/dev/null || die "apt-get install slurm-wlm munge"
  done
  mkdir -p "$folder/state" "$folder/spool" "$folder/munge"
  chmod 700 "$folder/munge"
  head -c 1024 /dev/urandom >"$folder/munge/key"
  chmod 600 "$folder/munge/key"
  write_conf "$folder" "$cpus"
  export SLURM_CONF=$folder/slurm.conf
  munged --force --key-file="$folder/munge/key" --socket="$folder/munge.socket" \
    --pid-file="$folder/munged.pid" --log-file="$folder/munge/log" \
    --seed-file="$folder/munge/seed"
  slurmctld -i
  slurmd
  wait_for 60 test -s "$folder/slurmd.pid"
  wait_for 60 bash -c "sinfo --noheader --format=%T | grep -qE '^(idle|mixed)'"
}

# Each daemon wrote its own pid, so no other process is ended.
stop() {
  local folder=$1 name pid
  for name in slurmd slurmctld munged; do
    pid=$(cat "$folder/$name.pid" 2>/dev/null) || continue
    kill "$pid" 2>/dev/null || continue
    wait_for 30 bash -c "! kill -0 $pid"
  done
}

(($# >= 2)) || die "start FOLDER [CPUS], or stop FOLDER"
case $1 in
  start) start "${@:2}" ;;
  stop) stop "$2" ;;
  *) die "unknown: $1" ;;
esac
