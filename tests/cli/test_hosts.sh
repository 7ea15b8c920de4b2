# SPDX-License-Identifier: Apache-2.0
# meshlo run in several processes: the same results as in one, written once.
cat >step.hlo <<'HLO'
HloModule step, num_partitions=8
add {
  a = f32[] parameter(0)
  b = f32[] parameter(1)
  ROOT s = f32[] add(a, b)
}
ENTRY main {
  x = f32[64,32] parameter(0), sharding={devices=[8,1]<=[8]}
  w = f32[32,48] parameter(1), sharding={devices=[1,8]<=[8]}
  h = f32[64,48] dot(x, w), lhs_contracting_dims={1}, rhs_contracting_dims={0}
  t = f32[64,48] tanh(h)
  z = f32[] constant(0)
  total = f32[] reduce(t, z), dimensions={0,1}, to_apply=add
  rows = f32[64] reduce(t, z), dimensions={1}, to_apply=add
  ROOT out = (f32[64,48], f32[64], f32[]) tuple(t, rows, total)
}
HLO
exits 0 "hosts: one process" meshlo run step.hlo --on v5e:2x4 --seed 3 --output one --print
mv out one.txt
for processes in 2 4 8; do
    exits 0 "hosts: $processes processes" meshlo launch --on v5e:2x4 --processes $processes --no-prefix -- "$MESHLO" run step.hlo --on v5e:2x4 --seed 3 --output "out$processes" --print
    check "hosts: $processes processes: printed once, as by one" diff one.txt out
    check "hosts: $processes processes: the same files" diff -r one "out$processes"
done
exits 0 "hosts: compared" meshlo launch --on v5e:2x4 -- "$MESHLO" run step.hlo --on v5e:2x4 --seed 3 --compare eval
exits 2 "hosts: the evaluator has one process" meshlo launch --on v5e:2x4 --grace 0 -- "$MESHLO" run step.hlo --on v5e:2x4 --engine eval
says err "--engine eval runs in one process, but MESHLO_PROCESS_ADDRESSES has 2" "hosts: the evaluator has one process: said"

# As mpirun and srun start processes: without addresses, on one machine.
# started VARIABLES…: runs two processes of a scheduler, whose number replaces %.
started() {
    local code=0 i pid pids=()
    for i in 0 1; do
        env TMPDIR="$PWD" "${@//%/$i}" "$MESHLO" run step.hlo --on v5e:2x4 --seed 3 --print >"out.$i" 2>"err.$i" &
        pids+=($!)
    done
    for pid in "${pids[@]}"; do wait "$pid" || code=$?; done
    return $code
}
check "hosts: Open MPI" started OMPI_COMM_WORLD_SIZE=2 OMPI_COMM_WORLD_RANK=% OMPI_COMM_WORLD_LOCAL_SIZE=2 PMIX_NAMESPACE=job1
check "hosts: Open MPI: the same results" diff one.txt out.0
check "hosts: Open MPI: printed once" test ! -s out.1
check "hosts: Slurm" started SLURM_JOB_ID=7 SLURM_STEP_ID=0 SLURM_STEP_NODELIST=n SLURM_NTASKS=2 SLURM_PROCID=% SLURM_LOCALID=% SLURM_TASKS_PER_NODE=2
check "hosts: Slurm: the same results" diff one.txt out.0
if command -v mpirun >/dev/null; then
    exits 0 "hosts: mpirun" env TMPDIR="$PWD" mpirun --allow-run-as-root --oversubscribe -n 2 "$MESHLO" run step.hlo --on v5e:2x4 --seed 3 --print
    check "hosts: mpirun: the same results" diff one.txt out
else
    echo "NOT RUN: mpirun: this machine does not have Open MPI"
fi
check "hosts: nothing is left behind" test -z "$(find . -maxdepth 1 -name 'meshlo-*')"

# Processes that do not fit together.
exits 2 "hosts: too many processes" env OMPI_COMM_WORLD_SIZE=3 OMPI_COMM_WORLD_RANK=0 "$MESHLO" run step.hlo --on v5e:2x4 --seed 3
says err "OMPI_COMM_WORLD_SIZE has 3 processes, but v5e:2x4 has 2 hosts" "hosts: too many processes: said"
exits 2 "hosts: on several machines without addresses" env OMPI_COMM_WORLD_SIZE=2 OMPI_COMM_WORLD_RANK=0 OMPI_COMM_WORLD_LOCAL_SIZE=1 "$MESHLO" run step.hlo --on v5e:2x4 --seed 3
says err "nothing says how they reach each other" "hosts: on several machines without addresses: said"
exits 0 "hosts: they need not belong together" env MESHLO_PROCESS_INDEX=all OMPI_COMM_WORLD_SIZE=3 OMPI_COMM_WORLD_RANK=0 "$MESHLO" run step.hlo --on v5e:2x4 --seed 3 --print
check "hosts: they need not belong together: the same results" diff one.txt out

# A process that is killed, stopped or delayed at some moment.
check "hosts: faults" python3 -B "$SOURCE/tests/cli/faults.py" "$MESHLO" 5
