#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Starts a Slurm on this machine, runs a command in its environment, and stops it:
#
#     tests/cluster/slurm_one_node.sh [--nodes N] COMMAND...
#
# There is one node, or N that are all this machine; each says that it has 4 processors, so that 4 tasks
# run at a time. Configuration, key, state and logs are in a folder of their own, which is removed. Needs
# root, and Debian's slurm-wlm and munge. Exit code 77, and a line that says why, where it cannot start;
# else the command's.
set -u
nodes=1
if [ "${1-}" = --nodes ]; then
    nodes=$2
    shift 2
fi

cannot() {
    echo "slurm_one_node: $*" >&2
    exit 77
}

[ "$(id -u)" = 0 ] || cannot "needs root"
for program in munged munge slurmctld slurmd sbatch srun sinfo; do
    command -v "$program" >/dev/null || PATH=$PATH:/usr/sbin command -v "$program" >/dev/null ||
        cannot "no $program (Debian: slurm-wlm, munge)"
done
PATH=$PATH:/usr/sbin

at=$(mktemp -d /tmp/qkscope-slurm-XXXXXX)
processes=()
stop() {
    scancel --state=RUNNING,PENDING -u root 2>/dev/null
    for ((i = ${#processes[@]} - 1; i >= 0; i--)); do
        kill "${processes[i]}" 2>/dev/null
        wait "${processes[i]}" 2>/dev/null
    done
    rm -rf "$at"
}
trap stop EXIT

host=$(hostname -s)
port=$((20000 + $$ % 10000))
mkdir "$at/state"
chmod 755 "$at"

# The key's folder must be root's alone.
mkdir -m 700 "$at/munge"
head -c 1024 /dev/urandom >"$at/munge/key"
chmod 600 "$at/munge/key"
munged --foreground --force --key-file="$at/munge/key" --socket="$at/munge.socket" \
    --pid-file="$at/munge/pid" --seed-file="$at/munge/seed" --num-threads=2 2>"$at/munged.log" &
processes+=($!)

cat >"$at/slurm.conf" <<EOF
ClusterName=one
SlurmctldHost=$host(127.0.0.1)
SlurmctldPort=$port
SlurmUser=root
SlurmdUser=root
AuthType=auth/munge
AuthInfo=socket=$at/munge.socket
CredType=cred/munge
CryptoType=crypto/munge
StateSaveLocation=$at/state
SlurmdSpoolDir=$at/spool-%n
SlurmctldPidFile=$at/slurmctld.pid
SlurmdPidFile=$at/slurmd-%n.pid
SlurmctldLogFile=$at/slurmctld.log
SlurmdLogFile=$at/slurmd-%n.log
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
JobAcctGatherType=jobacct_gather/none
AccountingStorageType=accounting_storage/none
SelectType=select/cons_tres
SelectTypeParameters=CR_CPU
SchedulerType=sched/builtin
SchedulerParameters=batch_sched_delay=0,sched_interval=1,sched_min_interval=0
MpiDefault=none
ReturnToService=2
SlurmdParameters=config_overrides
MaxArraySize=1001
KillWait=2
NodeName=n[1-$nodes] NodeHostname=$host NodeAddr=127.0.0.1 Port=[$((port + 1))-$((port + nodes))] CPUs=4 State=UNKNOWN
PartitionName=all Nodes=ALL Default=YES MaxTime=10 State=UP OverSubscribe=NO
EOF
export SLURM_CONF=$at/slurm.conf

slurmctld -D -f "$SLURM_CONF" >"$at/ctld.out" 2>&1 &
processes+=($!)

start_node() {
    slurmd -D -f "$SLURM_CONF" -N "n$1" >"$at/slurmd-n$1.out" 2>&1 &
    node=$!
}

# Nothing here needs control groups, but slurmd begins with them: some plugin may suit this machine.
for plugin in disabled cgroup/v1 cgroup/v2; do
    echo "CgroupPlugin=$plugin" >"$at/cgroup.conf"
    start_node 1
    sleep 0.3
    kill -0 "$node" 2>/dev/null && break
    node=
done
[ -n "$node" ] || { tail -n 5 "$at"/*.log >&2; cannot "slurmd does not start"; }
processes+=("$node")
for ((i = 2; i <= nodes; i++)); do
    start_node "$i"
    processes+=("$node")
done

# sinfo lists what the nodes are, each state once: all must be idle.
for _ in $(seq 100); do
    [ "$(sinfo -h -o %t 2>/dev/null)" = idle ] && ready=yes && break
    sleep 0.2
done
[ -n "${ready-}" ] || { tail -n 5 "$at"/*.log >&2; cannot "Slurm did not start within 20 s"; }
"$@"
