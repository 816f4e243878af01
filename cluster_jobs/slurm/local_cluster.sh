#!/bin/bash
# SPDX-License-Identifier: MIT
# A real Slurm of two virtual nodes on this machine, to try batch jobs out without a cluster. Touches no configuration of
# the machine: everything lies in one folder, on ports of its own, and no daemon needs root. Each node has its own name
# and its own /dev/shm, as machines have; else an MPI library would find the memory of one node's ranks on the other.
#
#   local_cluster.sh install          Debian or Ubuntu packages slurm-wlm and munge, if slurmctld or munged is missing
#   local_cluster.sh start [FOLDER]   prints the line that makes sbatch, srun and squeue find it: export SLURM_CONF=...
#   local_cluster.sh stop [FOLDER]    ends its jobs and its daemons
set -euo pipefail

PATH=$PATH:/usr/sbin:/sbin
FOLDER=$(realpath -m "${2:-/tmp/celerity_py-slurm-$(id -u)}")
NODES=2 CPUS=4 GPUS=2
FIRST_PORT=${LOCAL_CLUSTER_PORT:-26817} # of the controller; the nodes have those that follow

install_packages() {
    if command -v slurmctld slurmd munged sbatch > /dev/null; then return; fi
    command -v apt-get > /dev/null || { echo "Install slurmctld, slurmd and munge: this only knows apt-get." >&2; exit 1; }
    local as_root=()
    [ "$(id -u)" = 0 ] || as_root=(sudo)
    "${as_root[@]}" apt-get update -qq
    # Daemons that the packages start would use a configuration of the machine, which there is none of.
    "${as_root[@]}" env DEBIAN_FRONTEND=noninteractive apt-get install -qq --no-install-recommends slurm-wlm munge
}

write_configuration() {
    local host user cgroups=disabled version node gpu
    host=$(hostname -s) user=$(id -un)
    version=$(slurmctld -V | grep -oE '[0-9]+\.[0-9]+' | head -1)
    [[ $version > 23.02 ]] || cgroups=cgroup/v1 # older ones cannot do without
    echo "CgroupPlugin=$cgroups" > "$FOLDER/cgroup.conf"
    # Any device will do for a GPU, as long as no program uses it; without one the nodes would be drained.
    for ((gpu = 0; gpu < GPUS; gpu++)); do ln -s /dev/null "$FOLDER/gpu$gpu"; done
    echo "NodeName=n[1-$NODES] Name=gpu File=$FOLDER/gpu[0-$((GPUS - 1))]" > "$FOLDER/gres.conf"
    # No binding to cores: the nodes pretend to have more of them than there are.
    cat > "$FOLDER/slurm.conf" << END
ClusterName=local
SlurmctldHost=$host(127.0.0.1)
SlurmctldPort=$FIRST_PORT
SlurmUser=$user
SlurmdUser=$user
AuthType=auth/munge
AuthInfo=socket=$FOLDER/munge.socket,cred_expire=10
CredType=cred/munge
MpiDefault=none
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
SelectType=select/cons_tres
SelectTypeParameters=CR_CPU
SchedulerParameters=batch_sched_delay=0,sched_interval=2,bf_interval=2
ReturnToService=2
KillWait=5
MinJobAge=900
SlurmctldPidFile=$FOLDER/slurmctld.pid
SlurmdPidFile=$FOLDER/slurmd.%n.pid
StateSaveLocation=$FOLDER/state
SlurmdSpoolDir=$FOLDER/spool.%n
SlurmctldLogFile=$FOLDER/slurmctld.log
SlurmdLogFile=$FOLDER/slurmd.%n.log
AccountingStorageType=accounting_storage/none
JobAcctGatherType=jobacct_gather/none
JobCompType=jobcomp/none
SlurmdParameters=config_overrides
GresTypes=gpu
END
    for ((node = 1; node <= NODES; node++)); do
        echo "NodeName=n$node NodeHostname=$host NodeAddr=127.0.0.1 Port=$((FIRST_PORT + node)) CPUs=$CPUS Gres=gpu:$GPUS"
    done >> "$FOLDER/slurm.conf"
    { cat /etc/hosts; for ((node = 1; node <= NODES; node++)); do echo "127.0.0.1 n$node"; done; } > "$FOLDER/hosts"
    echo "PartitionName=main Nodes=ALL Default=YES MaxTime=INFINITE State=UP" >> "$FOLDER/slurm.conf"
}

