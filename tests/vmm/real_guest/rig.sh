#!/bin/bash
# Linux guests on a machine without usable KVM, from package registries alone, below build/real-guest.
#
#   rig.sh setup   downloads and builds everything; nothing is installed in the system
#   rig.sh guest   a Linux guest under QEMU's emulation, with the vsock protocol at run/guest/v.sock
#   rig.sh outer   the same with KVM on emulated SVM and FIRECRACKER_BIN, at run/outer/v.sock
#   rig.sh debian  the disk of docs/vmm/guest.md, with systemd, at run/debian/v.sock
#   rig.sh stop    ends all
set -euo pipefail
HERE=$(cd "$(dirname "$0")" && pwd)
ROOT=$(cd "$HERE/../../.." && pwd)
W=${RIG:-$ROOT/build/real-guest}
PYTHON=${PYTHON:-python3}
mkdir -p "$W"/{dl,root,run,tools}
cd "$W"

need() { command -v "$1" >/dev/null || { echo "real-guest: $1 is missing: $2" >&2; exit 3; }; }

download() {
    need apt-get "the rig takes its programs from Debian's packages"
    need dpkg "the rig unpacks Debian's packages"
    [ "$(id -u)" = 0 ] || { echo "real-guest: apt-get update needs root" >&2; exit 3; }
    cd dl
    apt-get update -q >/dev/null
    local new kernel version
    new=$(apt-get install --no-install-recommends -s qemu-system-x86 linux-image-cloud-amd64 2>/dev/null |
        awk '/^Inst/ {print $2}')
    kernel=$(apt-cache depends linux-image-cloud-amd64 | awk '/Depends: linux-image/ {print $2; exit}')
    version=$(apt-cache depends python3-minimal | sed -n 's/.*Depends: \(python3\.[0-9]*-minimal\)/\1/p' | head -1)
    # shellcheck disable=SC2086
    apt-get download -q $new $kernel $version lib$version busybox-static cpio lz4 libc6 zlib1g libexpat1 >/dev/null 2>&1
    for package in *.deb; do dpkg -x "$package" ../root; done
    touch .ready
    cd ..
}

build_vsock() {  # the same CONNECT / OK on a unix socket as Firecracker's
    [ -x tools/bin/vhost-device-vsock ] && return
    need cargo "it builds vhost-device-vsock"
    CARGO_HOME=${CARGO_HOME:-$W/cargo} cargo install -q --locked --root tools vhost-device-vsock
}

in_root() { LD_LIBRARY_PATH=$W/root/usr/lib/x86_64-linux-gnu:$W/root/lib/x86_64-linux-gnu "$@"; }

modules() {  # modules SYSTEM NAME...
    local to=$1/modules number=100 module file
    shift
    mkdir -p "$to"
    for module in "$@"; do
        file=$(find root/lib/modules -name "$module.ko" | head -1)
        [ -z "$file" ] || cp "$file" "$to/$((number += 1))-$module.ko"
    done
}

VIRTIO="virtio virtio_ring virtio_mmio virtio_pci_legacy_dev virtio_pci_modern_dev virtio_pci
    vsock vmw_vsock_virtio_transport_common vmw_vsock_virtio_transport"

system() {  # system FOLDER MODULES...: busybox, Python, the agent, and the init that a user gets
    local to=$1 file tool
    shift
    rm -rf "$to"
    mkdir -p "$to"/{bin,sbin,dev,proc,sys,tmp,run,root,etc,usr/bin,lib64,usr/lib}
    cp "$(find root -path '*/bin/busybox' | head -1)" "$to/bin/"
    for tool in $("$to/bin/busybox" --list); do [ -e "$to/bin/$tool" ] || ln -s busybox "$to/bin/$tool"; done
    cp root/usr/bin/python3.* "$to/usr/bin/python3"
    mkdir -p "$to/lib/x86_64-linux-gnu"
    for file in libc.so.6 libm.so.6 libz.so.1 libexpat.so.1; do
        cp -L "$(find root -name "$file" | head -1)" "$to/lib/x86_64-linux-gnu/"
    done
    cp -L "$(find root -name 'ld-linux-x86-64.so.2' | head -1)" "$to/lib64/"
    cp -r root/usr/lib/python3.* "$to/usr/lib/"
    rm -rf "$to"/usr/lib/python3*/lib-dynload
    PYTHONHOME=$to/usr in_root "$to/usr/bin/python3" -S -m compileall -q "$to/usr/lib" >/dev/null || true
    echo 'root:x:0:0:root:/root:/bin/sh
user:x:1000:1000:user:/tmp:/bin/sh' >"$to/etc/passwd"
    echo 'root:x:0:
user:x:1000:' >"$to/etc/group"
    mkdir -p "$to/usr/lib/guest-agent"
    "$PYTHON" "$ROOT/generated_vmm/guest/__main__.py" >"$to/usr/lib/guest-agent/agent.py"
    "$PYTHON" "$ROOT/generated_vmm/guest/__main__.py" init >"$to/sbin/init"
    chmod +x "$to/sbin/init"
    modules "$to" "$@"
    printf '#!/bin/sh\nfor turn in 1 2 3; do for file in /modules/*; do insmod "$file" 2>/dev/null; done; done\nexec /sbin/init\n' >"$to/init"
    chmod +x "$to/init"
}

