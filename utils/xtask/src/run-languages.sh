#!/bin/sh
# Tries kernels and programs in C, C++ and Python: compiles the examples with nvcc by every way of linking, runs
# programs, the Python package's tests, and PyTorch beside a server; sums up in the last line.
#
#   ./run-languages [part ...]     parts: cpp (compiling and programs), cmake, python, torch; all of them by default
#
# GPUNET_GPU      the GPU to run on: cuda (default), cuda:N or emulated
# GPUNET_ARCH     the architecture to compile for (default 90)
# GPUNET_NVCC     nvcc, where it is neither on the path nor in /usr/local/cuda/bin
# GPUNET_LOGS     the folder for logs (default: logs beside this script)
set -u
here=$(cd "$(dirname "$0")" && pwd)
from=$here/languages
sdk=$from/sdk
programs=$from/host/c/tests/programs
gpu=${GPUNET_GPU:-cuda}
arch=${GPUNET_ARCH:-90}
logs=${GPUNET_LOGS:-$here/logs}
parts=${*:-cpp cmake python torch}
export CUDA_DEVICE_MAX_CONNECTIONS="${CUDA_DEVICE_MAX_CONNECTIONS:-32}"
mkdir -p "$logs" || exit 1
# Set where this script runs itself: `timeout` runs programs, and some steps are functions of it.
work=${GPUNET_LANGUAGES_WORK:-}
if [ -z "$work" ]; then
    work=$(mktemp -d) || exit 1
    trap 'rm -rf "$work"' EXIT
    export GPUNET_LANGUAGES_WORK="$work"
fi
self="sh $here/run-languages --function"
# An archive may have lost the link.
[ -e "$sdk/lib/libgpunet.so" ] || cp "$sdk/lib/libgpunet.so.1" "$sdk/lib/libgpunet.so"
export LD_LIBRARY_PATH="$sdk/lib${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}"

passed=0 failed=0 skipped=0
reasons=$work/reasons
[ "${1:-}" = --function ] || : >"$reasons"

is_there() { command -v "$1" >/dev/null 2>&1; }

# Counts something that cannot be done here.
skip() {
    printf '%-44s skipped: %s\n' "$1" "$2"
    echo "skipped  $1: $2" >>"$reasons"
    skipped=$((skipped + 1))
}

# Runs a step for at most so many seconds, with a log of its own: step NAME SECONDS COMMAND ... Its exit status 77
# says that it cannot run here, for the reason in the last line.
step() {
    name=$1 limit=$2
    shift 2
    log=$logs/$(echo "$name" | tr ' /,' '---').log
    begin=$(date +%s)
    timeout -k 10 "$limit" "$@" >"$log" 2>&1 </dev/null
    status=$?
    case $status in
        0)
            passed=$((passed + 1))
            printf '%-44s passed   %s s\n' "$name" "$(($(date +%s) - begin))"
            ;;
        77) skip "$name" "$(tail -n 1 "$log")" ;;
        *)
            why="status $status: $(tail -n 1 "$log")"
            [ "$status" -ge 124 ] && [ "$status" -le 137 ] && why="not done within $limit s: $(tail -n 1 "$log")"
            failed=$((failed + 1))
            printf '%-44s FAILED   %s\n' "$name" "$why"
            echo "failed   $name: $why ($log)" >>"$reasons"
            ;;
    esac
    [ "$status" -eq 0 ]
}

nvcc=${GPUNET_NVCC:-$(command -v nvcc || true)}
[ -n "$nvcc" ] || { [ -x /usr/local/cuda/bin/nvcc ] && nvcc=/usr/local/cuda/bin/nvcc; }
# The tests of the package look for it, too.
[ -z "$nvcc" ] || export GPUNET_NVCC="$nvcc"
case $gpu in cuda*) on_cuda=yes ;; *) on_cuda=no ;; esac
sources="$sdk/examples/first.cu $sdk/examples/echo.cu $sdk/examples/client.cu $sdk/examples/poll_server.cu
    $sdk/examples/slices.cu $from/host/c/tests/kernels.cu"
base() { basename "$1" .cu; }

