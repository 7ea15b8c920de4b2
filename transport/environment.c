// SPDX-License-Identifier: Apache-2.0
// The variables of the TPU runtime are those that JAX (jax/_src/clusters), PyTorch/XLA and Ray set for libtpu; those of
// the schedulers are the ones by which JAX detects them.
#include "transport/environment.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "hlo/base/decimal.h"
#include "hlo/base/vector.h"
#include "transport/transport.h"

typedef struct Reader {
    HloArena *arena;
    TransportVariables variables;
    TransportEnvironment *out;
} Reader;

static const char *from_process(void *context, const char *name) {
    (void)context;
    return getenv(name);
}

TransportVariables transport_process_variables(void) {
    return (TransportVariables){.get = from_process};
}

// A variable's value; NULL if it is missing or empty. Container systems set variables to nothing to undo them.
static const char *value_of(const Reader *reader, const char *name) {
    const char *value = reader->variables.get(reader->variables.context, name);
    return value && *value ? value : NULL;
}

// The value of a variable that has an earlier name; *name becomes the one that is set. Both, if they are set, must be
// equal.
static HloStatus value_of_either(const Reader *reader, const char **name, const char *earlier, const char **value) {
    const char *old = value_of(reader, earlier);
    *value = value_of(reader, *name);
    HLO_FAIL_IF(*value && old && strcmp(*value, old) != 0, HLO_INVALID_ARGUMENT, "%s is '%s', but %s is '%s'", *name,
                *value, earlier, old);
    if (*value || !old) return HLO_SUCCESS;
    *name = earlier;
    *value = old;
    return HLO_SUCCESS;
}

// ---- values

// A decimal number from 0 to `most` at *at, moved past it; -1 where there is none.
static int64_t next_number(const char **at, int64_t most) {
    if (**at < '0' || **at > '9') return -1;
    char *end;
    errno = 0;
    const long long number = strtoll(*at, &end, 10);
    if (errno || number > most) return -1;
    *at = end;
    return number;
}

// Reads a number; *number stays as it is if the variable is not set.
static HloStatus read_number(const Reader *reader, const char *name, int64_t least, int64_t most, int64_t *number) {
    const char *value = value_of(reader, name);
    if (!value) return HLO_SUCCESS;
    const char *at = value;
    const int64_t read = next_number(&at, most);
    HLO_FAIL_IF(read < least || *at, HLO_INVALID_ARGUMENT, "%s is '%s'; a number from %lld to %lld is expected", name,
                value, (long long)least, (long long)most);
    *number = read;
    return HLO_SUCCESS;
}

// Reads "2,2,1". `name` is the one that is set.
static HloStatus read_bounds(const char *name, const char *value, int64_t bounds[3]) {
    const char *at = value;
    for (int axis = 0; axis < 3; axis++) {
        bounds[axis] = next_number(&at, TRANSPORT_MAXIMUM_PROCESSES);
        HLO_FAIL_IF(bounds[axis] < 1 || *at != (axis < 2 ? ',' : 0), HLO_INVALID_ARGUMENT,
                    "%s is '%s'; three numbers from 1 on are expected, as in 2,2,1", name, value);
        if (axis < 2) at++;
    }
    HLO_FAIL_IF(bounds[0] * bounds[1] > TRANSPORT_MAXIMUM_PROCESSES ||
                    bounds[0] * bounds[1] * bounds[2] > TRANSPORT_MAXIMUM_PROCESSES,
                HLO_INVALID_ARGUMENT, "%s is '%s', which is more than %d", name, value, TRANSPORT_MAXIMUM_PROCESSES);
    return HLO_SUCCESS;
}

static int64_t volume(const int64_t bounds[3]) {
    return bounds[0] * bounds[1] * bounds[2];
}

// Reads "0,1,2,3": distinct numbers of chips. *count is 0 if the variable is not set.
static HloStatus count_visible(const Reader *reader, const char **name, int64_t *count) {
    const char *value;
    *name = "TPU_VISIBLE_CHIPS";
    *count = 0;
    HLO_TRY(value_of_either(reader, name, "TPU_VISIBLE_DEVICES", &value));
    if (!value) return HLO_SUCCESS;
    bool seen[64] = {0};
    for (const char *at = value;; at++) {
        const int64_t chip = next_number(&at, (int64_t)HLO_COUNT_OF(seen) - 1);
        HLO_FAIL_IF(chip < 0 || (*at && *at != ','), HLO_INVALID_ARGUMENT,
                    "%s is '%s'; numbers of chips are expected, as in 0,1", *name, value);
        HLO_FAIL_IF(seen[chip], HLO_INVALID_ARGUMENT, "%s is '%s', which has chip %lld twice", *name, value,
                    (long long)chip);
        seen[chip] = true;
        ++*count;
        if (!*at) return HLO_SUCCESS;
    }
}

