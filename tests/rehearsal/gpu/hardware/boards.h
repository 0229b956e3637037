/* SPDX-License-Identifier: GPL-2.0 */
/*
 * The boards that exist, by the product name in the machine's DMI data, and the functions that sit on them.
 * Ids, classes, BARs: `lspci -vvv` of such machines as people published it.
 */
#ifndef LLMHW_BOARDS_H
#define LLMHW_BOARDS_H

#include <linux/sizes.h>

#define BAR_64		0x4
#define BAR_64_PREF	0xc

struct bar {
	u64 size;
	u8 flags;	/* the low bits of the register: 64 bits wide, prefetchable */
};

/* What a function is, apart from where it sits. bar[i] is the register pair or register with number at[i]. */
struct kind {
	const char *name;
	u16 vendor, device, subvendor, subdevice;
	u32 class;	/* with programming interface and, in the low byte, revision */
	u8 speed, width;	/* PCIe generation, lanes */
	bool gpu;
	const char *vpd_part, *vpd_vendor;
	u8 at[3];
	struct bar bar[3];
};

enum { H100_SXM, H100_PCIE, RTX_5090, RTX_5090_AUDIO, B200, NVSWITCH, CX7_BRIDGE };

static const struct kind kinds[] = {
	[H100_SXM] = {
		.name = "NVIDIA H100 80GB HBM3", .vendor = 0x10de, .device = 0x2330, .subvendor = 0x10de, .subdevice = 0x16c1,
		.class = 0x030200a1, .speed = 5, .width = 16, .gpu = true, .at = { 0, 2, 4 },
		.bar = { { SZ_16M, BAR_64_PREF }, { 128ULL << 30, BAR_64_PREF }, { SZ_32M, BAR_64_PREF } },
	},
	[H100_PCIE] = {
		.name = "NVIDIA H100 PCIe", .vendor = 0x10de, .device = 0x2331, .subvendor = 0x10de, .subdevice = 0x1626,
		.class = 0x030200a1, .speed = 5, .width = 16, .gpu = true, .at = { 0, 2, 4 },
		.bar = { { SZ_16M, BAR_64_PREF }, { 128ULL << 30, BAR_64_PREF }, { SZ_32M, BAR_64_PREF } },
	},
	[RTX_5090] = {
		.name = "NVIDIA GeForce RTX 5090", .vendor = 0x10de, .device = 0x2b85, .subvendor = 0x10de, .subdevice = 0x2057,
		.class = 0x030000a1, .speed = 5, .width = 16, .gpu = true, .at = { 0, 1, 3 },
		.bar = { { SZ_64M, 0 }, { 32ULL << 30, BAR_64_PREF }, { SZ_32M, BAR_64_PREF } },
	},
	[RTX_5090_AUDIO] = {
		.name = "audio", .vendor = 0x10de, .device = 0x22e8, .subvendor = 0x10de, .subdevice = 0x0000,
		.class = 0x040300a1, .speed = 5, .width = 16, .at = { 0 }, .bar = { { SZ_16K, 0 } },
	},
	[B200] = {
		.name = "NVIDIA B200", .vendor = 0x10de, .device = 0x2901, .subvendor = 0x10de, .subdevice = 0x1999,
		.class = 0x030200a1, .speed = 5, .width = 16, .gpu = true, .at = { 0, 2, 4 },
		.bar = { { SZ_64M, BAR_64_PREF }, { 256ULL << 30, BAR_64_PREF }, { SZ_32M, BAR_64_PREF } },
	},
	[NVSWITCH] = {
		.name = "NVSwitch", .vendor = 0x10de, .device = 0x22a3, .subvendor = 0x10de, .subdevice = 0x1796,
		.class = 0x068000a1, .speed = 4, .width = 2, .at = { 0 }, .bar = { { SZ_32M, BAR_64 } },
	},
	[CX7_BRIDGE] = {
		.name = "NVLink management", .vendor = 0x15b3, .device = 0x1021, .subvendor = 0x15b3, .subdevice = 0x0023,
		.class = 0x02070000, .speed = 5, .width = 2, .at = { 0 }, .bar = { { SZ_32M, BAR_64_PREF } },
		.vpd_part = "692-9X770-00RV-000", .vpd_vendor = "MLX:MN=MLNX:CSKU=V2:UUID=V3:PCI=V0:SMDL=SW_MNG",
	},
};

/* One function: its bus (each bus lies behind a port of its own) and function number. */
struct seat {
	u8 bus, function, kind;
};

struct board {
	const char *product;
	const struct seat *seats;
	unsigned int count;
};

static const struct seat alphapro660[] = {
	{ 0x05, 0, NVSWITCH }, { 0x06, 0, NVSWITCH }, { 0x07, 0, NVSWITCH }, { 0x08, 0, NVSWITCH },
	{ 0x1b, 0, H100_SXM }, { 0x43, 0, H100_SXM }, { 0x52, 0, H100_SXM }, { 0x61, 0, H100_SXM },
	{ 0x9d, 0, H100_SXM }, { 0xc3, 0, H100_SXM }, { 0xd1, 0, H100_SXM }, { 0xdf, 0, H100_SXM },
};

static const struct seat ga660m[] = {
	{ 0x01, 0, H100_PCIE }, { 0x21, 0, H100_PCIE }, { 0x41, 0, H100_PCIE }, { 0x61, 0, H100_PCIE },
};

static const struct seat a330[] = { { 0x01, 0, RTX_5090 }, { 0x01, 1, RTX_5090_AUDIO } };

static const struct seat b200_hgx[] = {
	{ 0x05, 0, CX7_BRIDGE }, { 0x05, 1, CX7_BRIDGE }, { 0x06, 0, CX7_BRIDGE }, { 0x06, 1, CX7_BRIDGE },
	{ 0x1b, 0, B200 }, { 0x43, 0, B200 }, { 0x52, 0, B200 }, { 0x61, 0, B200 },
	{ 0x9d, 0, B200 }, { 0xc3, 0, B200 }, { 0xd1, 0, B200 }, { 0xdf, 0, B200 },
};

#define BOARD(name, list) { .product = name, .seats = list, .count = ARRAY_SIZE(list) }

static const struct board boards[] = {
	BOARD("AlphaPro660", alphapro660),
	BOARD("GA660M", ga660m),
	BOARD("A330", a330),
	BOARD("B200-HGX", b200_hgx),
};

#endif
