/* A stand-in for NVIDIA's libnvidia-ml.so.1, for the real pynvml to load. See nvml_stub.py.

   Its state is a text file, NVML_STUB_STATE, of lines `name value`; the last line of a name counts, so that a test
   changes the state while a program runs by appending. Names of a card begin with its number: `0.used_mib 1024`.

     driver_error N                      nvmlInit answers N
     count N                             cards
     G.error N                           every call about card G answers N (15: the GPU is lost)
     G.error.nvmlDeviceGetPowerUsage N   this call does
     G.delay_ms N                        every call about card G takes that long
     G.max_settable_mw, G.min_settable_mw  a cap outside is clamped silently
     G.ignores_caps 1                    a cap is taken and does nothing

   A cap that is set is appended as well: it outlives the process, as on a real card.
   With -DOLD_DRIVER the calls that newer drivers have brought are missing.
   The structs are written down here, not taken from the binding, from NVIDIA's nvml.h. */

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { SUCCESS = 0, UNINITIALIZED = 1, INVALID_ARGUMENT = 2, NOT_SUPPORTED = 3, INSUFFICIENT_SIZE = 7,
       ARGUMENT_VERSION_MISMATCH = 25 };

struct memory_v1 { unsigned long long total, free, used; };
struct memory_v2 { unsigned version; unsigned long long total, reserved, free, used; };
struct temperature { unsigned version, sensor; int temperature; };
struct pci { char legacy[16]; unsigned domain, bus, device, pci_id, subsystem_id; char bus_id[32]; };
struct process { unsigned pid; unsigned long long used; unsigned gpu_instance, compute_instance; };
struct field { unsigned id, scope; long long timestamp, latency; int type, result;
               union { double d; unsigned u; unsigned long long ull; } value; };
typedef struct card { int index; } *card_t;

static struct card cards[16] = {{0}, {1}, {2}, {3}, {4}, {5}, {6}, {7}, {8}, {9}, {10}, {11}, {12}, {13}, {14}, {15}};

/* The text of the last line of that name; 0 if there is none. */
static int text(const char *name, char *found, size_t size)
{
    char line[512];
    size_t length = strlen(name);
    const char *path = getenv("NVML_STUB_STATE");
    FILE *file = path ? fopen(path, "r") : NULL;
    int there = 0;
    if (!file)
        return 0;
    while (fgets(line, sizeof line, file))
        if (!strncmp(line, name, length) && line[length] == ' ') {
            line[strcspn(line, "\n")] = 0;
            snprintf(found, size, "%s", line + length + 1);
            there = 1;
        }
    fclose(file);
    return there;
}

static int card_text(card_t card, const char *what, char *found, size_t size)
{
    char name[128];
    snprintf(name, sizeof name, "%d.%s", card->index, what);
    return text(name, found, size);
}

static long long number(card_t card, const char *what, long long otherwise)
{
    char found[128];
    return card_text(card, what, found, sizeof found) ? atoll(found) : otherwise;
}

static int begin(card_t card, const char *call)
{
    char what[128];
    long long delay_ms = number(card, "delay_ms", 0);
    if (delay_ms)
        usleep(delay_ms * 1000);
    snprintf(what, sizeof what, "error.%s", call);
    return (int)number(card, what, number(card, "error", SUCCESS));
}

#define BEGIN(card) do { int error = begin(card, __func__); if (error) return error; } while (0)

/* A number that the card does not have in its state is one that it does not support. */
static int told(card_t card, const char *what, unsigned long long *value)
{
    long long found = number(card, what, -1);
    *value = found;
    return found < 0 ? NOT_SUPPORTED : SUCCESS;
}

static int told_unsigned(card_t card, const char *what, unsigned *value)
{
    unsigned long long wide;
    int result = told(card, what, &wide);
    *value = (unsigned)wide;
    return result;
}

int nvmlInitWithFlags(unsigned flags)
{
    char found[64];
    (void)flags;
    return text("driver_error", found, sizeof found) ? atoi(found) : SUCCESS;
}

