"""States of spare drives in which somebody asks for a RAID0: shell that makes them and finds the data again.

Every script runs after `PRELUDE`, which defines the drives ($d0 … $d3, all of them in $drives, an odd one in $odd),
the device that is asked for ($wish) and the name its array has in a superblock ($name).
"""

from __future__ import annotations

from dataclasses import dataclass

BY_ID = "/dev/disk/by-id/nvme-QEMU_NVMe_Ctrl_"
MOUNT = "/scratch"

PRELUDE = r"""
export LC_ALL=C
exec 3>&1
said() { echo "data $1" >&3; }
hash() { sha256sum < "$1" | cut -c1-64; }
fill() { # DEVICE [xfs]: a file system with a file that the customer wants to keep
  if [ "${2:-ext4}" = xfs ]; then mkfs.xfs -q -K -f "$1"
  else mkfs.ext4 -q -F -L home -E lazy_itable_init=0,lazy_journal_init=0 "$1"; fi
  mkdir -p /run/customer && mount "$1" /run/customer
  head -c 524288 /dev/urandom > /run/customer/data
  said "$(hash /run/customer/data)"
  umount /run/customer
}
look() { # DEVICE: the same file, read from the drive again
  echo 3 > /proc/sys/vm/drop_caches
  at=$(findmnt -rno TARGET -S "$(realpath "$1")" | head -1)
  if [ -z "$at" ]; then mkdir -p /run/look; mount -o ro "$1" /run/look && at=/run/look; fi
  if [ -n "$at" ] && [ -f "$at/data" ]; then said "$(hash "$at/data")"; fi
  ! mountpoint -q /run/look || umount /run/look
}
array() { # DRIVE...: the running array of these drives, started if need be
  md=$(ls "/sys/class/block/$(basename "$(realpath "$1")")/holders" 2>/dev/null | head -1)
  if [ -z "$md" ] || [ "$(cat "/sys/block/$md/md/array_state")" = inactive ]; then
    [ -z "$md" ] || mdadm --quiet --stop "/dev/$md"
    mdadm --quiet --assemble /dev/md99 "$@"; md=md99
  fi
  echo "/dev/$md"
}
back() { # a drive that was taken away comes back
  echo 1 > /sys/bus/pci/rescan
  for _ in 1 2 3 4 5 6 7 8 9 10; do [ ! -e "$d3" ] || break; sleep 1; done; udevadm settle
}
create() { # DEVICE DRIVE...: an array as it was made by whoever ran before
  made=$1; shift
  yes | mdadm --quiet --create "$made" --level=0 --raid-devices=$# --chunk=512 --metadata=1.2 \
    --homehost="${home:-any}" --name="$name" --run "$@"
  udevadm settle
}
"""

RESET = r"""
(
systemctl --quiet disable --now scratch.mount
for point in /scratch /data /run/look /run/customer; do umount --quiet --all-targets $point; done
vgchange -qq -an customer; cryptsetup close customer; dmsetup remove_all
mdadm --stop --scan; udevadm settle
back; mdadm --stop --scan
for drive in $drives $odd; do
  wipefs --all --force --quiet $drive; blockdev --rereadpt $drive; bytes=$(blockdev --getsize64 $drive)
  dd if=/dev/zero of=$drive bs=1M count=8; dd if=/dev/zero of=$drive bs=1M seek=$((bytes / 1048576 - 1))
done
[ -d /var/tmp/peers ] || { mkdir /var/tmp/peers; cp /etc/fstab /etc/mdadm/mdadm.conf /var/tmp/peers/; }
cp /var/tmp/peers/fstab /etc/fstab; cp /var/tmp/peers/mdadm.conf /etc/mdadm/mdadm.conf
chattr -i /scratch; rmdir /scratch /data
rm -rf /etc/systemd/system/scratch.mount /etc/systemd/system/fstrim.service.d /etc/udev/rules.d/99-llmhw-* \
  /var/lib/llmhw /run/llmhw
) > /dev/null 2>&1
systemctl daemon-reload; udevadm control --reload; udevadm settle
"""

# One fact a line: what the classification compares before and after.
READ = r"""
sync; udevadm settle
for serial in $serials; do
  link=$by_id$serial; hash=missing; node=
  if [ -e $link ]; then
    node=$(realpath $link); bytes=$(blockdev --getsize64 $link)
    if lsblk -nro MOUNTPOINT $link | grep -q .; then hash=mounted
    else hash=$({ dd if=$link iflag=direct bs=1M count=4; dd if=$link iflag=direct bs=1M \
      skip=$((bytes / 1048576 - 1)); } 2>/dev/null | md5sum | cut -c1-32); fi
  fi
  echo "drive $serial $hash $node"
done
for md in /sys/block/md*; do
  [ -d $md/md ] || continue
  uuid=$(mdadm --detail --export /dev/${md##*/} 2>/dev/null | sed -n s/^MD_UUID=//p)
  state=$(cat $md/md/array_state); [ $state = inactive ] || state=running
  [ "$state:$uuid" = inactive: ] && [ -z "$(ls $md/slaves)" ] && continue
  echo "array ${md##*/} $state $(cat $md/md/level) ${uuid:--} $(ls $md/slaves | tr '\n' ' ')"
done
grep -h '^ARRAY' /etc/mdadm/mdadm.conf | sed 's/.*UUID=\([0-9a-f:]*\).*/recorded \1/'
echo "files $(cat /etc/fstab /etc/mdadm/mdadm.conf /etc/systemd/system/scratch.mount 2>/dev/null | md5sum | cut -c1-32)"
if mountpoint -q /scratch; then echo "mounted $(basename "$(realpath "$(findmnt -rno SOURCE /scratch)")")"; fi
if [ -e "$wish" ]; then echo "named $(basename "$(realpath "$wish")")"; fi
"""


