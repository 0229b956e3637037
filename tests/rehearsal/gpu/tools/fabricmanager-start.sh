#!/bin/sh
# Stand-in of the rehearsal machine: which way the switches of this board are programmed, as the vendor's script decides
# it: a management function of an NVLink 5 switch carries SW_MNG in its vital product data.
config=/usr/share/nvidia/nvswitch/fabricmanager.cfg
nvlsm_config=/usr/share/nvidia/nvlsm/nvlsm.conf
while [ $# -gt 0 ]; do
    case "$1" in
        --mode) mode=$2; shift ;;
        --fm-config-file) config=$2; shift ;;
        --nvlsm-config-file) nvlsm_config=$2; shift ;;
        --fm-pid-file|--nvlsm-pid-file) shift ;;
    esac
    shift
done
[ "${mode:-start}" = start ] || exit 0

managed=
for vpd in /sys/bus/pci/devices/*/vpd; do
    if [ -e "$vpd" ] && [ "$(cat "${vpd%/vpd}/vendor")" = 0x15b3 ] && grep -aq SW_MNG "$vpd"; then managed=1; fi
done

if [ "$managed" ]; then
    echo "Detected NVL5+ system"
    if ! command -v ibstat >/dev/null; then
        echo "ibstat: command not found, infiniband-diags is needed"
        exit 1
    fi
    if [ ! -d /sys/module/ib_umad ]; then
        echo "kernel module ib_umad has not been loaded, fabric manager cannot start"
        exit 1
    fi
    if [ ! -x /opt/nvidia/nvlsm/sbin/nvlsm ]; then
        echo "/opt/nvidia/nvlsm/sbin/nvlsm: not found"
        exit 1
    fi
    if ! /opt/nvidia/nvlsm/sbin/nvlsm -F "$nvlsm_config" -B --pid_file /var/run/nvidia-fabricmanager/nvlsm.pid; then
        echo "NVLSM failed to start"
        exit 1
    fi
    echo 'Started "NVLink Subnet Manager"'
else
    echo "Detected Pre-NVL5 system"
fi
if ! /usr/bin/nv-fabricmanager -c "$config"; then
    echo "\"/usr/bin/nv-fabricmanager -c $config\" failed! Exit code: 1"
    exit 1
fi
echo 'Started "Nvidia Fabric Manager"'
