// SPDX-License-Identifier: GPL-2.0
/*
 * A PCI domain with the GPUs, NVSwitches and network functions of the board that the machine's DMI product name says.
 *
 * Only configuration space exists: capabilities, links, VPD, BARs with their real sizes. The BARs get addresses above
 * what the processor can address, so that a driver that maps one is told that it cannot, and nothing is ever reached.
 * Without a known product name the module does nothing.
 */
#define pr_fmt(fmt) KBUILD_MODNAME ": " fmt

#include <linux/dmi.h>
#include <linux/module.h>
#include <linux/pci.h>
#include <linux/slab.h>
#include <asm/pci.h>

#include "boards.h"

#define DOMAIN		1
#define CONFIG_SIZE	0x500
#define EXPRESS		0x60	/* where the PCI Express capability sits, in every function */
#define POWER		0x40
#define VPD		0x50
#define ACS		0x100
#define NV_HDA_GATE	0x488	/* bit 25: the audio function is visible; the kernel sets it where it is clear */
#define MAX_PORTS	31

/* A function's registers; `writable` has ones where a write changes something. */
struct function {
	const struct kind *kind;	/* NULL for a port */
	u8 bus, devfn;
	int gpu;	/* index among the GPUs, else -1 */
	u8 config[CONFIG_SIZE], writable[CONFIG_SIZE];
	u8 vpd[256];
};

static unsigned int lost;
module_param(lost, uint, 0644);
MODULE_PARM_DESC(lost, "bit mask of GPUs that have fallen off the bus: they are there but read as ones");

static unsigned int absent;
module_param(absent, uint, 0444);
MODULE_PARM_DESC(absent, "bit mask of GPUs that are not there at all");

static struct pci_sysdata sysdata = { .domain = DOMAIN, .node = NUMA_NO_NODE };
static struct function *functions;
static unsigned int function_count;
static struct pci_bus *root;
/* Windows of the host bridge; their places are chosen at load. */
static struct resource window_32 = { .name = "llmhw 32-bit window", .flags = IORESOURCE_MEM };
static struct resource window_64 = {
	.name = "llmhw 64-bit window", .flags = IORESOURCE_MEM | IORESOURCE_MEM_64 | IORESOURCE_PREFETCH,
};

static void put(struct function *function, int where, int size, u32 value, u32 writable)
{
	int i;

	for (i = 0; i < size; i++) {
		function->config[where + i] = value >> (8 * i);
		function->writable[where + i] = writable >> (8 * i);
	}
}

static struct function *find(struct pci_bus *bus, unsigned int devfn)
{
	unsigned int i;

	for (i = 0; i < function_count; i++)
		if (functions[i].bus == bus->number && functions[i].devfn == devfn)
			return &functions[i];
	return NULL;
}

static bool is_lost(const struct function *function)
{
	return function->gpu >= 0 && (READ_ONCE(lost) >> function->gpu & 1);
}

static int read_config(struct pci_bus *bus, unsigned int devfn, int where, int size, u32 *value)
{
	struct function *function = find(bus, devfn);
	int i;

	if (!function || is_lost(function)) {
		*value = ~0U;
		return function ? PCIBIOS_SUCCESSFUL : PCIBIOS_DEVICE_NOT_FOUND;
	}
	*value = 0;
	for (i = 0; i < size && where + i < CONFIG_SIZE; i++)
		*value |= (u32)function->config[where + i] << (8 * i);
	return PCIBIOS_SUCCESSFUL;
}

/* An address written with the flag clear asks for four bytes; the flag is set when they are there (PCI 3.0, appendix I). */
static void serve_vpd(struct function *function)
{
	u16 address = function->config[VPD + PCI_VPD_ADDR] | function->config[VPD + PCI_VPD_ADDR + 1] << 8;

	if (address & PCI_VPD_ADDR_F)
		return;
	if (address + 4 <= sizeof(function->vpd))
		memcpy(&function->config[VPD + PCI_VPD_DATA], &function->vpd[address], 4);
	else
		memset(&function->config[VPD + PCI_VPD_DATA], 0, 4);
	function->config[VPD + PCI_VPD_ADDR + 1] |= PCI_VPD_ADDR_F >> 8;
}