pack() {
    (cd "$1" && find . | in_root "$W/root/bin/cpio" -o -H newc --quiet | gzip -1) >"$2"
}

unpack_kernel() {  # Firecracker loads ELF kernels only; the header says where one is, docs/vmm/guest.md
    "$PYTHON" - root/boot/vmlinuz-*cloud* >vmlinux.lz4 <<'PY'
import struct, sys
image = open(sys.argv[1], "rb").read()
offset, length = struct.unpack_from("<II", image, 0x248)
start = ((image[0x1F1] or 4) + 1) * 512 + offset
sys.stdout.buffer.write(image[start : start + length - 4])
PY
    in_root "$(find root -path '*/bin/lz4' | head -1)" -d -q -f vmlinux.lz4 vmlinux || [ -s vmlinux ]
}

debian() {  # the system, disk and kernel of the page, by its own commands
    local page=$ROOT/docs/vmm/guest.md tool
    for tool in debootstrap lz4 mkfs.ext4; do
        command -v "$tool" >/dev/null || { echo "real-guest: $tool is missing: it makes the Debian disk"; return 0; }
    done
    if [ "$page" -nt debian/vmlinux ]; then
        rm -rf debian
        mkdir debian
        "$PYTHON" - "$page" >debian/steps.sh <<'PY'
import re, sys
text = open(sys.argv[1]).read().partition("## The start")[0]
for language, block in re.findall(r"```(sh|python)\n(.*?)```", text, re.DOTALL):
    print(block if language == "sh" else f"python3 - <<'PYTHON'\n{block}PYTHON\n")
PY
        (cd debian && PATH=$ROOT/.venv/bin:$PATH bash -eux steps.sh) >debian.log 2>&1
    fi
    "$PYTHON" "$ROOT/generated_vmm/guest/__main__.py" >debian/rootfs/usr/lib/guest-agent/agent.py
    "$PYTHON" "$ROOT/generated_vmm/guest/__main__.py" unit >debian/rootfs/etc/systemd/system/guest-agent.service
    rm debian/rootfs.ext4
    mkfs.ext4 -q -d debian/rootfs debian/rootfs.ext4 1G
}

setup() {
    [ -e dl/.ready ] || download
    build_vsock
    debian
    system guest $VIRTIO
    pack guest guest.gz
    [ -z "${FIRECRACKER_BIN:-}" ] && return
    [ -s vmlinux ] || unpack_kernel
    system outer-system $VIRTIO irqbypass ccp kvm kvm-amd
    mkdir -p outer-system/vm
    cp "$FIRECRACKER_BIN" outer-system/bin/firecracker
    cp vmlinux outer-system/vm/vmlinux
    cp guest.gz outer-system/vm/initrd.gz
    pack outer-system outer.gz
}

stop() {  # stop NAME
    local name
    for name in qemu vhost; do
        [ ! -f "run/$1/$name.pid" ] || kill "$(cat "run/$1/$name.pid")" 2>/dev/null || true
        rm -f "run/$1/$name.pid"
    done
}

start() {  # start NAME MEMORY KERNEL INITRD OPTION...: all rigs can run at once
    stop "$1"
    local run=run/$1
    rm -rf "$run"
    mkdir -p "$run"
    tools/bin/vhost-device-vsock --vm "guest-cid=3,socket=$run/vhost.sock,uds-path=$run/v.sock" \
        >"$run/vhost.log" 2>&1 &
    echo $! >"$run/vhost.pid"
    for _ in $(seq 200); do [ -S "$run/vhost.sock" ] && break; sleep 0.05; done
    LD_LIBRARY_PATH=root/usr/lib/x86_64-linux-gnu:root/lib/x86_64-linux-gnu root/usr/bin/qemu-system-x86_64 \
        -L root/usr/share/qemu -L root/usr/share/seabios -L root/usr/lib/ipxe/qemu \
        -M q35 -cpu max -accel tcg,thread=multi -smp 1 -m "$2" \
        -object "memory-backend-memfd,id=m,size=$2,share=on" -machine memory-backend=m \
        -nodefaults -no-user-config -display none -serial "file:$run/serial.log" -no-reboot \
        -kernel "$3" -initrd "$4" "${@:5}" \
        -append "console=ttyS0 root=/dev/vda panic=-1 mitigations=off quiet tsc=reliable no_timer_check" \
        -chardev "socket,id=v,path=$run/vhost.sock" -device vhost-user-vsock-pci,chardev=v \
        >"$run/qemu.log" 2>&1 &
    echo $! >"$run/qemu.pid"
}

case ${1:-} in
    setup) setup ;;
    guest) start guest 512M root/boot/vmlinuz-*cloud* guest.gz ;;
    outer) start outer 2048M root/boot/vmlinuz-*cloud* outer.gz ;;
    debian)
        start debian 768M debian/rootfs/boot/vmlinuz-* debian/initrd.img \
            -drive file=debian/rootfs.ext4,format=raw,if=virtio,snapshot=on ;;
    stop) stop guest; stop outer; stop debian ;;
    *) sed -n 2,9p "$0" ; exit 2 ;;
esac
