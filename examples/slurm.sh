#!/bin/bash
#SBATCH --job-name=ringzero
#SBATCH --nodes=2
#SBATCH --ntasks-per-node=4
#
# Runs a program as the ranks of a job, on one node or several:
#
#   sbatch slurm.sh rz_train --stage 1 --epochs 3
#   sbatch --nodes=1 slurm.sh python3 numpy_all_reduce.py
#
# Rank 0 serves the rendezvous. Over several nodes it asks the others for the secret in
# RZ_TOKEN_FILE, here in the home folder, which all nodes see. What goes over the network is not
# encrypted.
set -euo pipefail
export RZ_TOKEN_FILE=$HOME/.ringzero-$SLURM_JOB_ID
trap 'rm -f "$RZ_TOKEN_FILE"' EXIT
(umask 077; head -c 32 /dev/urandom | base64 >"$RZ_TOKEN_FILE")
srun --kill-on-bad-exit=1 "$@"