# Makes images of all sources by one way, in a folder of its own: way NAME
way() {
    mkdir -p "$work/$1"
    code="-gencode arch=compute_$arch,code=sm_$arch"
    for source in $sources; do
        to=$work/$1/$(base "$source")
        # shellcheck disable=SC2086
        case $1 in
            emulated) g++ -std=c++17 -O2 -g -fPIC -fno-exceptions -shared -I "$sdk/include" -x c++ "$source" -o "$to.so" ;;
            # PTX, which the driver links with the library in libgpunet.
            ptx) "$nvcc" -std=c++17 -rdc=true -ptx "-arch=sm_$arch" -I "$sdk/include" "$source" -o "$to.ptx" ;;
            # Machine code that is not linked yet: the driver does.
            cubin) "$nvcc" -std=c++17 -rdc=true -cubin "-arch=sm_$arch" -I "$sdk/include" "$source" -o "$to.cubin" ;;
            fatbin) "$nvcc" -std=c++17 -rdc=true -fatbin $code -I "$sdk/include" "$source" -o "$to.fatbin" ;;
            # Linked here with the library's object.
            linked-*)
                "$nvcc" -std=c++17 -dc $code -I "$sdk/include" "$source" -o "$to.o" &&
                    "$nvcc" $code -dlink "-${1#linked-}" "$to.o" "$sdk/lib/gpunet/gpunet_device.o" -o "$to.${1#linked-}"
                ;;
        esac || return 1
    done
}

# Programs in C and C++, with the library beside them or inside.
host_programs() {
    static="-rdynamic -Wl,--whole-archive $sdk/lib/libgpunet.a -Wl,--no-whole-archive -lgcc_s -lutil -lrt -lpthread -lm -ldl"
    shared="-L$sdk/lib -lgpunet -Wl,-rpath,$sdk/lib -pthread"
    # shellcheck disable=SC2086
    cc -std=c11 -O2 -I "$sdk/include" "$programs/server.c" -o "$work/server" $shared &&
        g++ -std=c++17 -O2 -I "$sdk/include" "$programs/cases.cpp" -o "$work/cases" $shared &&
        g++ -std=c++17 -O2 -I "$sdk/include" "$sdk/examples/first.cpp" -o "$work/first" $shared &&
        g++ -std=c++17 -O2 -I "$sdk/include" "$sdk/examples/serve.cpp" -o "$work/serve" $shared &&
        g++ -std=c++17 -O2 -I "$sdk/include" "$programs/cases.cpp" -o "$work/cases_static" $static
}

# A program that launches its kernel itself, under a lease: single NAME LIBRARY ...
single() {
    to=$1
    shift
    if [ "$on_cuda" = yes ]; then
        "$nvcc" -std=c++17 -rdc=true "-arch=sm_$arch" -I "$sdk/include" "$programs/single.cu" "$sdk/lib/gpunet/gpunet_device.o" \
            -o "$to" "$@"
    else
        g++ -std=c++17 -O1 -g -I "$sdk/include" -x c++ "$programs/single.cu" -x none -o "$to" -pthread "$@"
    fi
}