static int write_config(struct pci_bus *bus, unsigned int devfn, int where, int size, u32 value)
{
	struct function *function = find(bus, devfn);
	int i;

	if (!function)
		return PCIBIOS_DEVICE_NOT_FOUND;
	if (is_lost(function))
		return PCIBIOS_SUCCESSFUL;
	for (i = 0; i < size && where + i < CONFIG_SIZE; i++) {
		u8 mask = function->writable[where + i];
		u8 *byte = &function->config[where + i];

		*byte = (*byte & ~mask) | ((value >> (8 * i)) & mask);
	}
	if (function->kind && function->kind->vpd_vendor && where == VPD + PCI_VPD_ADDR)
		serve_vpd(function);
	return PCIBIOS_SUCCESSFUL;
}

static struct pci_ops ops = { .read = read_config, .write = write_config };

static void add_head(struct function *function, u16 vendor, u16 device, u32 class, u8 header)
{
	put(function, PCI_VENDOR_ID, 4, vendor | (u32)device << 16, 0);
	put(function, PCI_COMMAND, 4, PCI_STATUS_CAP_LIST << 16,
	    PCI_COMMAND_IO | PCI_COMMAND_MEMORY | PCI_COMMAND_MASTER | PCI_COMMAND_PARITY | PCI_COMMAND_SERR |
	    PCI_COMMAND_INTX_DISABLE);
	put(function, PCI_CLASS_REVISION, 4, class, 0);
	put(function, PCI_HEADER_TYPE, 1, header, 0);
	put(function, PCI_CAPABILITY_LIST, 1, EXPRESS, 0);
}

static void add_express(struct function *function, u8 type, u8 speed, u8 width, u8 next)
{
	put(function, EXPRESS, 2, PCI_CAP_ID_EXP | next << 8, 0);
	put(function, EXPRESS + PCI_EXP_FLAGS, 2, 2 | type << 4, 0);
	put(function, EXPRESS + PCI_EXP_DEVCAP, 4, 1 | PCI_EXP_DEVCAP_RBER | PCI_EXP_DEVCAP_EXT_TAG, 0);
	put(function, EXPRESS + PCI_EXP_DEVCTL, 2, 0x2810 | PCI_EXP_DEVCTL_EXT_TAG, 0x7fff);
	put(function, EXPRESS + PCI_EXP_LNKCAP, 4, speed | width << 4, 0);
	put(function, EXPRESS + PCI_EXP_LNKCTL, 2, 0, 0x0fdf);
	put(function, EXPRESS + PCI_EXP_LNKSTA, 2, speed | width << 4, 0);
	put(function, EXPRESS + PCI_EXP_LNKCAP2, 4, ((1 << speed) - 1) << 1, 0);
	put(function, EXPRESS + PCI_EXP_LNKCTL2, 2, speed, 0xffff);
}

static void add_bars(struct function *function, const struct kind *kind)
{
	int i;

	for (i = 0; i < ARRAY_SIZE(kind->bar); i++) {
		const struct bar *bar = &kind->bar[i];
		int where = PCI_BASE_ADDRESS_0 + 4 * kind->at[i];

		if (!bar->size)
			break;
		put(function, where, 4, bar->flags, ~(bar->size - 1) & ~0xfULL);
		if (bar->flags & BAR_64)
			put(function, where + 4, 4, 0, ~(bar->size - 1) >> 32);
	}
}

static u8 *add_vpd_field(u8 *at, const char *keyword, const char *text)
{
	at[0] = keyword[0];
	at[1] = keyword[1];
	at[2] = strlen(text);
	memcpy(at + 3, text, at[2]);
	return at + 3 + at[2];
}