// ---- how a slice is divided

// The shape of so many chips of one host where only their number is given, as frameworks that set these variables have
// it.
static bool usual_bounds(int64_t chips, int64_t bounds[3]) {
    static const int64_t usual[][3] = {{1, 1, 1}, {1, 2, 1}, {2, 2, 1}, {2, 4, 1}};
    for (size_t i = 0; i < HLO_COUNT_OF(usual); i++) {
        if (volume(usual[i]) != chips) continue;
        memcpy(bounds, usual[i], sizeof(usual[i]));
        return true;
    }
    return false;
}

static HloStatus read_division(const Reader *reader) {
    TransportEnvironment *out = reader->out;
    const char *name = "TPU_PROCESS_BOUNDS", *value;
    HLO_TRY(value_of_either(reader, &name, "TPU_HOST_BOUNDS", &value));
    if (value) {
        HLO_TRY(read_bounds(name, value, out->process_bounds));
        out->process_bounds_source = name;
    }
    name = "TPU_CHIPS_PER_PROCESS_BOUNDS";
    HLO_TRY(value_of_either(reader, &name, "TPU_CHIPS_PER_HOST_BOUNDS", &value));
    if (value) {
        HLO_TRY(read_bounds(name, value, out->chip_bounds));
        out->chip_bounds_source = name;
    }
    int64_t visible;
    HLO_TRY(count_visible(reader, &name, &visible));
    if (!visible) return HLO_SUCCESS;
    if (value) {
        HLO_FAIL_IF(visible != volume(out->chip_bounds), HLO_INVALID_ARGUMENT, "%s lists %lld chips, but %s is %s",
                    name, (long long)visible, out->chip_bounds_source, value);
        return HLO_SUCCESS;
    }
    HLO_FAIL_IF(!usual_bounds(visible, out->chip_bounds), HLO_INVALID_ARGUMENT,
                "%s lists %lld chips; set TPU_CHIPS_PER_PROCESS_BOUNDS to their shape", name, (long long)visible);
    out->chip_bounds_source = name;
    return HLO_SUCCESS;
}

// ---- who is there

// The process count of a source; -1 where it says nothing.
typedef struct Claim {
    const char *source;
    int64_t count, index;
    const char *const *addresses;
} Claim;

// Splits a list at commas. `port` is added to names without one; -1: names must have a port.
static HloStatus read_addresses(const Reader *reader, const char *name, const char *value, int64_t port, Claim *claim) {
    HLO_VECTOR(const char *) list = {0};
    for (const char *at = value;; at++) {
        const size_t length = strcspn(at, ",");
        HLO_FAIL_IF(length == 0 || length > 255, HLO_INVALID_ARGUMENT, "%s is '%s'; entry %lld is %s", name, value,
                    (long long)list.count, length ? "too long" : "empty");
        const char *address = hlo_arena_string(reader->arena, at, length), *colon = strrchr(address, ':');
        const char *bracket = strrchr(address, ']');  // of an IPv6 address
        if (colon && (colon > bracket || !bracket)) {
            const char *digits = colon + 1;
            HLO_FAIL_IF(colon == address || next_number(&digits, 65535) < 1 || *digits, HLO_INVALID_ARGUMENT,
                        "%s: '%s' is not HOST:PORT", name, address);
        } else {
            HLO_FAIL_IF(port < 0, HLO_INVALID_ARGUMENT, "%s: '%s' has no port; HOST:PORT is expected", name, address);
            address = hlo_arena_format(reader->arena, "%s:%lld", address, (long long)port);
        }
        HLO_FAIL_IF(list.count == TRANSPORT_MAXIMUM_PROCESSES, HLO_INVALID_ARGUMENT, "%s has more than %d entries",
                    name, TRANSPORT_MAXIMUM_PROCESSES);
        for (int64_t i = 0; i < list.count; i++)
            HLO_FAIL_IF(strcmp(list.items[i], address) == 0, HLO_INVALID_ARGUMENT,
                        "%s has %s twice; processes on one host need ports of their own", name, address);
        hlo_vector_push(reader->arena, &list, address);
        at += length;
        if (!*at) break;
    }
    *claim = (Claim){name, list.count, -1, list.items};
    return HLO_SUCCESS;
}