# Cases of the C++ program with the images of a way: cases PROGRAM WAY CASE ...
cases() {
    program=$1 way=$2
    shift 2
    kind=${way#linked-}
    [ "$way" = emulated ] && kind=so
    for case in "$@"; do
        step "$program $way $case" 130 "$work/$program" "$work/$way" "$case" "$gpu" "$kind"
    done
}

cpp() {
    is_there g++ || { skip "C and C++" "g++ is not installed"; return; }
    step "programs compile" 300 $self host_programs || return
    ways="ptx cubin fatbin linked-cubin linked-fatbin"
    # There nvcc's images are compiled, and not run.
    [ "$on_cuda" = yes ] || ways="emulated $ways"
    for way in $ways; do
        case $way in
            emulated) ;;
            *) [ -n "$nvcc" ] || { skip "kernels compile, $way" "nvcc is not installed"; continue; } ;;
        esac
        step "kernels compile, $way" 300 $self way "$way" || continue
        [ "$on_cuda" = yes ] || [ "$way" = emulated ] || continue
        kind=${way#linked-}
        case $way in
            ptx | emulated)
                [ "$way" = emulated ] && kind=so
                cases cases "$way" echo client poll_server slices groups words timeouts endings stream graph lease kept leaves
                cases cases_static "$way" echo stream lease
                step "C server, $way" 60 python3 "$from/client.py" 50 "$work/server" "$work/$way/echo.$kind" "$gpu"
                step "serve, $way" 60 python3 "$from/client.py" 50 "$work/serve" "$work/$way/poll_server.$kind" poll_server "$gpu"
                step "first, $way" 60 python3 "$from/client.py" 50 "$work/first" "$work/$way/first.$kind" "$gpu"
                ;;
            *) cases cases "$way" echo client slices ;;
        esac
    done
    if [ "$on_cuda" = yes ] && [ -z "$nvcc" ]; then
        skip "a program with its own kernels" "nvcc is not installed"
        return
    fi
    # Both flags are nvcc's words for what g++ has behind -Wl.
    if [ "$on_cuda" = yes ]; then rpath="-Xlinker -rpath -Xlinker $sdk/lib"; else rpath="-Wl,-rpath,$sdk/lib"; fi
    # shellcheck disable=SC2086
    step "a program with its own kernels compiles" 300 $self single "$work/single" "-L$sdk/lib" -lgpunet $rpath &&
        step "a program with its own kernels" 90 "$work/single"
    if [ "$on_cuda" = yes ]; then
        step "the same with libgpunet.a compiles" 300 $self single "$work/single_static" -Xlinker --whole-archive \
            "$sdk/lib/libgpunet.a" -Xlinker --no-whole-archive -lgcc_s -lutil -lrt -lpthread -lm -ldl &&
            step "the same with libgpunet.a" 90 "$work/single_static"
    fi
}

# CMake as docs/tutorial/cpp.md has it.
by_cmake() {
    is_there cmake || { skip "CMake" "cmake is not installed"; return; }
    set -- -S "$sdk/examples" -B "$work/build" "-DCMAKE_PREFIX_PATH=$sdk"
    [ -z "$nvcc" ] || set -- "$@" "-DGPUNET_NVCC=$nvcc"
    step "CMake finds the package" 120 cmake "$@" && step "CMake builds the examples" 600 cmake --build "$work/build" || return
    kind=so
    [ "$on_cuda" = no ] || kind=fatbin
    step "CMake's server" 60 python3 "$from/client.py" 50 "$work/build/serve" "$work/build/echo.$kind" echo_server "$gpu"
    step "CMake's first" 60 python3 "$from/client.py" 50 "$work/build/first" "$work/build/first_kernels.$kind" "$gpu"
    [ -n "$nvcc" ] || { skip "gpunet_link_device" "nvcc is not installed"; return; }
    mkdir -p "$work/linked" && cp "$from/linked.cmake" "$work/linked/CMakeLists.txt"
    step "gpunet_link_device finds nvcc" 180 cmake -S "$work/linked" -B "$work/linked/build" "-DCMAKE_PREFIX_PATH=$sdk" \
        "-DPROGRAMS=$programs" "-DCMAKE_CUDA_COMPILER=$nvcc" "-DCMAKE_CUDA_ARCHITECTURES=$arch" &&
        step "gpunet_link_device builds" 300 cmake --build "$work/linked/build" || return
    [ "$on_cuda" = yes ] || return
    step "gpunet_link_device's program" 90 "$work/linked/build/single"
}

