#!/bin/sh
# Runs every end-to-end test suite of this folder, and on CUDA the tests of the layer over its driver;
# sums up in the last line.
#
#   ./run-tests [test name filter ...]
#
# GPUNET_GPU           the GPU to run on: cuda (default) or emulated
# GPUNET_TEST_THREADS  tests at the same time, in one suite (default 2)
# GPUNET_TEST_LIMIT    seconds after which a suite is ended (default 300)
# GPUNET_FAULT_TABLE   file to which the suites add how long each fault took to reach its kernel
# GPUNET_LONG          set to 1: tests that draw their cases draw many more; raise the limit, too
set -u
here=$(cd "$(dirname "$0")" && pwd)
export GPUNET_GPU="${GPUNET_GPU:-cuda}"
export GPUNET_BIN_DIR="$here/bin"
# Tests run many kernels at once, and none is to wait for another to end.
export CUDA_DEVICE_MAX_CONNECTIONS="${CUDA_DEVICE_MAX_CONNECTIONS:-32}"
threads=${GPUNET_TEST_THREADS:-2}
limit=${GPUNET_TEST_LIMIT:-300}
scratch=$(mktemp -d) || exit 1
trap 'rm -rf "$scratch"' EXIT
export GPUNET_SKIP_LOG="$scratch/skipped"
export GPUNET_FAULT_TABLE="${GPUNET_FAULT_TABLE:-$scratch/faults}"

passed=0 failed=0 skipped=0
reasons=$scratch/reasons
: >"$reasons"

# Runs a test program with some arguments, and counts its tests.
run_suite() {
    suite=$1
    shift
    name=${suite##*/}
    log=$scratch/log
    : >"$GPUNET_SKIP_LOG"
    timeout -k 10 "$limit" "$suite" --test-threads "$threads" "$@" >"$log" 2>&1 </dev/null
    status=$?
    counts=$(sed -n 's/^test result: .* \([0-9]*\) passed; \([0-9]*\) failed; \([0-9]*\) ignored.*/\1 \2 \3/p' "$log" | tail -n 1)
    unable=$(grep -c . "$GPUNET_SKIP_LOG")
    if [ -n "$counts" ]; then
        read -r p f i <<COUNTS
$counts
COUNTS
        p=$((p - unable)) i=$((i + unable))
        line="$p passed, $f failed, $i skipped"
        if [ "$status" -ne 0 ] && [ "$f" -eq 0 ]; then
            f=1 line="$line, then ended with status $status"
            echo "failed   $name: ended with status $status" >>"$reasons"
        fi
    else
        p=0 f=1 i=0 line="ended without a result, status $status"
        [ "$status" -eq 124 ] && line="did not end within $limit s"
        echo "failed   $name: $line" >>"$reasons"
    fi
    printf '%-24s %s\n' "$name" "$line"
    sed -n "s/^test \(.*\) \.\.\. ignored,* *\(.*\)/skipped  $name: \1: \2/p" "$log" >>"$reasons"
    sed "s/^/skipped  $name: /" "$GPUNET_SKIP_LOG" >>"$reasons"
    sed -n "s/^test \(.*\) \.\.\. FAILED.*/failed   $name: \1/p" "$log" >>"$reasons"
    [ "$f" -eq 0 ] || cat "$log"
    passed=$((passed + p)) failed=$((failed + f)) skipped=$((skipped + i))
}

for suite in "$here"/tests/*; do
    if [ -x "$suite" ]; then run_suite "$suite" "$@"; fi
done
# Ignored where cargo runs them, since they need a GPU.
for suite in "$here"/cuda-tests/*; do
    [ -x "$suite" ] || continue
    case $GPUNET_GPU in
        cuda*) run_suite "$suite" --ignored "$@" ;;
        *)
            name=${suite##*/}
            "$suite" --ignored --list "$@" 2>/dev/null | sed -n 's/: test$//p' >"$scratch/list"
            i=$(grep -c . "$scratch/list")
            printf '%-24s %s\n' "$name" "0 passed, 0 failed, $i skipped"
            sed "s/^\(.*\)/skipped  $name: \1: needs a CUDA GPU/" "$scratch/list" >>"$reasons"
            skipped=$((skipped + i))
            ;;
    esac
done
if [ -s "$GPUNET_FAULT_TABLE" ] && [ -f "$here/fault-table.awk" ]; then
    echo "| fault | calls that wait | result | due after | longest | test |"
    echo "| --- | --- | --- | --- | --- | --- |"
    awk -f "$here/fault-table.awk" "$GPUNET_FAULT_TABLE" | sort
fi
cat "$reasons"
if [ $((passed + failed + skipped)) -eq 0 ]; then
    echo "failed   no test ran"
    failed=1
fi
echo "$passed passed, $failed failed, $skipped skipped"
[ "$failed" -eq 0 ]
