# What the guest's jobs share.
ADDRESS=10.0.0.1
ADDRESS6=fd00::1
COUNTERS=/sys/class/infiniband/rxe0/ports/1/hw_counters
# Runs the suites over RDMA.
RDMA="GPUNET_TRANSPORT=rdma GPUNET_ADDRESS=$ADDRESS GPUNET_ADDRESS6=$ADDRESS6 GPUNET_LINK=dummy0"
PRELOAD=/usr/lib/x86_64-linux-gnu/rsocket/librspreload.so

# Waits until somebody listens on a port of the RDMA connection manager; fails if the process $2,
# who is to do it, has ended.
listening() {
    until rdma resource show cm_id | grep "LISTEN" | grep -q ":$1 "; do
        kill -0 "$2" 2>/dev/null || return 1
        sleep 0.1
    done
}

# Runs a server and, when it listens on the port $1, a client; both have to succeed. CLIENT_MAY is
# another status with which the client may end.
pair() {
    $2 &
    server=$!
    listening "$1" "$server" || { echo "the server does not listen" >&2; exit 1; }
    $3
    status=$?
    case $status in
    0 | "${CLIENT_MAY:-0}") ;;
    *) echo "the client failed with status $status" >&2; exit 1 ;;
    esac
    wait "$server" || { echo "the server failed with status $?" >&2; exit 1; }
}

# A stream program ($1) on the port $2 against itself; both ends take the same options.
stream() {
    program=$1 port=$2
    shift 2
    pair "$port" "$program -p $port $*" "$program -p $port -s $ADDRESS $*"
}

# The stock rstream as the client of a kernel, on the port $1; both take the same options. OURS and
# STOCK are further ones of either end.
drives_kernel() {
    port=$1
    shift
    pair "$port" "/apps/rstream --transport rdma -p $port $OURS $*" \
        "rstream -p $port -s $ADDRESS $STOCK $*"
}

# The same as its server.
driven_by_kernel() {
    port=$1
    shift
    pair "$port" "rstream -p $port $STOCK $*" \
        "/apps/rstream --transport rdma -p $port -s $ADDRESS $OURS $*"
}

# Both, on the ports $1 and $1 + 1.
against_stock() {
    first=$1
    shift
    drives_kernel "$first" "$@"
    driven_by_kernel $((first + 1)) "$@"
}

# How many packets the RDMA device has sent.
packets() { cat "$COUNTERS/sent_pkts"; }