start() {
    stop
    if [ -e "$FOLDER" ] && [ ! -e "$FOLDER/slurm.conf" ]; then
        echo "$FOLDER exists and is no folder of a local cluster: remove it, or name another one." >&2
        exit 1
    fi
    rm -rf "$FOLDER"
    mkdir -p "$FOLDER/state"
    chmod 755 "$FOLDER"
    (umask 077 && head -c 1024 /dev/urandom > "$FOLDER/munge.key")
    # Forced: it would rather not run below /tmp, where others may create files, though none in this folder.
    munged --force --socket="$FOLDER/munge.socket" --key-file="$FOLDER/munge.key" --pid-file="$FOLDER/munged.pid" \
        --log-file="$FOLDER/munged.log" --seed-file="$FOLDER/munged.seed" 2>> "$FOLDER/munged.log"
    write_configuration
    local namespaces=(unshare --mount --uts --ipc)
    [ "$(id -u)" = 0 ] || namespaces+=(--user --map-current-user --keep-caps)
    "${namespaces[@]}" true || { echo "Virtual nodes need namespaces, which are not allowed here: try as root." >&2; exit 1; }
    export SLURM_CONF=$FOLDER/slurm.conf
    slurmctld
    for ((node = 1; node <= NODES; node++)); do
        mkdir "$FOLDER/spool.n$node"
        "${namespaces[@]}" bash -c \
            "hostname n$node && mount -t tmpfs tmpfs /dev/shm && mount --bind '$FOLDER/hosts' /etc/hosts && exec slurmd -N n$node"
    done
    for ((attempt = 0; attempt < 100; attempt++)); do
        [ "$(sinfo --noheader --states=idle --format=%D 2> /dev/null)" = "$NODES" ] && { echo "export SLURM_CONF=$SLURM_CONF"; return; }
        sleep 0.2
    done
    echo "The nodes have not become idle within 20 s:" >&2
    { sinfo --long --Node; tail -n 5 "$FOLDER"/*.log; } >&2
    exit 1
}

stop() {
    local file
    [ -d "$FOLDER" ] || return 0
    if [ -s "$FOLDER/slurmctld.pid" ]; then
        SLURM_CONF=$FOLDER/slurm.conf timeout 10 scancel --full --user="$(id -un)" 2> /dev/null || true
        sleep 1
    fi
    for file in "$FOLDER"/slurmd.*.pid "$FOLDER/slurmctld.pid" "$FOLDER/munged.pid"; do
        [ -s "$file" ] || continue
        end_daemon "$(cat "$file")" "$file"
    done
}

# The file may be old and its number another process's by now: only what was started from this folder is ended.
end_daemon() {
    local process=$1 file=$2
    grep -qE '^(slurmd|slurmctld|munged)$' "/proc/$process/comm" 2> /dev/null || return 0
    kill "$process" 2> /dev/null || true
    for ((attempt = 0; attempt < 50; attempt++)); do
        grep -qE '^(slurmd|slurmctld|munged)$' "/proc/$process/comm" 2> /dev/null || break
        [[ $(awk '{print $3}' "/proc/$process/stat" 2> /dev/null) != Z ]] || break
        sleep 0.1
    done
    rm -f "$file"
}

case ${1:-} in
    install) install_packages ;;
    start) start ;;
    stop) stop ;;
    *) sed -n '3,10s/^# \{0,1\}//p' "$0"; exit 2 ;;
esac