# The wheels unpacked: no pip, and nothing is installed.
site() {
    [ -d "$work/site" ] && return
    mkdir -p "$work/site"
    for wheel in "$from"/wheels/*.whl; do
        python3 -m zipfile -e "$wheel" "$work/site" || return 1
    done
}

imports() {
    site && PYTHONPATH="$work/site" python3 -c "import gpunet, sys; print(gpunet.__version__, gpunet.Gpu(sys.argv[1]))" "$gpu"
}

# The package's tests, counted one by one: pytest NAME SECONDS ARGUMENTS ...
tests() {
    name=$1 limit=$2
    shift 2
    log=$logs/$name.log
    (
        cd "$from/host/python" || exit 1
        PYTHONPATH="$work/site${PYTHONPATH:+:$PYTHONPATH}" PYTHONDONTWRITEBYTECODE=1 GPUNET_PYTHON_GPU="$gpu" \
            GPUNET_PYTHON_PTX="$from/ptx" timeout -k 10 "$limit" python3 -m pytest -p no:cacheprovider -v -rs \
            --color=no --tb=short "$@" >"$log" 2>&1 </dev/null
    )
    status=$?
    number() { tail -n 1 "$log" | sed -n "s/.*[ =]\([0-9][0-9]*\) $1.*/\1/p"; }
    p=$(number passed) f=$(number failed) e=$(number error) i=$(number skipped)
    p=${p:-0} f=$((${f:-0} + ${e:-0})) i=${i:-0}
    if [ "$status" -ne 0 ] && [ "$f" -eq 0 ]; then
        f=1
        echo "failed   $name: status $status: $(tail -n 1 "$log") ($log)" >>"$reasons"
        # A process that was ended has no sum: what it had done is in its lines.
        [ "$p" -gt 0 ] || p=$(grep -c ' PASSED' "$log")
    fi
    printf '%-44s %s passed, %s failed, %s skipped\n' "$name" "$p" "$f" "$i"
    sed -n "s/^\(FAILED\|ERROR\) /failed   $name: /p; s/^SKIPPED /skipped  $name: /p" "$log" >>"$reasons"
    passed=$((passed + p)) failed=$((failed + f)) skipped=$((skipped + i))
}

in_python() {
    is_there python3 || { skip "Python" "python3 is not installed"; return; }
    python3 -c 'import numpy' 2>/dev/null || { skip "Python" "numpy is not installed"; return; }
    if [ "$on_cuda" = no ] && ! python3 -c 'import numba' 2>/dev/null; then
        skip "Python" "numba is not installed, which compiles kernels for the emulated GPU"
        return
    fi
    step "the wheel imports" 60 $self imports || return
    tests "python" 420 --ignore=tests/test_torch.py tests
}

# PyTorch beside a server; where that fails, each stage by itself, with all of PyTorch's kernels loaded at once.
torch() {
    python3 -c 'import importlib.util, sys; sys.exit(importlib.util.find_spec("torch") is None)' 2>/dev/null ||
        { skip "PyTorch beside a server" "PyTorch is not installed"; return; }
    step "the wheel imports for PyTorch" 60 $self imports || return
    example=$from/host/python/examples/train_beside_server.py
    set -- --gpu "$gpu" --deadline 60
    if [ "$on_cuda" = yes ] && [ -n "$nvcc" ]; then
        [ -f "$work/ptx/echo.ptx" ] || step "kernels compile for PyTorch" 300 $self way ptx
        set -- "$@" --image "$work/ptx/echo.ptx"
    fi
    PYTHONPATH="$work/site${PYTHONPATH:+:$PYTHONPATH}"
    export PYTHONPATH
    if step "PyTorch beside a server" 240 python3 "$example" "$@"; then
        sed -n '/^{/,$p' "$logs/PyTorch-beside-a-server.log"
        return
    fi
    [ "$status" -ne 77 ] || return
    cat "$logs/PyTorch-beside-a-server.log"
    for stage in alone server probe idle beside stream graph; do
        step "PyTorch, $stage alone, eager" 75 python3 "$example" "$@" --steps 100 --eager --stage "$stage"
    done
}

if [ "${1:-}" = --function ]; then
    shift
    "$@"
    exit
fi
for part in $parts; do
    case $part in
        cpp) cpp ;;
        cmake) by_cmake ;;
        python) in_python ;;
        torch) torch ;;
        *) echo "no part '$part': cpp, cmake, python or torch" && exit 2 ;;
    esac
done
cat "$reasons"
if [ $((passed + failed + skipped)) -eq 0 ]; then
    echo "failed   nothing ran"
    failed=1
fi
echo "$passed passed, $failed failed, $skipped skipped"
[ "$failed" -eq 0 ]