/* Identifier string, read-only fields with checksum, end tag (PCI 3.0, appendix I). */
static void add_vpd(struct function *function, const struct kind *kind)
{
	static const char title[] = "NVIDIA ConnectX-7 mezz for NVLink management";
	u8 *at = function->vpd, *fields, sum = 0;

	*at++ = 0x82;
	*at++ = sizeof(title) - 1;
	*at++ = 0;
	memcpy(at, title, sizeof(title) - 1);
	at += sizeof(title) - 1;
	*at++ = 0x90;
	fields = at;
	at += 2;
	at = add_vpd_field(at, "PN", kind->vpd_part);
	at = add_vpd_field(at, "SN", "MT0000000001");
	at = add_vpd_field(at, "VA", kind->vpd_vendor);
	*at++ = 'R';
	*at++ = 'V';
	*at++ = 1;
	fields[0] = at + 1 - fields - 2;
	fields[1] = 0;
	for (u8 *byte = function->vpd; byte < at; byte++)
		sum += *byte;
	*at++ = -sum;
	*at = 0x78;
	put(function, EXPRESS + 1, 1, VPD, 0);
	put(function, VPD, 2, PCI_CAP_ID_VPD, 0);
	put(function, VPD + PCI_VPD_ADDR, 2, 0, 0xffff);
}

static void add_endpoint(struct function *function, const struct seat *seat, bool shared)
{
	const struct kind *kind = &kinds[seat->kind];

	function->kind = kind;
	function->bus = seat->bus;
	function->devfn = PCI_DEVFN(0, seat->function);
	add_head(function, kind->vendor, kind->device, kind->class, shared ? 0x80 : 0);
	put(function, PCI_SUBSYSTEM_VENDOR_ID, 4, kind->subvendor | (u32)kind->subdevice << 16, 0);
	add_express(function, PCI_EXP_TYPE_ENDPOINT, kind->speed, kind->width, POWER);
	put(function, POWER, 2, PCI_CAP_ID_PM, 0);
	put(function, POWER + PCI_PM_PMC, 2, 3, 0);
	put(function, POWER + PCI_PM_CTRL, 2, PCI_PM_CTRL_NO_SOFT_RESET, PCI_PM_CTRL_STATE_MASK);
	put(function, NV_HDA_GATE, 4, BIT(25), 0);
	add_bars(function, kind);
	if (kind->vpd_vendor)
		add_vpd(function, kind);
}

/* A root port of the processor, with access control that is there and off. */
static void add_port(struct function *function, const struct seat *seat, int slot)
{
	const struct kind *kind = &kinds[seat->kind];

	function->devfn = PCI_DEVFN(slot, 0);
	add_head(function, 0x1022, 0x14ab, 0x06040001, PCI_HEADER_TYPE_BRIDGE);
	put(function, PCI_PRIMARY_BUS, 4, seat->bus << 8 | seat->bus << 16, 0x00ffffff);
	/* Closed windows, as firmware leaves them: the base above the limit. */
	put(function, PCI_IO_BASE, 2, 0x00f0, 0);
	put(function, PCI_MEMORY_BASE, 4, 0x0000fff0, 0xfff0fff0);
	put(function, PCI_PREF_MEMORY_BASE, 4, 0x0001fff1, 0xfff0fff0);
	put(function, PCI_PREF_BASE_UPPER32, 4, 0, ~0U);
	put(function, PCI_PREF_LIMIT_UPPER32, 4, 0, ~0U);
	put(function, PCI_BRIDGE_CONTROL, 2, 0, PCI_BRIDGE_CTL_PARITY | PCI_BRIDGE_CTL_SERR | PCI_BRIDGE_CTL_BUS_RESET);
	add_express(function, PCI_EXP_TYPE_ROOT_PORT, kind->speed, kind->width, 0);
	put(function, EXPRESS + PCI_EXP_LNKSTA, 2, kind->speed | kind->width << 4 | PCI_EXP_LNKSTA_DLLLA, 0);
	put(function, ACS, 4, PCI_EXT_CAP_ID_ACS | 1 << 16, 0);
	put(function, ACS + PCI_ACS_CAP, 2, PCI_ACS_SV | PCI_ACS_TB | PCI_ACS_RR | PCI_ACS_CR | PCI_ACS_UF | PCI_ACS_DT, 0);
	put(function, ACS + PCI_ACS_CTRL, 2, 0, PCI_ACS_SV | PCI_ACS_TB | PCI_ACS_RR | PCI_ACS_CR | PCI_ACS_UF | PCI_ACS_DT);
}