@dataclass(frozen=True)
class Scenario:
    """One state, the drives and the name that are asked for in it, and what a careful person would want to happen."""

    key: str
    title: str
    wanted: str
    state: str = ""
    probe: str = ""
    drives: tuple[str, ...] = ("d0", "d1", "d2", "d3")
    culprit: str = ""
    name: str = ""
    continues: bool = False
    reboot: bool = False


_ARRAY = "look $(array $d0 $d1 $d2 $d3)"
SCENARIOS = (
    Scenario("1", "four empty drives", "finishes"),
    Scenario(
        "1b",
        "the same again, with data",
        "nothing changed",
        "head -c 524288 /dev/urandom > /scratch/data; sync; said $(hash /scratch/data)",
        _ARRAY,
        continues=True,
    ),
    Scenario("15", "then a reboot (direct kernel boot)", "data mounted", "", _ARRAY, continues=True, reboot=True),
    Scenario("2", "a customer's ext4 on one drive", "refuses", "fill $d1", "look $d1", culprit="d1"),
    Scenario(
        "3",
        "a GPT whose partition holds data",
        "refuses",
        "echo ',,L' | sfdisk --quiet --label gpt $d1; udevadm settle; fill $d1-part1",
        "blockdev --rereadpt $d1; udevadm settle; look $d1-part1",
        culprit="d1",
    ),
    Scenario(
        "4",
        "an active LVM volume on one drive",
        "refuses",
        """pvcreate -qq -y $d1; vgcreate -qq customer $d1; lvcreate -qq -y -n data -L 512M customer
        fill /dev/customer/data""",
        "vgchange -qq -an customer; vgchange -qq -ay customer; look /dev/customer/data",
        culprit="d1",
    ),
    Scenario(
        "5",
        "LUKS on one drive, closed",
        "refuses",
        """printf secret | cryptsetup luksFormat -q --pbkdf pbkdf2 --pbkdf-force-iterations 1000 --key-file - $d1
        printf secret | cryptsetup open --key-file - $d1 customer
        fill /dev/mapper/customer; cryptsetup close customer""",
        "printf secret | cryptsetup open --key-file - $d1 customer && look /dev/mapper/customer",
        culprit="d1",
    ),
    Scenario("6", "drives of unequal size, empty", "refuses", drives=("d0", "d1", "d2", "odd"), culprit="odd"),
    Scenario(
        "7",
        "one drive is mounted elsewhere",
        "refuses",
        "fill $d1; mkdir -p /data; mount $d1 /data",
        "umount /data; look $d1",
        culprit="d1",
    ),
    Scenario(
        "8",
        "the array exists with data, but as md127 and with another homehost",
        "uses it",
        """home=oldname; create /dev/md126 $drives; fill /dev/md126 xfs; udevadm settle; mdadm --quiet --stop /dev/md126
        udevadm settle; mdadm --quiet --stop --scan; mdadm --quiet --assemble /dev/md127 $drives""",
        _ARRAY,
    ),
    Scenario("9", "cut off between mdadm --create and mkfs", "finishes", "create $wish $drives"),
    Scenario(
        "10",
        "cut off between mkfs and mount",
        "finishes",
        "create $wish $drives; mkfs.xfs -q -K -f -L scratch -d su=512k,sw=4 $wish",
    ),
    Scenario(
        "11",
        "mdadm.conf knows the array, its drives are blank",
        "refuses or renews the line",
        "echo ARRAY $wish metadata=1.2 UUID=6a1f0b52:c3d94e17:8b2d5f60:71e4a398 >> /etc/mdadm/mdadm.conf",
    ),
    Scenario(
        "12",
        "one drive is missing, the others hold the array",
        "refuses",
        """create /dev/md126 $drives; fill /dev/md126 xfs; udevadm settle; mdadm --quiet --stop /dev/md126
        udevadm settle; mdadm --quiet --stop --scan; node=$(realpath $d3); node=${node##*/}
        echo 1 > /sys/class/nvme/${node%n1}/device/remove; sleep 1; udevadm settle""",
        "back; " + _ARRAY,
        culprit="d3",
    ),
    Scenario(
        "13",
        "md1 is asked for over two empty drives, md10 with data runs",
        "finishes",
        "name=10; create /dev/md10 $d2 $d3; fill /dev/md10 xfs",
        "look $(array $d2 $d3)",
        drives=("d0", "d1"),
        name="md1",
    ),
    Scenario("14", "the name has a blank in it", "refuses", name="my scratch"),
)
