// SPDX-License-Identifier: MIT OR GPL-2.0
/*
 * REHEARSAL: a stand-in that has the name, the version, the parameters and the files in /proc of NVIDIA's kernel
 * module, and nothing behind them. It binds to the GPUs and NVSwitches that configuration space shows and never maps
 * their memory. The forms of its texts are those of logs and /proc files that people published.
 */
#include <linux/fs.h>
#include <linux/module.h>
#include <linux/pci.h>
#include <linux/proc_fs.h>
#include <linux/seq_file.h>
#include <linux/workqueue.h>

#include "common.h"

#define MAJOR_NUMBER	195
#define CONTROL_MINOR	255
#define MODESET_MINOR	254
#define MAX_GPUS	32
#define BLACKWELL	0x2900	/* the first device id of the generation that only the open module drives */

/* The vendor's parameters, with the vendor's defaults. */
#define PARAMETERS(x) \
	x(ResmanDebugLevel, ~0U) x(RmLogonRC, 1) x(ModifyDeviceFiles, 1) x(DeviceFileUID, 0) x(DeviceFileGID, 0) \
	x(DeviceFileMode, 438) x(InitializeSystemMemoryAllocations, 1) x(UsePageAttributeTable, ~0U) x(EnableMSI, 1) \
	x(EnablePCIeGen3, 0) x(MemoryPoolSize, 0) x(EnableStreamMemOPs, 0) x(EnableResizableBar, 0) \
	x(DynamicPowerManagement, 3) x(EnableGpuFirmware, 18) x(EnableUserNUMAManagement, 1) \
	x(PreserveVideoMemoryAllocations, 0) x(RestrictProfilingToAdminUsers, 1) x(CreateImexChannel0, 0) \
	x(ImexChannelCount, 2048) x(OpenRmEnableUnsupportedGpus, 1) x(GrdmaPciTopoCheckOverride, 0) \
	x(EnableNvlink, 1) x(CoherentGPUMemoryMode, 0)
#define DEFINE(name, value) static unsigned int NVreg_##name = value; module_param(NVreg_##name, uint, 0444);
PARAMETERS(DEFINE)
static char *NVreg_RegistryDwords, *NVreg_RmMsg, *NVreg_ExcludedGpus;
module_param(NVreg_RegistryDwords, charp, 0444);
module_param(NVreg_RmMsg, charp, 0444);
module_param(NVreg_ExcludedGpus, charp, 0444);

static unsigned int rehearsal_delay_ms;
module_param(rehearsal_delay_ms, uint, 0444);
MODULE_PARM_DESC(rehearsal_delay_ms, "how long after loading the devices appear");

struct gpu {
	struct pci_dev *device;
	int minor;
	bool reported;
	char name[16];
	struct proc_dir_entry *folder;
};

static struct gpu gpus[MAX_GPUS];
static struct proc_dir_entry *proc, *proc_gpus, *proc_switch, *proc_switches;
static int caps_major, switch_major, imex_major;
static bool started;

static const char *model(u16 device)
{
	switch (device) {
	case 0x2330: return "NVIDIA H100 80GB HBM3";
	case 0x2331: return "NVIDIA H100 PCIe";
	case 0x2901: return "NVIDIA B200";
	case 0x2b85: return "NVIDIA GeForce RTX 5090";
	default: return "NVIDIA Graphics Device";
	}
}

/* Whether the GPU still answers; says once in the log when it does not. */
static bool answers(struct gpu *gpu)
{
	u32 id;

	pci_read_config_dword(gpu->device, PCI_VENDOR_ID, &id);
	if (id != ~0U)
		return true;
	if (!gpu->reported) {
		int domain = pci_domain_nr(gpu->device->bus), bus = gpu->device->bus->number;

		gpu->reported = true;
		pr_err("NVRM: Xid (PCI:%04x:%02x:00): 79, pid='<unknown>', name=<unknown>, GPU has fallen off the bus.\n",
		       domain, bus);
		pr_err("NVRM: GPU %04x:%02x:00.0: GPU has fallen off the bus.\n", domain, bus);
	}
	return false;
}

/* One number per place, the same at every load: FNV-1a of the PCI name. */
static u64 identity(const char *name)
{
	u64 hash = 0xcbf29ce484222325ULL;

	for (; *name; name++)
		hash = (hash ^ *name) * 0x100000001b3ULL;
	return hash;
}

static int show_gpu(struct seq_file *file, void *unused)
{
	struct gpu *gpu = file->private;
	u64 id = identity(gpu->name);
	bool there = answers(gpu);

	seq_printf(file, "Model: \t\t %s\n", model(gpu->device->device));
	seq_printf(file, "IRQ:   \t\t %u\n", gpu->device->irq);
	seq_printf(file, "GPU UUID: \t GPU-%08x-%04x-%04x-%04x-%04x%08x\n", (u32)id, (u16)(id >> 32), (u16)(id >> 48),
		   (u16)~id, (u16)(id >> 16), (u32)(id >> 32));
	seq_printf(file, "Video BIOS: \t %s\n", there ? "96.00.89.00.01" : "??.??.??.??.??");
	seq_puts(file, "Bus Type: \t PCIe\nDMA Size: \t 52 bits\nDMA Mask: \t 0xfffffffffffff\n");
	seq_printf(file, "Bus Location: \t %s\nDevice Minor: \t %d\n", gpu->name, gpu->minor);
	seq_printf(file, "GPU Firmware: \t %s\nGPU Excluded:\t No\n", there ? NV_VERSION : "N/A");
	return 0;
}