static HloStatus check_index(const char *name, const Claim *claim) {
    HLO_FAIL_IF(claim->index < 0, HLO_INVALID_ARGUMENT, "%s names %lld processes, but %s is not set", claim->source,
                (long long)claim->count, name);
    HLO_FAIL_IF(claim->index >= claim->count, HLO_INVALID_ARGUMENT, "%s is %lld, but %s has %lld processes", name,
                (long long)claim->index, claim->source, (long long)claim->count);
    return HLO_SUCCESS;
}

// MESHLO_PROCESS_INDEX, and MESHLO_PROCESS_ADDRESSES for all processes of all slices.
static HloStatus read_own(const Reader *reader, Claim *claim) {
    const char *index = value_of(reader, "MESHLO_PROCESS_INDEX");
    const char *addresses = value_of(reader, "MESHLO_PROCESS_ADDRESSES");
    *claim = (Claim){.count = -1, .index = -1};
    if (addresses) {
        HLO_TRY(read_addresses(reader, "MESHLO_PROCESS_ADDRESSES", addresses, -1, claim));
        HLO_TRY(read_number(reader, "MESHLO_PROCESS_INDEX", 0, TRANSPORT_MAXIMUM_PROCESSES - 1, &claim->index));
        return check_index("MESHLO_PROCESS_INDEX", claim);
    }
    reader->out->plays_all_hosts = index && strcmp(index, "all") == 0;
    if (!index || reader->out->plays_all_hosts) return HLO_SUCCESS;
    const char *at = index;
    reader->out->process_index = next_number(&at, TRANSPORT_MAXIMUM_PROCESSES - 1);
    HLO_FAIL_IF(reader->out->process_index < 0 || *at, HLO_INVALID_ARGUMENT,
                "MESHLO_PROCESS_INDEX is '%s'; expected a number, or all", index);
    reader->out->is_alone = true;
    return HLO_SUCCESS;
}

// Reads which process of one slice this is. With `is_known` another variable has given its number, so bounds alone need
// not give it.
static HloStatus read_tpu_slice(const Reader *reader, bool is_known, Claim *claim) {
    const char *addresses = value_of(reader, "TPU_PROCESS_ADDRESSES");
    const char *names = value_of(reader, "TPU_WORKER_HOSTNAMES");
    int64_t task = -1, worker = -1, port = -1;
    *claim = (Claim){.count = -1, .index = -1};
    HLO_TRY(read_number(reader, "CLOUD_TPU_TASK_ID", 0, TRANSPORT_MAXIMUM_PROCESSES - 1, &task));
    HLO_TRY(read_number(reader, "TPU_WORKER_ID", 0, TRANSPORT_MAXIMUM_PROCESSES - 1, &worker));
    HLO_TRY(read_number(reader, "TPU_PROCESS_PORT", 1, 65535, &port));
    const int64_t usual = port > 0 ? port : TRANSPORT_DEFAULT_PORT;
    if (addresses) {
        // Several processes of one host have that host's worker number, so the task counts first.
        const char *index = task >= 0 || worker < 0 ? "CLOUD_TPU_TASK_ID" : "TPU_WORKER_ID";
        HLO_TRY(read_addresses(reader, "TPU_PROCESS_ADDRESSES", addresses, usual, claim));
        claim->index = task >= 0 ? task : worker >= 0 ? worker : claim->count == 1 ? 0 : -1;
        HLO_TRY(check_index(index, claim));
        const char *own = claim->addresses[claim->index], *at = strrchr(own, ':') + 1;
        HLO_FAIL_IF(port > 0 && next_number(&at, 65535) != port, HLO_INVALID_ARGUMENT,
                    "TPU_PROCESS_PORT is %lld, but entry %lld of TPU_PROCESS_ADDRESSES is %s", (long long)port,
                    (long long)claim->index, own);
    } else if (names) {
        HLO_TRY(read_addresses(reader, "TPU_WORKER_HOSTNAMES", names, usual, claim));
        claim->index = worker >= 0 ? worker : task >= 0 ? task : claim->count == 1 ? 0 : -1;
        HLO_TRY(check_index("TPU_WORKER_ID", claim));
    } else if (reader->out->process_bounds_source) {
        *claim = (Claim){reader->out->process_bounds_source, volume(reader->out->process_bounds), -1, NULL};
        claim->index = task >= 0 ? task : worker >= 0 ? worker : claim->count == 1 || is_known ? 0 : -1;
        HLO_TRY(check_index("CLOUD_TPU_TASK_ID", claim));
    }
    HLO_FAIL_IF(
        claim->count > 0 && reader->out->process_bounds_source && claim->count != volume(reader->out->process_bounds),
        HLO_INVALID_ARGUMENT, "%s has %lld processes, but %s are %lld", claim->source, (long long)claim->count,
        reader->out->process_bounds_source, (long long)volume(reader->out->process_bounds));
    return HLO_SUCCESS;
}