static void fill(const struct board *board)
{
	int gpus = 0, slot = 0, bus = -1;
	unsigned int i;

	for (i = 0; i < board->count; i++) {
		const struct seat *seat = &board->seats[i];
		bool first = seat->bus != bus;
		bool shared = i + 1 < board->count && board->seats[i + 1].bus == seat->bus;
		int gpu = kinds[seat->kind].gpu ? gpus++ : -1;

		bus = seat->bus;
		if (first)
			add_port(&functions[function_count++], seat, ++slot);
		if (gpu >= 0 && (absent >> gpu & 1))
			continue;
		functions[function_count].gpu = gpu;
		add_endpoint(&functions[function_count++], seat, shared || !first);
	}
}

/* Half of the buses on each socket, where the machine has two nodes. */
static void place_on_nodes(void)
{
	struct pci_dev *device = NULL;

	for_each_pci_dev(device)
		if (pci_domain_nr(device->bus) == DOMAIN)
			set_dev_node(&device->dev, num_online_nodes() > 1 && device->bus->number >= 0x80 ? 1 : 0);
}

static int add_bus(void)
{
	/* Above every address the processor has, and where firmware puts such windows if that is higher. */
	u64 base = 1ULL << max_t(unsigned int, 45, boot_cpu_data.x86_phys_bits);
	static struct resource numbers = { .name = "llmhw buses", .start = 0, .end = 0xff, .flags = IORESOURCE_BUS };
	LIST_HEAD(windows);

	window_32.start = base;
	window_32.end = base + SZ_1G - 1;
	window_64.start = base + (1ULL << 40);
	window_64.end = window_64.start + (8ULL << 40) - 1;
	pci_add_resource(&windows, &numbers);
	pci_add_resource_offset(&windows, &window_32, base - 0x80000000ULL);
	pci_add_resource(&windows, &window_64);
	pci_lock_rescan_remove();
	root = pci_create_root_bus(NULL, 0, &ops, &sysdata, &windows);
	if (!root) {
		pci_unlock_rescan_remove();
		pci_free_resource_list(&windows);
		return -ENODEV;
	}
	/* Nothing here raises an interrupt, so the ports must not be asked for power management events. */
	to_pci_host_bridge(root->bridge)->native_pme = 0;
	pci_scan_child_bus(root);
	pci_assign_unassigned_bus_resources(root);
	place_on_nodes();
	pci_bus_add_devices(root);
	pci_unlock_rescan_remove();
	return 0;
}

static int __init rehearsal_init(void)
{
	const char *product = dmi_get_system_info(DMI_PRODUCT_NAME);
	unsigned int i;
	int error;

	for (i = 0; product && i < ARRAY_SIZE(boards); i++) {
		if (strcmp(product, boards[i].product))
			continue;
		functions = kcalloc(boards[i].count + MAX_PORTS, sizeof(*functions), GFP_KERNEL);
		if (!functions)
			return -ENOMEM;
		for (int n = 0; n < boards[i].count + MAX_PORTS; n++)
			functions[n].gpu = -1;
		fill(&boards[i]);
		error = add_bus();
		if (error)
			kfree(functions);
		else
			pr_info("%s: %u functions in domain %04x (REHEARSAL)\n", product, function_count, DOMAIN);
		return error;
	}
	return 0;
}

static void __exit rehearsal_exit(void)
{
	if (!root)
		return;
	pci_lock_rescan_remove();
	pci_stop_root_bus(root);
	pci_remove_root_bus(root);
	pci_unlock_rescan_remove();
	kfree(functions);
}

module_init(rehearsal_init);
module_exit(rehearsal_exit);
MODULE_LICENSE("GPL");
MODULE_DESCRIPTION("REHEARSAL: configuration space of GPU boards without hardware");
