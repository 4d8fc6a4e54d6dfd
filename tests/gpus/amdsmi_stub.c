/* A libamd_smi.so with two cards whose state is read, at each call, from the file named by AMDSMI_STUB_STATE:
 * lines of "KEY VALUE", where KEY is "0.power_w" for a card, or "init_status" for the library.
 * The structures are those of amdsmi.h, release 26 (ROCm 7); amdsmi_stub.py adds all other functions as
 * "not supported".
 */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define SUCCESS 0
#define NOT_SUPPORTED 2
#define CARDS 2

typedef unsigned long long number;

static int find(const char *key, char *value, size_t size) {
    const char *path = getenv("AMDSMI_STUB_STATE");
    FILE *file = path ? fopen(path, "r") : NULL;
    char line[300];
    int found = 0;
    if (!file) return 0;
    while (fgets(line, sizeof line, file)) {
        size_t length = strlen(key);
        line[strcspn(line, "\n")] = 0;
        if (!strncmp(line, key, length) && line[length] == ' ') {
            snprintf(value, size, "%s", line + length + 1);
            found = 1;
        }
    }
    fclose(file);
    return found;
}

static number state(int card, const char *name, number otherwise) {
    char key[80], value[300];
    if (card >= 0) snprintf(key, sizeof key, "%d.%s", card, name);
    else snprintf(key, sizeof key, "%s", name);
    return find(key, value, sizeof value) ? strtoull(value, NULL, 10) : otherwise;
}

static void text(int card, const char *name, char *to, size_t size) {
    char key[80], value[300] = "";
    snprintf(key, sizeof key, "%d.%s", card, name);
    find(key, value, sizeof value);
    snprintf(to, size, "%s", value);
}

static int card_of(void *handle) { return (int)(uintptr_t)handle - 100; }

/* "status": what every call answers (a lost card). "NAME_status": what one call answers. */
static int status(void *handle, const char *name) {
    char key[80];
    int lost = (int)state(card_of(handle), "status", SUCCESS);
    snprintf(key, sizeof key, "%s_status", name);
    return lost ? lost : (int)state(card_of(handle), key, SUCCESS);
}

int amdsmi_init(uint64_t flags) { return (int)state(-1, "init_status", SUCCESS); }

int amdsmi_get_lib_version(struct { uint32_t major, minor, release; char *build; } *version) {
    static char build[] = "stub";
    version->major = (uint32_t)state(-1, "version_major", 26);
    version->minor = (uint32_t)state(-1, "version_minor", 0);
    version->release = 2;
    version->build = build;
    return SUCCESS;
}

int amdsmi_get_socket_handles(uint32_t *count, void **sockets) {
    *count = CARDS;
    for (int i = 0; sockets && i < CARDS; i++) sockets[i] = (void *)(uintptr_t)(200 + i);
    return SUCCESS;
}

int amdsmi_get_processor_handles(void *socket, uint32_t *count, void **handles) {
    *count = 1;
    if (handles) handles[0] = (void *)((uintptr_t)socket - 100);
    return SUCCESS;
}

int amdsmi_get_gpu_device_bdf(void *handle, uint64_t *bdf) {
    number bus = state(card_of(handle), "pci_bus", 3);
    *bdf = bus << 8; /* function: 3 bits, device: 5, bus: 8, domain: 48 */
    return status(handle, "bdf");
}

int amdsmi_get_gpu_asic_info(void *handle, char *info) {
    memset(info, 0, 900);
    text(card_of(handle), "name", info, 256);
    return status(handle, "asic");
}

int amdsmi_get_gpu_memory_total(void *handle, int kind, uint64_t *bytes) {
    *bytes = state(card_of(handle), kind == 2 ? "gtt_total_bytes" : "vram_total_bytes", 0);
    return status(handle, "memory_total");
}

int amdsmi_get_gpu_memory_usage(void *handle, int kind, uint64_t *bytes) {
    *bytes = state(card_of(handle), kind == 2 ? "gtt_used_bytes" : "vram_used_bytes", 0);
    return status(handle, "memory_usage");
}

struct power_info {
    uint64_t socket_power;
    uint32_t current_socket_power, average_socket_power;
    uint64_t gfx_voltage, soc_voltage, mem_voltage;
    uint32_t power_limit;
    uint64_t reserved[18];
};

int amdsmi_get_power_info(void *handle, struct power_info *info) {
    memset(info, 0xff, sizeof *info);
    info->socket_power = state(card_of(handle), "socket_power_w", 0xFFFF);
    info->current_socket_power = (uint32_t)state(card_of(handle), "current_power_w", 0xFFFFFFFF);
    info->average_socket_power = (uint32_t)state(card_of(handle), "average_power_w", 0xFFFF);
    return status(handle, "power");
}

struct cap_info { uint64_t cap, by_default, dpm, min, max, reserved[3]; };

static number cap_set_microwatts[CARDS];

int amdsmi_get_power_cap_info(void *handle, uint32_t sensor, struct cap_info *info) {
    int card = card_of(handle);
    memset(info, 0, sizeof *info);
    info->cap = state(card, "cap", 0);
    if (cap_set_microwatts[card]) info->cap = cap_set_microwatts[card];
    info->cap = state(card, "cap_reads_back", info->cap);
    info->by_default = state(card, "cap_default", 0);
    info->min = state(card, "cap_min", 0);
    info->max = state(card, "cap_max", 0);
    return status(handle, "cap");
}

int amdsmi_set_power_cap(void *handle, uint32_t sensor, uint64_t microwatts) {
    int answer = status(handle, "set_cap");
    if (answer == SUCCESS) cap_set_microwatts[card_of(handle)] = microwatts;
    return answer;
}

int amdsmi_get_energy_count(void *handle, uint64_t *ticks, float *resolution_uj, uint64_t *timestamp) {
    *ticks = state(card_of(handle), "energy_ticks", 0);
    *resolution_uj = 15.25f;
    *timestamp = 1;
    return status(handle, "energy");
}

int amdsmi_get_temp_metric(void *handle, int sensor, int metric, int64_t *celsius) {
    static const char *names[] = {"edge", "hotspot", "vram"};
    char key[80];
    if (sensor > 2 || metric != 0) return NOT_SUPPORTED;
    snprintf(key, sizeof key, "%s_c", names[sensor]);
    *celsius = (int64_t)state(card_of(handle), key, 0);
    return *celsius ? status(handle, "temp") : NOT_SUPPORTED;
}

struct clock_info { uint32_t now, min, max; uint8_t locked, deep_sleep; uint32_t reserved[4]; };

int amdsmi_get_clock_info(void *handle, int kind, struct clock_info *info) {
    memset(info, 0, sizeof *info);
    info->now = (uint32_t)state(card_of(handle), kind == 4 ? "mem_mhz" : "gfx_mhz", 0xFFFFFFFF);
    return status(handle, "clock");
}

struct process {
    char name[256];
    uint32_t pid;
    uint64_t mem;
    struct { uint64_t gfx, enc; uint32_t reserved[12]; } engine;
    struct { uint64_t gtt, cpu, vram; uint32_t reserved[10]; } memory;
    char container[256];
    uint32_t cu_occupancy, reserved[11];
};

int amdsmi_get_gpu_process_list(void *handle, uint32_t *count, struct process *list) {
    int card = card_of(handle);
    number pid = state(card, "process_pid", 0);
    memset(list, 0, sizeof *list);
    *count = pid ? 1 : 0;
    list->pid = (uint32_t)pid;
    text(card, "process_name", list->name, sizeof list->name);
    list->memory.vram = state(card, "process_vram_bytes", 0);
    return status(handle, "process");
}