const char *nvmlErrorString(int result)
{
    switch (result) {
    case INVALID_ARGUMENT: return "Invalid Argument";
    case NOT_SUPPORTED: return "Not Supported";
    case 4: return "Insufficient Permissions";
    case 15: return "GPU is lost";
    default: return "Some Error";
    }
}

int nvmlSystemGetDriverVersion(char *version, unsigned length)
{
    char found[64] = "570.00";
    text("driver", found, sizeof found);
    snprintf(version, length, "%s", found);
    return SUCCESS;
}

int nvmlDeviceGetCount_v2(unsigned *count)
{
    char found[64];
    *count = text("count", found, sizeof found) ? atoi(found) : 0;
    return SUCCESS;
}

int nvmlDeviceGetHandleByIndex_v2(unsigned index, card_t *card)
{
    unsigned count;
    nvmlDeviceGetCount_v2(&count);
    if (index >= count)
        return INVALID_ARGUMENT;
    *card = &cards[index];
    return begin(*card, __func__);
}

int nvmlDeviceGetName(card_t card, char *name, unsigned length)
{
    BEGIN(card);
    return card_text(card, "name", name, length) ? SUCCESS : NOT_SUPPORTED;
}

int nvmlDeviceGetUUID(card_t card, char *uuid, unsigned length)
{
    BEGIN(card);
    return card_text(card, "uuid", uuid, length) ? SUCCESS : NOT_SUPPORTED;
}

int nvmlDeviceGetPciInfo_v3(card_t card, struct pci *pci)
{
    BEGIN(card);
    return card_text(card, "bus_id", pci->bus_id, sizeof pci->bus_id) ? SUCCESS : NOT_SUPPORTED;
}

static const long long mib = 1 << 20;

/* The first version counts what the driver keeps as used. */
int nvmlDeviceGetMemoryInfo(card_t card, struct memory_v1 *memory)
{
    BEGIN(card);
    memory->total = number(card, "total_mib", 0) * mib;
    memory->used = (number(card, "used_mib", 0) + number(card, "reserved_mib", 0)) * mib;
    memory->free = memory->total - memory->used;
    return SUCCESS;
}

static int running(card_t card, const char *kind, unsigned *count, struct process *processes)
{
    /* `G.Compute 4711:2048 4712:` : pids with their MiB, which need not be told. */
    char found[512] = "", *part;
    unsigned there = 0, room = *count;
    card_text(card, kind, found, sizeof found);
    for (part = strtok(found, " "); part; part = strtok(NULL, " ")) {
        if (processes && there < room) {
            char *colon = strchr(part, ':');
            processes[there].pid = atoi(part);
            processes[there].used = colon[1] ? (unsigned long long)atoll(colon + 1) * mib : ~0ULL;
        }
        there++;
    }
    *count = there;
    return there > room ? INSUFFICIENT_SIZE : SUCCESS;
}

#ifdef OLD_DRIVER
#define RUNNING(kind) nvmlDeviceGet##kind##RunningProcesses_v2
#else
#define RUNNING(kind) nvmlDeviceGet##kind##RunningProcesses_v3

int nvmlDeviceGetMemoryInfo_v2(card_t card, struct memory_v2 *memory)
{
    BEGIN(card);
    if (memory->version != (sizeof *memory | 2 << 24))
        return ARGUMENT_VERSION_MISMATCH;
    memory->total = number(card, "total_mib", 0) * mib;
    memory->reserved = number(card, "reserved_mib", 0) * mib;
    memory->used = number(card, "used_mib", 0) * mib;
    memory->free = memory->total - memory->used - memory->reserved;
    return SUCCESS;
}

int nvmlDeviceGetTemperatureV(card_t card, struct temperature *temperature)
{
    unsigned value;
    int result;
    BEGIN(card);
    if (temperature->version != (sizeof *temperature | 1 << 24))
        return ARGUMENT_VERSION_MISMATCH;
    result = told_unsigned(card, "temperature", &value);
    temperature->temperature = value;
    return result;
}