static int show_version(struct seq_file *file, void *unused)
{
	seq_puts(file, "NVRM version: " NV_TITLE "  Mon Jan  1 00:00:00 UTC 2024\nGCC version:  gcc version " __VERSION__ "\n");
	return 0;
}

static int show_params(struct seq_file *file, void *unused)
{
#define SHOW(name, value) seq_printf(file, #name ": %u\n", NVreg_##name);
	PARAMETERS(SHOW)
	seq_printf(file, "RegistryDwords: \"%s\"\nRmMsg: \"%s\"\nExcludedGpus: \"%s\"\n", NVreg_RegistryDwords ?: "",
		   NVreg_RmMsg ?: "", NVreg_ExcludedGpus ?: "");
	return 0;
}

static int show_switch(struct seq_file *file, void *unused)
{
	seq_puts(file, "BIOS Version: 96.10.6D.00.01\n");
	return 0;
}

/* nvidia-modprobe reads the minor here. */
static int show_mig_config(struct seq_file *file, void *unused)
{
	seq_puts(file, "DeviceFileMinor: 1\nDeviceFileMode: 256\nDeviceFileModify: 1\n");
	return 0;
}

static int show_mig_monitor(struct seq_file *file, void *unused)
{
	seq_puts(file, "DeviceFileMinor: 2\nDeviceFileMode: 292\nDeviceFileModify: 1\n");
	return 0;
}

static int probe_gpu(struct pci_dev *device, const struct pci_device_id *id)
{
	struct gpu *gpu = gpus;
	u32 answer;

	while (gpu < gpus + MAX_GPUS && gpu->device)
		gpu++;
	if (gpu == gpus + MAX_GPUS)
		return -ENOSPC;
	pci_read_config_dword(device, PCI_VENDOR_ID, &answer);
	if (answer == ~0U) {
		pr_err("NVRM: The NVIDIA GPU %s\n", pci_name(device));
		pr_err("NVRM: (PCI ID: %04x:%04x) installed in this system has\n", device->vendor, device->device);
		pr_err("NVRM: fallen off the bus and is not responding to commands.\n");
		return -ENODEV;
	}
	if (!NV_OPEN && device->device >= BLACKWELL) {
		pr_err("NVRM: The NVIDIA GPU %s (PCI ID: %04x:%04x)\n", pci_name(device), device->vendor, device->device);
		pr_err("NVRM: installed in this system requires use of the NVIDIA open kernel modules.\n");
		return -ENODEV;
	}
	if (pci_enable_device_mem(device))
		return -ENODEV;
	gpu->device = device;
	gpu->minor = gpu - gpus;
	gpu->reported = false;
	strscpy(gpu->name, pci_name(device), sizeof(gpu->name));
	gpu->folder = proc_mkdir(gpu->name, proc_gpus);
	proc_create_single_data("information", 0444, gpu->folder, show_gpu, gpu);
	pci_set_drvdata(device, gpu);
	return 0;
}

static void remove_gpu(struct pci_dev *device)
{
	struct gpu *gpu = pci_get_drvdata(device);

	proc_remove(gpu->folder);
	pci_disable_device(device);
	gpu->device = NULL;
}

static int probe_switch(struct pci_dev *device, const struct pci_device_id *id)
{
	struct proc_dir_entry *folder = proc_mkdir(pci_name(device), proc_switches);

	proc_create_single_data("information", 0444, folder, show_switch, NULL);
	pci_set_drvdata(device, folder);
	return pci_enable_device_mem(device);
}

static void remove_switch(struct pci_dev *device)
{
	proc_remove(pci_get_drvdata(device));
	pci_disable_device(device);
}

#define NVIDIA_CLASS(code) { PCI_DEVICE(PCI_VENDOR_ID_NVIDIA, PCI_ANY_ID), .class = (code) << 8, .class_mask = ~0U }
static const struct pci_device_id gpu_ids[] = {
	NVIDIA_CLASS(PCI_CLASS_DISPLAY_VGA), NVIDIA_CLASS(PCI_CLASS_DISPLAY_3D), { }
};
static const struct pci_device_id switch_ids[] = { NVIDIA_CLASS(PCI_CLASS_BRIDGE_OTHER), { } };
static const struct pci_device_id all_ids[] = {
	NVIDIA_CLASS(PCI_CLASS_DISPLAY_VGA), NVIDIA_CLASS(PCI_CLASS_DISPLAY_3D), NVIDIA_CLASS(PCI_CLASS_BRIDGE_OTHER), { }
};
MODULE_DEVICE_TABLE(pci, all_ids);
static struct pci_driver gpu_driver = {
	.name = "nvidia", .id_table = gpu_ids, .probe = probe_gpu, .remove = remove_gpu,
};
static struct pci_driver switch_driver = {
	.name = "nvidia-nvswitch", .id_table = switch_ids, .probe = probe_switch, .remove = remove_switch,
};

