/* A stand-in for ROCm SMI's librocm_smi64.so, for tests on machines without a card of AMD.
 *
 *   cc -shared -fPIC -O2 -Wall -o lib/librocm_smi64.so fake_rocm_smi.c
 *
 * pyrsmi looks for it in $ROCM_PATH/lib. The state is read from the file $FAKE_ROCM at every call, one
 * "key=value ..." line a card, %20 for a space:
 *   gpu pci=0x300 name=AMD%20Instinct busy=40 membusy=10 total=68702699520 used=11530240 power=90000000
 *   slow func=rsmi_dev_busy_percent_get ms=500
 * What is left out answers RSMI_STATUS_NOT_SUPPORTED. A missing file is a driver that is not loaded.
 */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { OK = 0, INVALID = 1, NOT_SUPPORTED = 2, INIT_ERROR = 8, INSUFFICIENT_SIZE = 11 };

/* Find the n-th line of a kind; return whether there is one. */
static int find_line(const char *kind, int n, char *line, int size) {
    const char *path = getenv("FAKE_ROCM");
    FILE *file = path ? fopen(path, "r") : NULL;
    size_t length = strlen(kind);
    int found = 0;
    if (file == NULL)
        return 0;
    while (!found && fgets(line, size, file))
        found = !strncmp(line, kind, length) && line[length] == ' ' && n-- == 0;
    fclose(file);
    return found;
}

static int find_value(const char *line, const char *key, char *value, size_t size) {
    char pattern[64];
    size_t i = 0;
    const char *place;
    snprintf(pattern, sizeof pattern, " %s=", key);
    place = strstr(line, pattern);
    if (place == NULL)
        return 0;
    for (place += strlen(pattern); *place && *place != ' ' && *place != '\n' && i + 1 < size; place++) {
        if (!strncmp(place, "%20", 3)) {
            value[i++] = ' ';
            place += 2;
        } else {
            value[i++] = *place;
        }
    }
    value[i] = 0;
    return 1;
}

static void delay(const char *function) {
    char line[1024], value[256];
    for (int n = 0; find_line("slow", n, line, sizeof line); n++)
        if (find_value(line, "func", value, sizeof value) && !strcmp(value, function) &&
            find_value(line, "ms", value, sizeof value))
            usleep(1000 * strtoul(value, NULL, 0));
}

static int text(const char *function, uint32_t card, const char *key, char *value, size_t size) {
    char line[1024];
    delay(function);
    if (!find_line("gpu", card, line, sizeof line))
        return INVALID;
    return find_value(line, key, value, size) ? OK : NOT_SUPPORTED;
}

static int number(const char *function, uint32_t card, const char *key, uint64_t *value) {
    char found[64];
    int status = text(function, card, key, found, sizeof found);
    if (status == OK)
        *value = strtoull(found, NULL, 0);
    return status;
}

int rsmi_init(uint64_t flags) {
    const char *path = getenv("FAKE_ROCM");
    (void)flags;
    return path && !access(path, R_OK) ? OK : INIT_ERROR;
}

int rsmi_shut_down(void) { return OK; }

int rsmi_status_string(int status, const char **string) {
    *string = status == NOT_SUPPORTED ? "not supported" : "failed";
    return OK;
}

int rsmi_num_monitor_devices(uint32_t *count) {
    char line[1024];
    for (*count = 0; find_line("gpu", *count, line, sizeof line);)
        ++*count;
    return OK;
}

int rsmi_dev_pci_id_get(uint32_t card, uint64_t *value) { return number(__func__, card, "pci", value); }

int rsmi_dev_name_get(uint32_t card, char *name, size_t size) { return text(__func__, card, "name", name, size); }

int rsmi_dev_busy_percent_get(uint32_t card, uint32_t *value) {
    uint64_t wide;
    int status = number(__func__, card, "busy", &wide);
    if (status == OK)
        *value = wide;
    return status;
}

int rsmi_dev_memory_total_get(uint32_t card, int kind, uint64_t *value) {
    (void)kind;
    return number(__func__, card, "total", value);
}

int rsmi_dev_memory_usage_get(uint32_t card, int kind, uint64_t *value) {
    (void)kind;
    return number(__func__, card, "used", value);
}

int rsmi_dev_power_ave_get(uint32_t card, uint32_t sensor, uint64_t *value) {
    (void)sensor;
    return number(__func__, card, "power", value);
}
