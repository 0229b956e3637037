"""Public keys of package repositories: armour, fingerprint, and by which hash a key is bound. No gpg is needed.

RFC 9580 (and RFC 4880 before it): packet headers 4.2, armour 6, signatures 5.2, fingerprint of a version 4 key 5.5.4.2.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import re
from collections.abc import Iterator
from typing import NamedTuple

_ARMOUR = re.compile(r"-----BEGIN PGP PUBLIC KEY BLOCK-----(.*?)-----END PGP PUBLIC KEY BLOCK-----", re.S)
_SIGNATURE, _KEY, _SUBKEY = 2, 6, 14
_BINDING = (0x10, 0x11, 0x12, 0x13, 0x1F)  # certifications of a name, and of the key itself
_SHA1, _MD5 = 2, 1
_CRC_START, _CRC_POLYNOMIAL = 0xB704CE, 0x1864CFB


class BadKey(Exception):
    """What was given is no public key that can be judged; the text says why."""


class Key(NamedTuple):
    """A primary key; `weak` where every signature that binds a name to it rests on SHA-1 or MD5."""

    fingerprint: str
    weak: bool


def packets_of(data: bytes) -> bytes:
    """The binary packets of a key, armoured or not; raises BadKey."""
    if not data:
        raise BadKey("it is empty")
    if data[0] & 0x80:
        return data
    text = data.decode("ascii", "replace")
    blocks = _ARMOUR.findall(text)
    if not blocks:
        raise BadKey("it holds no PGP PUBLIC KEY BLOCK")
    return b"".join(_dearmoured(block) for block in blocks)


def armoured(packets: bytes) -> str:
    """The packets as text, without any header."""
    body = base64.b64encode(packets).decode()
    lines = [body[at : at + 64] for at in range(0, len(body), 64)]
    check = base64.b64encode(_crc(packets).to_bytes(3, "big")).decode()
    return "\n".join(
        ["-----BEGIN PGP PUBLIC KEY BLOCK-----", "", *lines, f"={check}", "-----END PGP PUBLIC KEY BLOCK-----", ""]
    )


def keys(packets: bytes) -> list[Key]:
    """The primary keys in their order; raises BadKey for none, for a secret one and for what is cut off."""
    found: list[tuple[str, list[int]]] = []
    subkey = False
    for tag, body in _packets(packets):
        if tag == _KEY:
            found.append((_fingerprint(body), []))
        elif tag in (5, 7):
            raise BadKey("it holds a secret key, which belongs on no host")
        subkey = tag == _SUBKEY or (subkey and tag == _SIGNATURE)
        if tag == _SIGNATURE and found and not subkey:
            found[-1][1].extend(_binding_hash(body))
    if not found:
        raise BadKey("it holds no public key")
    return [Key(print_, bool(hashes) and set(hashes) <= {_SHA1, _MD5}) for print_, hashes in found]


def _dearmoured(block: str) -> bytes:
    lines = [line.strip() for line in block.strip("\r\n").splitlines()]
    if "" in lines:  # headers end with an empty line
        lines = lines[lines.index("") + 1 :]
    check = next((line[1:] for line in lines if line.startswith("=")), "")
    try:
        data = base64.b64decode("".join(line for line in lines if not line.startswith("=")), validate=True)
        if check and int.from_bytes(base64.b64decode(check), "big") != _crc(data):
            raise BadKey("its checksum is wrong: the file is damaged")
    except (binascii.Error, ValueError):
        raise BadKey("its armour is damaged") from None
    return data


def _crc(data: bytes) -> int:
    value = _CRC_START
    for byte in data:
        value ^= byte << 16
        for _ in range(8):
            value <<= 1
            if value & 0x1000000:
                value ^= _CRC_POLYNOMIAL
    return value & 0xFFFFFF


def _packets(data: bytes) -> Iterator[tuple[int, bytes]]:
    """Tag and body of each packet."""
    at = 0
    while at < len(data):
        head = data[at]
        if not head & 0x80:
            raise BadKey("it is damaged: no packet where one must begin")
        if head & 0x40:
            tag, (size, start) = head & 0x3F, _new_length(data, at + 1)
        else:
            tag, octets = (head >> 2) & 0x0F, 1 << (head & 3)
            if octets == 8:
                raise BadKey("it has a packet without a length")
            size, start = int.from_bytes(data[at + 1 : at + 1 + octets], "big"), at + 1 + octets
        if start + size > len(data):
            raise BadKey("it is cut off")
        yield tag, data[start : start + size]
        at = start + size


def _new_length(data: bytes, at: int) -> tuple[int, int]:
    first = data[at] if at < len(data) else 255
    if first < 192:
        return first, at + 1
    if first < 224 and at + 1 < len(data):
        return ((first - 192) << 8) + data[at + 1] + 192, at + 2
    if first == 255 and at + 5 <= len(data):
        return int.from_bytes(data[at + 1 : at + 5], "big"), at + 5
    raise BadKey("it is cut off, or has a packet in parts")


def _fingerprint(body: bytes) -> str:
    if not body or body[0] != 4:
        version = body[0] if body else "none"
        raise BadKey(f"it holds a key of version {version}; apt and rpm are given keys of version 4")
    data = b"\x99" + len(body).to_bytes(2, "big") + body
    return hashlib.sha1(data, usedforsecurity=False).hexdigest().upper()


def _binding_hash(body: bytes) -> list[int]:
    """The hash of a signature that binds a name to the key, or the key itself; empty for others."""
    if len(body) > 3 and body[0] == 4 and body[1] in _BINDING:
        return [body[3]]
    return []
