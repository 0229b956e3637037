#!/bin/sh
# What an engineer would type instead of `apply` for the same end state: RAID0 over the given drives, XFS, mount unit,
# tmpfs, initramfs. Run as root on a fresh rehearsal machine: by_hand.sh SERIAL...
set -eu
members=""
for serial in "$@"; do members="$members /dev/disk/by-id/nvme-QEMU_NVMe_Ctrl_$serial"; done

# as a careful engineer: one rebuild of the initramfs at the end, not one more when mdadm is installed
DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends -o DPkg::Options::=--no-triggers \
  -o DPkg::NoTriggers=true -o DPkg::ConfigurePending=false mdadm xfsprogs >/dev/null
dpkg --no-triggers --configure --pending >/dev/null

# shellcheck disable=SC2086 # a list of by-id paths without blanks
mdadm --create /dev/md/scratch --run --level=0 --raid-devices=$# --chunk=512 --metadata=1.2 --homehost=any \
  --name=scratch $members
udevadm settle
mkfs.xfs -q -K -L scratch /dev/md/scratch
mdadm --detail --brief /dev/md/scratch >> /etc/mdadm/mdadm.conf

uuid=$(blkid -s UUID -o value /dev/md/scratch)
mkdir -p /scratch /mnt/hot /srv/project
chattr +i /scratch
chmod 1777 /srv/project
cat > /etc/systemd/system/scratch.mount <<UNIT
[Mount]
What=/dev/disk/by-uuid/$uuid
Where=/scratch
Type=xfs
Options=noatime,nofail,logbsize=256k
[Install]
WantedBy=multi-user.target
UNIT
cat > /etc/systemd/system/mnt-hot.mount <<UNIT
[Mount]
What=tmpfs
Where=/mnt/hot
Type=tmpfs
Options=size=68m,mode=1777,nosuid,nodev
[Install]
WantedBy=local-fs.target
UNIT
echo 'ACTION=="add|change", KERNEL=="md*", ATTR{queue/read_ahead_kb}="8192"' > /etc/udev/rules.d/90-scratch.rules
udevadm control --reload
blockdev --setra 16384 /dev/md/scratch
systemctl daemon-reload
systemctl enable -q --now scratch.mount mnt-hot.mount fstrim.timer
chmod 1777 /scratch
dpkg --configure --pending # the trigger that waits rebuilds the initramfs
