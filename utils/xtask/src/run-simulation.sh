#!/bin/sh
# Plays scenes of the simulation on all cores; needs neither a GPU nor a toolchain.
#
#   ./run-simulation [seeds [first seed]]
#
# 100,000 seeds from 0 on unless others are given. The last line says how it went; a seed that fails is replayed
# alone with GPUNET_SIMULATION_SEED=N ./run-simulation. GPUNET_SIMULATION_BUGS=1 looks for the planted
# bugs as well.
set -u
here=$(cd "$(dirname "$0")" && pwd)
export GPUNET_SIMULATION_SEEDS="${1:-100000}"
export GPUNET_SIMULATION_FIRST_SEED="${2:-0}"
tests=simulation::tests::seeds_are_played_without_a_complaint
[ -z "${GPUNET_SIMULATION_BUGS:-}" ] || tests=simulation::
exec "$here/simulation/gpunet_host" --test-threads 1 --nocapture "$tests"