// Several slices: the processes of each one have addresses of that slice only.
static HloStatus read_tpu(const Reader *reader, bool is_known, Claim *claim) {
    TransportEnvironment *out = reader->out;
    int64_t slices = 1, slice = -1;
    HLO_TRY(read_tpu_slice(reader, is_known, claim));
    HLO_TRY(read_number(reader, "MEGASCALE_NUM_SLICES", 1, TRANSPORT_MAXIMUM_PROCESSES, &slices));
    if (!value_of(reader, "MEGASCALE_NUM_SLICES")) return HLO_SUCCESS;
    HLO_TRY(read_number(reader, "MEGASCALE_SLICE_ID", 0, TRANSPORT_MAXIMUM_PROCESSES - 1, &slice));
    HLO_FAIL_IF(slice < 0 && slices > 1, HLO_INVALID_ARGUMENT,
                "MEGASCALE_NUM_SLICES is %lld, but MEGASCALE_SLICE_ID is not set", (long long)slices);
    HLO_FAIL_IF(slice >= slices, HLO_INVALID_ARGUMENT, "MEGASCALE_SLICE_ID is %lld, but MEGASCALE_NUM_SLICES is %lld",
                (long long)slice, (long long)slices);
    out->slice_source = "MEGASCALE_NUM_SLICES";
    out->slice_count = slices;
    out->slice_index = slice < 0 ? 0 : slice;
    if (claim->count < 0 || slices == 1) return HLO_SUCCESS;
    claim->index += out->slice_index * claim->count;
    claim->count *= slices;
    claim->addresses = NULL;
    return HLO_SUCCESS;
}

// ---- schedulers

// Variables by which a scheduler tells a process who it is.
typedef struct Scheduler {
    const char *name, *count, *index;
    const char *local_count;  // processes on this machine; equal to the count if there is one machine
    const char *job[2];       // which job this is
    const char *required;     // set only in processes that were started together; NULL: always
} Scheduler;

static const Scheduler schedulers[] = {
    {"Open MPI",
     "OMPI_COMM_WORLD_SIZE",
     "OMPI_COMM_WORLD_RANK",
     "OMPI_COMM_WORLD_LOCAL_SIZE",
     {"PMIX_NAMESPACE", "OMPI_MCA_orte_hnp_uri"},
     NULL},
    // In a batch script, outside of a step, Slurm sets the count too, but one process runs.
    {"Slurm",
     "SLURM_NTASKS",
     "SLURM_PROCID",
     "SLURM_TASKS_PER_NODE",
     {"SLURM_JOB_ID", "SLURM_STEP_ID"},
     "SLURM_STEP_NODELIST"},
    {"PMI", "PMI_SIZE", "PMI_RANK", "MPI_LOCALNRANKS", {"PMI_PORT", "PMI_JOBID"}, NULL},
};

// A text that only processes of this job have: their launcher's number where the scheduler has none.
static const char *job_of(const Reader *reader, const Scheduler *scheduler) {
    const char *first = value_of(reader, scheduler->job[0]), *second = value_of(reader, scheduler->job[1]);
    if (!first && !second) return hlo_arena_format(reader->arena, "%s %ld", scheduler->name, (long)getppid());
    return hlo_arena_format(reader->arena, "%s %s %s", scheduler->name, first ? first : "", second ? second : "");
}

static HloStatus read_scheduler(const Reader *reader, Claim *claim) {
    *claim = (Claim){.count = -1, .index = -1};
    for (size_t i = 0; i < HLO_COUNT_OF(schedulers); i++) {
        const Scheduler *scheduler = &schedulers[i];
        const char *local = value_of(reader, scheduler->local_count), *count = value_of(reader, scheduler->count);
        if (!count || !value_of(reader, scheduler->index)) continue;
        if (scheduler->required && !value_of(reader, scheduler->required)) continue;
        claim->source = scheduler->count;
        HLO_TRY(read_number(reader, scheduler->count, 1, TRANSPORT_MAXIMUM_PROCESSES, &claim->count));
        HLO_TRY(read_number(reader, scheduler->index, 0, TRANSPORT_MAXIMUM_PROCESSES - 1, &claim->index));
        HLO_TRY(check_index(scheduler->index, claim));
        if (local && strcmp(local, count) == 0) reader->out->job = job_of(reader, scheduler);
        return HLO_SUCCESS;
    }
    return HLO_SUCCESS;
}

