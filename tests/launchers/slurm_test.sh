#!/usr/bin/env bash
# srun alone starts ringzero's programs, on one node and on two. A Slurm of its own runs in
# namespaces of its own, which end with it; its nodes n0 and n1 have addresses of a network of their
# own, and one host.
set -euo pipefail
. tests/launchers/common.sh
for program in srun slurmctld slurmd; do
  command -v "$program" >/dev/null || [ -x "/usr/sbin/$program" ] ||
    skip slurm "no $program: tools/setup --with slurm"
done
if [ "${1:-}" != inside ]; then
  unshare -nmpf --mount-proc setpriv --clear-groups true 2>/dev/null ||
    skip slurm "namespaces cannot be made here, or groups not given up (root can)"
  exec timeout 900 unshare -nmpf --mount-proc --propagation private "$0" inside
fi
export PATH=$PATH:/usr/sbin

folder=$(mktemp -d /tmp/rz_slurmXXXXXX)
ip link set lo up
ip link add nodes type veth peer name other
for address in 10.77.0.1 10.77.0.2; do ip addr add "$address/24" dev nodes; done
ip link set nodes up
ip link set other up
host=$(hostname)
printf '%s\n' "127.0.0.1 localhost $host" "10.77.0.1 n0" "10.77.0.2 n1" >"$folder/hosts"
mount --bind "$folder/hosts" /etc/hosts
# Other tests' sockets are elsewhere.
sockets=/tmp/ringzero-$(id -u)
[ -d "$sockets" ] || mkdir -m 700 "$sockets"
mount -t tmpfs -o mode=700 tmpfs "$sockets"

export SLURM_CONF=$folder/slurm.conf
cat >"$SLURM_CONF" <<TXT
ClusterName=test
SlurmctldHost=$host(10.77.0.1)
SlurmctldPort=26817
AuthType=auth/none
CredType=cred/none
SlurmUser=root
SlurmdUser=root
StateSaveLocation=$folder/state
SlurmdSpoolDir=$folder/spool.%n
SlurmctldPidFile=$folder/slurmctld.pid
SlurmdPidFile=$folder/slurmd.%n.pid
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
JobAcctGatherType=jobacct_gather/none
SelectType=select/linear
SwitchType=switch/none
MpiDefault=none
MailProg=/bin/true
ReturnToService=2
SlurmdParameters=config_overrides
NodeName=n[0-1] NodeHostname=localhost NodeAddr=10.77.0.[1-2] Port=[26818-26819] CPUs=4
PartitionName=all Nodes=n[0-1] Default=YES
TXT
echo 'CgroupPlugin=cgroup/v1' >"$folder/cgroup.conf"
mkdir "$folder/state"
slurmctld -D >"$folder/slurmctld.log" 2>&1 &
slurmd -D -N n0 >"$folder/n0.log" 2>&1 &
slurmd -D -N n1 >"$folder/n1.log" 2>&1 &
trap 'if [ $? != 0 ]; then tail -n 20 "$folder"/*.log; fi; rm -rf "$folder"' EXIT

step() {
  local ranks=$1
  shift
  timeout 300 srun -Q -n "$ranks" "$@"
}
on_one() { step "$1" -N 1 "${@:2}"; }
on_two() { step "$1" -N 2 "${@:2}"; }

three_programs on_one
[ "$(on_one 1 "$ALL_REDUCE")" = "rank 0 of 1: sum 1" ] || fail "one rank is no world of one"

# Two steps of an allocation at once do not meet.
two_steps() {
  # shellcheck disable=SC2016
  timeout 300 salloc -Q -N 2 bash -c '
    srun -Q -N 1 -n 2 "$0" >"$1" & srun -Q -N 1 -n 3 "$0" && wait "$!"' \
    "$ALL_REDUCE" "$folder/other"
}
all_ranks 3 two_steps
all_ranks 2 cat "$folder/other"

# Over nodes a secret is asked for, and where there is none it is said what to do.
if on_two 2 "$ALL_REDUCE" >"$folder/refused" 2>&1; then fail "served other nodes without a token"; fi
grep -q 'several nodes (SLURM_STEP_NODELIST=n\[0-1\]): set RZ_TOKEN_FILE' "$folder/refused" || {
  cat "$folder/refused"
  fail "not said what to do"
}
(umask 077; head -c 32 /dev/urandom | base64 >"$folder/token")
export RZ_TOKEN_FILE=$folder/token
three_programs on_two
unset RZ_TOKEN_FILE

# A batch script is no step: a world of one, though it has SLURM_PROCID and SLURM_NTASKS.
timeout 300 sbatch -Q -W -N 1 -n 3 -o "$folder/alone" --wrap "$ALL_REDUCE" >/dev/null
[ "$(cat "$folder/alone")" = "rank 0 of 1: sum 1" ] || fail "a batch script: $(cat "$folder/alone")"

# The example, as a user submits it.
HOME=$folder timeout 300 sbatch -Q -W -N 2 --ntasks-per-node=2 -o "$folder/example" \
  examples/slurm.sh "$ALL_REDUCE" >/dev/null || { cat "$folder/example"; fail "examples/slurm.sh"; }
all_ranks 4 cat "$folder/example"
[ -z "$(find "$folder" -name '.ringzero*')" ] || fail "examples/slurm.sh has left its secret"

# What mpirun starts within a step is its, whatever SLURM_* say.
if command -v mpirun.mpich >/dev/null; then
  all_ranks 3 on_one 1 mpirun.mpich -launcher fork -rmk user -n 3 "$ALL_REDUCE"
fi
[ -z "$(ls "$sockets")" ] || fail "socket files are left: $(ls "$sockets")"
