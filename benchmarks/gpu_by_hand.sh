#!/bin/sh
# What an engineer would type instead of `apply` for the GPU packages on Debian: the vendor's key and source, the driver
# pinned, one apt-get for everything, holds, nouveau shut out, services, initramfs. It restarts nothing.
# Run as root: gpu_by_hand.sh REPOSITORY KEY DRIVER NAME=VERSION..., the first two of them addresses
set -eu
repository=$1 key=$2 driver=$3
shift 3
export DEBIAN_FRONTEND=noninteractive LC_ALL=C

mkdir -p /etc/apt/keyrings
/usr/lib/apt/apt-helper -qq -o APT::Sandbox::User=root download-file "$key" /etc/apt/keyrings/cuda.asc
chmod 644 /etc/apt/keyrings/cuda.asc
cat > /etc/apt/sources.list.d/cuda.sources <<EOF
Types: deb
URIs: $repository
Suites: ./
Signed-By: /etc/apt/keyrings/cuda.asc
EOF
# parts of the driver bind each other exactly, so apt must not look at a newer release of any part
cat > /etc/apt/preferences.d/cuda-driver <<EOF
Package: nvidia-* libnvidia-* firmware-nvidia-* libcuda* libnvcuvid* libnvoptix* libnvsdm* cuda-drivers*
Pin: version $driver-*
Pin-Priority: 1001
EOF
# before the packages, so that the one rebuild at the end has it
cat > /etc/modprobe.d/no-nouveau.conf <<EOF
blacklist nouveau
options nouveau modeset=0
EOF
printf 'nvidia\nnvidia_uvm\n' > /etc/modules-load.d/nvidia.conf

# only the new source is read: Debian's own lists are there
apt-get update -qq -o Dir::Etc::sourcelist=sources.list.d/cuda.sources -o Dir::Etc::sourceparts=- \
  -o APT::Get::List-Cleanup=0
apt-get install -y -qq --no-install-recommends "linux-headers-$(uname -r)" "$@" >/dev/null

names=$(for item in "$@"; do echo "${item%%=*}"; done)
parts=$(dpkg-query -W -f '${Package} ${Version}\n' | awk -v of="$driver-" 'index($2, of) == 1 {print $1}')
# shellcheck disable=SC2086 # lists of names without blanks
apt-mark hold $names $parts linux-image-amd64 linux-headers-amd64 >/dev/null

systemctl enable -q nvidia-persistenced
case " $names " in *nvidia-fabricmanager*) systemctl enable -q nvidia-fabricmanager ;; esac
echo 'export CUDA_HOME=/usr/local/cuda PATH="/usr/local/cuda/bin:$PATH"' > /etc/profile.d/cuda.sh
update-initramfs -u >/dev/null
