#!/bin/busybox sh
# The guest's first program: makes an RDMA device out of a dummy interface, runs the jobs of
# /jobs/list one after the other, powers off. What begins with @gpunet is for the host.
/bin/busybox --install -s /bin
export PATH=/usr/sbin:/usr/bin:/bin HOME=/tmp TERM=linux
mount -t proc proc /proc
mount -t sysfs sys /sys
mount -t devtmpfs dev /dev
mkdir -p /dev/shm /dev/pts /tmp
mount -t tmpfs shm /dev/shm
mount -t devpts pts /dev/pts
exec </dev/null >/dev/console 2>&1
# The firmware's last line is without its end.
echo

say() { echo "@gpunet $*"; }
# Hundredths of a second since the start of the guest.
now() {
    read -r up _ </proc/uptime
    echo "${up%.*}${up#*.}"
}

while read -r module; do
    insmod "/modules/$module" || say "unable cannot load $module"
done </modules/order
# What the kernel says would tear what the jobs print; it is shown after each job.
dmesg -n 1

. /jobs/functions
ulimit -l unlimited
ulimit -n 65536
ip link set lo up
echo 0 >/proc/sys/net/ipv6/conf/dummy0/accept_dad
# Tests set it down and up.
echo 1 >/proc/sys/net/ipv6/conf/dummy0/keep_addr_on_down
ip address add "$ADDRESS/24" dev dummy0
ip address add "$ADDRESS6/64" dev dummy0
ip link set dummy0 up
rdma link add rxe0 type rxe netdev dummy0 || say "unable no RDMA device can be made"
dmesg -c
say ready

if grep -q gpunet.shell /proc/cmdline; then
    cat /jobs/list
    echo "Jobs are run with: sh /jobs/NAME. Leaving the shell ends the guest."
    setsid cttyhack sh -l
    poweroff -f
fi

export GPUNET_SKIP_LOG=/tmp/skipped GPUNET_GPU=emulated RUST_BACKTRACE=1
while read -r name limit; do
    : >"$GPUNET_SKIP_LOG"
    say "begin $name"
    began=$(now)
    timeout -k 5 "$limit" sh "/jobs/$name" </dev/null
    status=$?
    elapsed=$(($(now) - began))
    # Servers that a job left behind.
    kill -9 -1
    # A last line may be without its end.
    echo
    dmesg -c
    sed 's/^/@gpunet skip /' "$GPUNET_SKIP_LOG"
    say "end $name $status ${elapsed}0"
done </jobs/list
say done
poweroff -f