// ---- all of them

static HloStatus read_framework(const TransportFramework *framework, Claim *claim) {
    *claim = (Claim){.count = -1, .index = -1};
    if (!framework || framework->process_count < 1) return HLO_SUCCESS;
    *claim = (Claim){framework->name, framework->process_count, framework->process_index, NULL};
    HLO_FAIL_IF(claim->count > TRANSPORT_MAXIMUM_PROCESSES || claim->index < 0 || claim->index >= claim->count,
                HLO_INVALID_ARGUMENT, "%s: process %lld of %lld", framework->name, (long long)claim->index,
                (long long)claim->count);
    return HLO_SUCCESS;
}

// MESHLO_HOST_TIMEOUT and MESHLO_SECRET.
static HloStatus read_settings(const Reader *reader) {
    TransportEnvironment *out = reader->out;
    const char *timeout = value_of(reader, "MESHLO_HOST_TIMEOUT");
    out->secret = value_of(reader, "MESHLO_SECRET");
    if (!timeout) return HLO_SUCCESS;
    char *end;
    out->timeout_seconds = hlo_strtod(timeout, &end);
    HLO_FAIL_IF(*end || !(out->timeout_seconds > 0) || !(out->timeout_seconds <= 86400), HLO_INVALID_ARGUMENT,
                "MESHLO_HOST_TIMEOUT is '%s'; seconds are expected", timeout);
    return HLO_SUCCESS;
}

// The first claim decides. Later ones must have the same count, except that one process alone says nothing about
// others: a TPU host lists itself, and a scheduler may have started a single process that starts the others.
static HloStatus settle(const Reader *reader, const Claim *claims, size_t count) {
    TransportEnvironment *out = reader->out;
    const Claim *chosen = NULL;
    for (size_t i = 0; i < count; i++) {
        const Claim *claim = &claims[i];
        if (claim->count < 0 || (chosen && claim->count == 1)) continue;
        HLO_FAIL_IF(chosen && chosen->count > 1 && chosen->count != claim->count, HLO_INVALID_ARGUMENT,
                    "%s has %lld processes, but %s has %lld", chosen->source, (long long)chosen->count, claim->source,
                    (long long)claim->count);
        if (chosen && chosen->count > 1) continue;
        chosen = claim;
    }
    if (!chosen) return HLO_SUCCESS;
    out->process_count = chosen->count;
    out->process_index = chosen->index;
    out->source = chosen->source;
    out->addresses = chosen->addresses;
    return HLO_SUCCESS;
}

HloStatus transport_environment_read(HloArena *arena, const TransportVariables *variables,
                                     const TransportFramework *framework, TransportEnvironment *environment) {
    *environment = (TransportEnvironment){.process_count = 1, .slice_count = 1};
    const Reader reader = {arena, variables ? *variables : transport_process_variables(), environment};
    enum { OWN, TPU, FRAMEWORK, SCHEDULER, SOURCES };
    Claim claims[SOURCES];
    HLO_TRY(read_settings(&reader));
    HLO_TRY(read_own(&reader, &claims[OWN]));
    if (environment->plays_all_hosts) return HLO_SUCCESS;
    HLO_TRY(read_division(&reader));
    HLO_TRY(read_framework(framework, &claims[FRAMEWORK]));
    if (environment->is_alone && claims[FRAMEWORK].count > 1) {
        // The framework has connected the processes, so this one is not without the others.
        HLO_FAIL_IF(environment->process_index != claims[FRAMEWORK].index, HLO_INVALID_ARGUMENT,
                    "MESHLO_PROCESS_INDEX is %lld, but %s says process %lld", (long long)environment->process_index,
                    framework->name, (long long)claims[FRAMEWORK].index);
        environment->is_alone = false;
    }
    if (environment->is_alone) return HLO_SUCCESS;
    HLO_TRY(read_tpu(&reader, claims[OWN].count > 0, &claims[TPU]));
    HLO_TRY(read_scheduler(&reader, &claims[SCHEDULER]));
    return settle(&reader, claims, SOURCES);
}
