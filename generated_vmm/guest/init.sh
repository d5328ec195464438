#!/bin/sh
# /sbin/init of an image without systemd: mounts what the agent needs, and runs it for ever.
# The shell collects the processes that programs leave behind.
export PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin HOME=/root
mount_at() { mkdir -p "$2" && mount -t "$1" "$1" "$2" 2>/dev/null; }
mount_at proc /proc
mount_at sysfs /sys
mount_at devtmpfs /dev
mount_at devpts /dev/pts
mount_at tmpfs /run
mount_at tmpfs /tmp
mount_at cgroup2 /sys/fs/cgroup
ip link set lo up 2>/dev/null
modprobe vmw_vsock_virtio_transport 2>/dev/null
ulimit -n 65536 # a program takes five
while :; do
    python3 -S /usr/lib/guest-agent/agent.py
    sleep 1
done