static int open_device(struct inode *inode, struct file *file)
{
	unsigned int minor = iminor(inode);

	if (minor == CONTROL_MINOR || minor == MODESET_MINOR)
		return 0;
	if (minor >= MAX_GPUS || !gpus[minor].device)
		return -ENXIO;
	return answers(&gpus[minor]) ? 0 : -EIO;
}

static const struct file_operations device_files = { .owner = THIS_MODULE, .open = open_device };
static const struct file_operations other_files = { .owner = THIS_MODULE };

static int start(void)
{
	int error = register_chrdev(MAJOR_NUMBER, "nvidia", &device_files);

	if (error)
		return error;
	error = pci_register_driver(&switch_driver);
	if (!error) {
		error = pci_register_driver(&gpu_driver);
		if (error)
			pci_unregister_driver(&switch_driver);
	}
	if (error)
		unregister_chrdev(MAJOR_NUMBER, "nvidia");
	started = !error;
	return error;
}

static void start_late(struct work_struct *unused)
{
	start();
}

static DECLARE_DELAYED_WORK(late, start_late);

static void stop(void)
{
	if (started) {
		pci_unregister_driver(&gpu_driver);
		pci_unregister_driver(&switch_driver);
		unregister_chrdev(MAJOR_NUMBER, "nvidia");
	}
	unregister_chrdev(caps_major, "nvidia-caps");
	unregister_chrdev(imex_major, "nvidia-caps-imex-channels");
	unregister_chrdev(switch_major, "nvidia-nvswitch");
	proc_remove(proc);
	proc_remove(proc_switch);
}

/* GPUs that are there, and those of them that this module has. */
static void count(int *present, int *ours)
{
	struct pci_dev *device = NULL;

	*present = *ours = 0;
	while ((device = pci_get_device(PCI_VENDOR_ID_NVIDIA, PCI_ANY_ID, device))) {
		*present += !!pci_match_id(gpu_ids, device);
		*ours += device->dev.driver == &gpu_driver.driver;
	}
}

/* The end of a start without delay: no GPU at all, or none that this module could have, is an error. */
static int judge(void)
{
	int present, ours;

	count(&present, &ours);
	if (!present) {
		pr_err("NVRM: No NVIDIA GPU found.\n");
		return -ENODEV;
	}
	if (ours < present) {
		pr_warn("NVRM: The NVIDIA probe routine failed for %d device(s).\n", present - ours);
		if (!ours) {
			pr_err("NVRM: None of the NVIDIA devices were initialized.\n");
			return -ENODEV;
		}
	}
	pr_info("NVRM: loading " NV_TITLE "\n");
	return 0;
}

static void make_proc(void)
{
	struct proc_dir_entry *mig;

	proc = proc_mkdir("driver/nvidia", NULL);
	proc_gpus = proc_mkdir("gpus", proc);
	mig = proc_mkdir("mig", proc_mkdir("capabilities", proc));
	proc_create_single("version", 0444, proc, show_version);
	proc_create_single("params", 0444, proc, show_params);
	proc_create_single("config", 0400, mig, show_mig_config);
	proc_create_single("monitor", 0444, mig, show_mig_monitor);
	proc_switch = proc_mkdir("driver/nvidia-nvswitch", NULL);
	proc_switches = proc_mkdir("devices", proc_switch);
}

static int __init nvidia_init(void)
{
	int error;

	caps_major = register_chrdev(0, "nvidia-caps", &other_files);
	imex_major = register_chrdev(0, "nvidia-caps-imex-channels", &other_files);
	switch_major = register_chrdev(0, "nvidia-nvswitch", &other_files);
	make_proc();
	if (rehearsal_delay_ms) {
		schedule_delayed_work(&late, msecs_to_jiffies(rehearsal_delay_ms));
		return 0;
	}
	error = start();
	if (!error)
		error = judge();
	if (error)
		stop();
	return error;
}

static void __exit nvidia_exit(void)
{
	cancel_delayed_work_sync(&late);
	stop();
}

/* What the other modules take from this one, so that they depend on it as the vendor's do. */
int nvidia_get_rm_ops(void *ops)
{
	return -ENOSYS;
}
EXPORT_SYMBOL(nvidia_get_rm_ops);

module_init(nvidia_init);
module_exit(nvidia_exit);
MODULE_LICENSE(NV_LICENSE);
MODULE_VERSION(NV_VERSION);
MODULE_INFO(supported, "external");
MODULE_FIRMWARE("nvidia/" NV_VERSION "/gsp_ga10x.bin");
MODULE_FIRMWARE("nvidia/" NV_VERSION "/gsp_tu10x.bin");