int nvmlDeviceGetCurrentClocksEventReasons(card_t card, unsigned long long *reasons)
{
    BEGIN(card);
    return told(card, "reasons", reasons);
}

int nvmlDeviceGetPowerSource(card_t card, unsigned *source)
{
    BEGIN(card);
    return told_unsigned(card, "power_source", source);
}
#endif

int RUNNING(Compute)(card_t card, unsigned *count, struct process *processes)
{
    BEGIN(card);
    return running(card, "Compute", count, processes);
}

int RUNNING(Graphics)(card_t card, unsigned *count, struct process *processes)
{
    BEGIN(card);
    return running(card, "Graphics", count, processes);
}

int nvmlDeviceGetTemperature(card_t card, unsigned sensor, unsigned *temperature)
{
    BEGIN(card);
    return sensor ? INVALID_ARGUMENT : told_unsigned(card, "temperature", temperature);
}

int nvmlDeviceGetCurrentClocksThrottleReasons(card_t card, unsigned long long *reasons)
{
    BEGIN(card);
    return told(card, "reasons", reasons);
}

int nvmlDeviceGetFieldValues(card_t card, int count, struct field *fields)
{
    BEGIN(card);
    for (int i = 0; i < count; i++) {
        fields[i].type = 1;
        fields[i].result = fields[i].id == 82 ? told_unsigned(card, "memory_temperature", &fields[i].value.u)
                                              : NOT_SUPPORTED;
    }
    return SUCCESS;
}

int nvmlDeviceGetPowerUsage(card_t card, unsigned *milliwatts)
{
    BEGIN(card);
    return told_unsigned(card, "power_mw", milliwatts);
}

int nvmlDeviceGetTotalEnergyConsumption(card_t card, unsigned long long *millijoules)
{
    BEGIN(card);
    return told(card, "energy_mj", millijoules);
}

int nvmlDeviceGetClockInfo(card_t card, unsigned kind, unsigned *mhz)
{
    BEGIN(card);
    return told_unsigned(card, kind == 0 ? "core_mhz" : kind == 2 ? "memory_mhz" : "none", mhz);
}

int nvmlDeviceGetPcieThroughput(card_t card, unsigned counter, unsigned *kilobytes)
{
    BEGIN(card);
    usleep(20000); /* As the real one. */
    return told_unsigned(card, counter == 0 ? "tx_kb" : "rx_kb", kilobytes);
}

int nvmlDeviceGetPowerManagementLimit(card_t card, unsigned *milliwatts)
{
    BEGIN(card);
    return told_unsigned(card, "cap_mw", milliwatts);
}

int nvmlDeviceGetPowerManagementDefaultLimit(card_t card, unsigned *milliwatts)
{
    BEGIN(card);
    return told_unsigned(card, "default_cap_mw", milliwatts);
}

int nvmlDeviceGetPowerManagementLimitConstraints(card_t card, unsigned *lowest, unsigned *highest)
{
    int result;
    BEGIN(card);
    result = told_unsigned(card, "min_cap_mw", lowest);
    return result ? result : told_unsigned(card, "max_cap_mw", highest);
}

int nvmlDeviceSetPowerManagementLimit(card_t card, unsigned milliwatts)
{
    char line[64];
    long long watts = milliwatts;
    int file;
    BEGIN(card);
    if (watts < number(card, "min_cap_mw", 0) || watts > number(card, "max_cap_mw", 0))
        return INVALID_ARGUMENT;
    if (number(card, "ignores_caps", 0))
        return SUCCESS;
    if (watts < number(card, "min_settable_mw", 0))
        watts = number(card, "min_settable_mw", 0);
    if (watts > number(card, "max_settable_mw", watts))
        watts = number(card, "max_settable_mw", watts);
    file = open(getenv("NVML_STUB_STATE"), O_WRONLY | O_APPEND);
    if (file < 0)
        return UNINITIALIZED;
    snprintf(line, sizeof line, "%d.cap_mw %lld\n", card->index, watts);
    if (write(file, line, strlen(line)) < 0)
        return UNINITIALIZED;
    close(file);
    return SUCCESS;
}
