// SPDX-License-Identifier: Apache-2.0
// Who a process is, over tables of environments. The sets of variables are those of JAX's multi-process test harness,
// of Cloud TPU VMs and GKE, of PyTorch/XLA, of `mpirun` (Open MPI 4.1) and of `srun`.
#include <criterion/criterion.h>
#include <string.h>

#include "tests/support/cases.h"
#include "transport/environment.h"

// Variables as "NAME=value" in one text, separated by spaces.
static const char *look_up(void *context, const char *name) {
    static char values[8][128];  // until eight more were read
    static int next;
    const size_t length = strlen(name);
    for (const char *at = context; at; at = strchr(at, ' ') ? strchr(at, ' ') + 1 : NULL) {
        if (strncmp(at, name, length) != 0 || at[length] != '=') continue;
        char *value = values[next++ % 8];
        const size_t size = strcspn(at + length + 1, " ");
        cr_assert_lt(size, sizeof(values[0]));
        memcpy(value, at + length + 1, size);
        value[size] = 0;
        return value;
    }
    return NULL;
}

static HloStatus read(HloArena *arena, const char *variables, int framework_count, int framework_index,
                      TransportEnvironment *environment) {
    const TransportVariables from = {look_up, (void *)(uintptr_t)variables};
    const TransportFramework framework = {"jax.distributed", framework_count, framework_index};
    return transport_environment_read(arena, &from, framework_count ? &framework : NULL, environment);
}

typedef struct Known {
    char variables[400];
    int framework_count, framework_index;
    int64_t count, index;
    char source[32];
    char address[40];  // of this process; "" where addresses are unknown
    int64_t processes[3], chips[3];
    int64_t slices, slice;
    bool alone, all;
    char job[64];
} Known;

CaseList(transport_environment, who) {
    static Known cases[] = {
        {"", 0, 0, 1, 0, "", "", {0}, {0}, 1, 0, 0, 0, ""},
        // JAX's harness: four processes with a chip each, on one machine
        {"CLOUD_TPU_TASK_ID=2 TPU_CHIPS_PER_PROCESS_BOUNDS=1,1,1 TPU_PROCESS_BOUNDS=2,2,1 TPU_VISIBLE_CHIPS=2 "
         "TPU_PROCESS_ADDRESSES=localhost:7001,localhost:7002,localhost:7003,localhost:7004 TPU_PROCESS_PORT=7003",
         4,
         2,
         4,
         2,
         "TPU_PROCESS_ADDRESSES",
         "localhost:7003",
         {2, 2, 1},
         {1, 1, 1},
         1,
         0,
         0,
         0,
         ""},
        // the runtime's numbers need not be the framework's
        {"CLOUD_TPU_TASK_ID=1 TPU_PROCESS_ADDRESSES=a:1,b:2",
         2,
         0,
         2,
         1,
         "TPU_PROCESS_ADDRESSES",
         "b:2",
         {0},
         {0},
         1,
         0,
         0,
         0,
         ""},
        // earlier names
        {"CLOUD_TPU_TASK_ID=1 TPU_CHIPS_PER_HOST_BOUNDS=1,2,1 TPU_HOST_BOUNDS=2,1,1 TPU_VISIBLE_DEVICES=2,3 "
         "TPU_PROCESS_ADDRESSES=localhost:1,localhost:2",
         0,
         0,
         2,
         1,
         "TPU_PROCESS_ADDRESSES",
         "localhost:2",
         {2, 1, 1},
         {1, 2, 1},
         1,
         0,
         0,
         0,
         ""},
        // a process of four on a host that is worker 0 of its slice
        {"TPU_WORKER_ID=0 TPU_WORKER_HOSTNAMES=localhost CLOUD_TPU_TASK_ID=3 TPU_PROCESS_ADDRESSES=h:1,h:2,h:3,h:4",
         0,
         0,
         4,
         3,
         "TPU_PROCESS_ADDRESSES",
         "h:4",
         {0},
         {0},
         1,
         0,
         0,
         0,
         ""},
        // GKE: host names, all on the port of the slice builder
        {"TPU_WORKER_ID=1 TPU_WORKER_HOSTNAMES=t-0.svc,t-1.svc TPU_CHIPS_PER_HOST_BOUNDS=2,2,1 TPU_HOST_BOUNDS=1,2,1",
         0,
         0,
         2,
         1,
         "TPU_WORKER_HOSTNAMES",
         "t-1.svc:8471",
         {1, 2, 1},
         {2, 2, 1},
         1,
         0,
         0,
         0,
         ""},
        {"TPU_WORKER_ID=1 TPU_WORKER_HOSTNAMES=a,b TPU_PROCESS_PORT=99",
         0,
         0,
         2,
         1,
         "TPU_WORKER_HOSTNAMES",
         "b:99",
         {0},
         {0},
         1,
         0,
         0,
         0,
         ""},
        {"TPU_WORKER_HOSTNAMES=localhost",
         0,
         0,
         1,
         0,
         "TPU_WORKER_HOSTNAMES",
         "localhost:8471",
         {0},
         {0},
         1,
         0,
         0,
         0,
         ""},
        // IPv6 with and without a port
        {"CLOUD_TPU_TASK_ID=0 TPU_PROCESS_ADDRESSES=[::1]:5,[::1]:6",
         0,
         0,
         2,
         0,
         "TPU_PROCESS_ADDRESSES",
         "[::1]:5",
         {0},
         {0},
         1,
         0,
         0,
         0,
         ""},
        {"TPU_WORKER_ID=1 TPU_WORKER_HOSTNAMES=[fe80::1],[fe80::2]",
         0,
         0,
         2,
         1,
         "TPU_WORKER_HOSTNAMES",
         "[fe80::2]:8471",
         {0},
         {0},
         1,
         0,
         0,
         0,
         ""},
        // one process of its own on a chip of a host
        {"TPU_CHIPS_PER_PROCESS_BOUNDS=1,1,1 TPU_PROCESS_BOUNDS=1,1,1 TPU_VISIBLE_CHIPS=3",
         0,
         0,
         1,
         0,
         "TPU_PROCESS_BOUNDS",
         "",
         {1, 1, 1},
         {1, 1, 1},
         1,
         0,
         0,
         0,
         ""},
        {"TPU_VISIBLE_CHIPS=0,1,2,3", 0, 0, 1, 0, "", "", {0}, {2, 2, 1}, 1, 0, 0, 0, ""},
        // bounds without addresses: the framework's store connects them
        {"TPU_PROCESS_BOUNDS=2,1,1 CLOUD_TPU_TASK_ID=1",
         2,
         1,
         2,
         1,
         "TPU_PROCESS_BOUNDS",
         "",
         {2, 1, 1},
         {0},
         1,
         0,
         0,
         0,
         ""},
        // several slices
        {"MEGASCALE_NUM_SLICES=2 MEGASCALE_SLICE_ID=1 MEGASCALE_COORDINATOR_ADDRESS=a TPU_WORKER_ID=0 "
         "TPU_WORKER_HOSTNAMES=c,d",
         4,
         2,
         4,
         2,
         "TPU_WORKER_HOSTNAMES",
         "",
         {0},
         {0},
         2,
         1,
         0,
         0,
         ""},
        {"MEGASCALE_NUM_SLICES=1 TPU_WORKER_ID=0 TPU_WORKER_HOSTNAMES=c,d",
         0,
         0,
         2,
         0,
         "TPU_WORKER_HOSTNAMES",
         "c:8471",
         {0},
         {0},
         1,
         0,
         0,
         0,
         ""},
        {"MESHLO_PROCESS_ADDRESSES=a:1,a:2,b:1,b:2 MESHLO_PROCESS_INDEX=3 MEGASCALE_NUM_SLICES=2 MEGASCALE_SLICE_ID=1 "
         "TPU_WORKER_ID=1 TPU_WORKER_HOSTNAMES=b,c",
         0,
         0,
         4,
         3,
         "MESHLO_PROCESS_ADDRESSES",
         "b:2",
         {0},
         {0},
         2,
         1,
         0,
         0,
         ""},
        // the framework
        {"", 4, 3, 4, 3, "jax.distributed", "", {0}, {0}, 1, 0, 0, 0, ""},
        {"", 1, 0, 1, 0, "jax.distributed", "", {0}, {0}, 1, 0, 0, 0, ""},
        {"TPU_WORKER_HOSTNAMES=localhost TPU_WORKER_ID=0", 4, 3, 4, 3, "jax.distributed", "", {0}, {0}, 1, 0, 0, 0, ""},
        // schedulers: one that started a single process says nothing about the framework's others
        {"OMPI_COMM_WORLD_SIZE=4 OMPI_COMM_WORLD_RANK=2 OMPI_COMM_WORLD_LOCAL_SIZE=4 PMIX_NAMESPACE=77",
         0,
         0,
         4,
         2,
         "OMPI_COMM_WORLD_SIZE",
         "",
         {0},
         {0},
         1,
         0,
         0,
         0,
         "Open MPI 77 "},
        {"OMPI_COMM_WORLD_SIZE=4 OMPI_COMM_WORLD_RANK=2 OMPI_COMM_WORLD_LOCAL_SIZE=2 PMIX_NAMESPACE=77",
         0,
         0,
         4,
         2,
         "OMPI_COMM_WORLD_SIZE",
         "",
         {0},
         {0},
         1,
         0,
         0,
         0,
         ""},
        {"OMPI_COMM_WORLD_SIZE=1 OMPI_COMM_WORLD_RANK=0", 4, 1, 4, 1, "jax.distributed", "", {0}, {0}, 1, 0, 0, 0, ""},
        {"SLURM_JOB_ID=9 SLURM_STEP_ID=0 SLURM_STEP_NODELIST=n1 SLURM_NTASKS=2 SLURM_PROCID=1 SLURM_LOCALID=1 "
         "SLURM_TASKS_PER_NODE=2",
         0,
         0,
         2,
         1,
         "SLURM_NTASKS",
         "",
         {0},
         {0},
         1,
         0,
         0,
         0,
         "Slurm 9 0"},
        {"SLURM_JOB_ID=9 SLURM_STEP_ID=0 SLURM_STEP_NODELIST=n[1-2] SLURM_NTASKS=4 SLURM_PROCID=1 "
         "SLURM_TASKS_PER_NODE=2(x2)",
         0,
         0,
         4,
         1,
         "SLURM_NTASKS",
         "",
         {0},
         {0},
         1,
         0,
         0,
         0,
         ""},
        {"SLURM_JOB_ID=9 SLURM_NTASKS=2 SLURM_PROCID=0", 0, 0, 1, 0, "", "", {0}, {0}, 1, 0, 0, 0, ""},  // a batch
                                                                                                         // script
        {"PMI_SIZE=3 PMI_RANK=1 MPI_LOCALNRANKS=3 PMI_PORT=h:5",
         0,
         0,
         3,
         1,
         "PMI_SIZE",
         "",
         {0},
         {0},
         1,
         0,
         0,
         0,
         "PMI h:5 "},
        // our own
        {"MESHLO_PROCESS_INDEX=2", 0, 0, 1, 2, "", "", {0}, {0}, 1, 0, 1, 0, ""},
        {"MESHLO_PROCESS_INDEX=2", 4, 2, 4, 2, "jax.distributed", "", {0}, {0}, 1, 0, 0, 0, ""},
        {"MESHLO_PROCESS_INDEX=2", 1, 0, 1, 2, "", "", {0}, {0}, 1, 0, 1, 0, ""},
        {"MESHLO_PROCESS_INDEX=all OMPI_COMM_WORLD_SIZE=4 OMPI_COMM_WORLD_RANK=7",
         4,
         3,
         1,
         0,
         "",
         "",
         {0},
         {0},
         1,
         0,
         0,
         1,
         ""},
        {"MESHLO_PROCESS_INDEX=1 MESHLO_PROCESS_ADDRESSES=a:1,b:2",
         0,
         0,
         2,
         1,
         "MESHLO_PROCESS_ADDRESSES",
         "b:2",
         {0},
         {0},
         1,
         0,
         0,
         0,
         ""},
        {"MESHLO_PROCESS_INDEX=1 MESHLO_PROCESS_ADDRESSES=a:1,b:2 TPU_PROCESS_BOUNDS=2,1,1",
         0,
         0,
         2,
         1,
         "MESHLO_PROCESS_ADDRESSES",
         "b:2",
         {2, 1, 1},
         {0},
         1,
         0,
         0,
         0,
         ""},
        {"TPU_PROCESS_ADDRESSES= TPU_PROCESS_BOUNDS= MEGASCALE_NUM_SLICES=",
         0,
         0,
         1,
         0,
         "",
         "",
         {0},
         {0},
         1,
         0,
         0,
         0,
         ""},
    };
    return cr_make_param_array(Known, cases, sizeof(cases) / sizeof(cases[0]));
}

CaseTest(Known *param, transport_environment, who) {
    HloArena *arena = hlo_arena_new();
    TransportEnvironment got;
    HloStatus status = read(arena, param->variables, param->framework_count, param->framework_index, &got);
    cr_assert(!status, "%s: %s", param->variables, hlo_status_message(status));
    cr_expect_eq(got.process_count, param->count, "%s", param->variables);
    cr_expect_eq(got.process_index, param->index, "%s", param->variables);
    cr_expect_str_eq(got.source ? got.source : "", param->source);
    cr_expect_str_eq(got.addresses ? got.addresses[got.process_index] : "", param->address);
    for (int axis = 0; axis < 3; axis++) {
        cr_expect_eq(got.process_bounds[axis], param->processes[axis], "%s", param->variables);
        cr_expect_eq(got.chip_bounds[axis], param->chips[axis], "%s", param->variables);
    }
    cr_expect_eq(got.slice_count, param->slices);
    cr_expect_eq(got.slice_index, param->slice);
    cr_expect_eq(got.is_alone, param->alone);
    cr_expect_eq(got.plays_all_hosts, param->all);
    cr_expect_str_eq(got.job ? got.job : "", param->job);
    hlo_arena_free(arena);
}

typedef struct Refused {
    char variables[320];
    int framework_count, framework_index;
    char message[120];
} Refused;

CaseList(transport_environment, contradictions) {
    static Refused cases[] = {
        {"TPU_PROCESS_ADDRESSES=a:1,b:2", 0, 0,
         "TPU_PROCESS_ADDRESSES names 2 processes, but CLOUD_TPU_TASK_ID is not set"},
        {"TPU_PROCESS_ADDRESSES=a:1,b:2 CLOUD_TPU_TASK_ID=2", 0, 0,
         "CLOUD_TPU_TASK_ID is 2, but TPU_PROCESS_ADDRESSES has 2 processes"},
        {"TPU_PROCESS_ADDRESSES=a:1,b:2 CLOUD_TPU_TASK_ID=x", 0, 0, "CLOUD_TPU_TASK_ID is 'x'; a number"},
        {"TPU_PROCESS_ADDRESSES=a:1,b:2 CLOUD_TPU_TASK_ID=-1", 0, 0, "CLOUD_TPU_TASK_ID is '-1'"},
        {"TPU_PROCESS_ADDRESSES=a:1,a:1 CLOUD_TPU_TASK_ID=0", 0, 0, "TPU_PROCESS_ADDRESSES has a:1 twice"},
        {"TPU_PROCESS_ADDRESSES=a:1,,b:1 CLOUD_TPU_TASK_ID=0", 0, 0, "entry 1 is empty"},
        {"TPU_PROCESS_ADDRESSES=a:1, CLOUD_TPU_TASK_ID=0", 0, 0, "entry 1 is empty"},
        {"TPU_PROCESS_ADDRESSES=a:1,b:99999 CLOUD_TPU_TASK_ID=0", 0, 0, "'b:99999' is not HOST:PORT"},
        {"TPU_PROCESS_ADDRESSES=:1,b:2 CLOUD_TPU_TASK_ID=0", 0, 0, "':1' is not HOST:PORT"},
        {"MESHLO_PROCESS_ADDRESSES=a,b MESHLO_PROCESS_INDEX=0", 0, 0, "'a' has no port"},
        {"TPU_PROCESS_ADDRESSES=a:1,b:2 CLOUD_TPU_TASK_ID=1 TPU_PROCESS_PORT=3", 0, 0,
         "TPU_PROCESS_PORT is 3, but entry 1 of TPU_PROCESS_ADDRESSES is b:2"},
        {"TPU_PROCESS_PORT=0", 0, 0, "TPU_PROCESS_PORT is '0'; a number from 1 to 65535"},
        {"TPU_PROCESS_ADDRESSES=a:1,b:2 CLOUD_TPU_TASK_ID=1 TPU_PROCESS_BOUNDS=2,2,1", 0, 0,
         "TPU_PROCESS_ADDRESSES has 2 processes, but TPU_PROCESS_BOUNDS are 4"},
        {"TPU_PROCESS_BOUNDS=2,2,1", 0, 0, "TPU_PROCESS_BOUNDS names 4 processes, but CLOUD_TPU_TASK_ID is not set"},
        {"TPU_PROCESS_BOUNDS=2,2", 0, 0, "TPU_PROCESS_BOUNDS is '2,2'; three numbers"},
        {"TPU_PROCESS_BOUNDS=2,0,1", 0, 0, "TPU_PROCESS_BOUNDS is '2,0,1'"},
        {"TPU_PROCESS_BOUNDS=2x2x1", 0, 0, "TPU_PROCESS_BOUNDS is '2x2x1'"},
        {"TPU_HOST_BOUNDS=3000,3000,3000", 0, 0, "TPU_HOST_BOUNDS is '3000,3000,3000', which is more than"},
        {"TPU_PROCESS_BOUNDS=1,1,1 TPU_HOST_BOUNDS=1,1,2", 0, 0,
         "TPU_PROCESS_BOUNDS is '1,1,1', but TPU_HOST_BOUNDS is '1,1,2'"},
        {"TPU_VISIBLE_CHIPS=0,1 TPU_CHIPS_PER_PROCESS_BOUNDS=1,1,1", 0, 0,
         "TPU_VISIBLE_CHIPS lists 2 chips, but TPU_CHIPS_PER_PROCESS_BOUNDS is 1,1,1"},
        {"TPU_VISIBLE_CHIPS=0,0", 0, 0, "TPU_VISIBLE_CHIPS is '0,0', which has chip 0 twice"},
        {"TPU_VISIBLE_CHIPS=0,1,2", 0, 0, "TPU_VISIBLE_CHIPS lists 3 chips; set TPU_CHIPS_PER_PROCESS_BOUNDS"},
        {"TPU_VISIBLE_CHIPS=a", 0, 0, "TPU_VISIBLE_CHIPS is 'a'"},
        {"TPU_VISIBLE_CHIPS=0 TPU_VISIBLE_DEVICES=1", 0, 0, "TPU_VISIBLE_CHIPS is '0', but TPU_VISIBLE_DEVICES is '1'"},
        {"TPU_WORKER_HOSTNAMES=a,b", 0, 0, "TPU_WORKER_HOSTNAMES names 2 processes, but TPU_WORKER_ID is not set"},
        {"TPU_WORKER_HOSTNAMES=a,b TPU_WORKER_ID=1", 4, 1,
         "TPU_WORKER_HOSTNAMES has 2 processes, but jax.distributed has 4"},
        {"MEGASCALE_NUM_SLICES=2", 0, 0, "MEGASCALE_NUM_SLICES is 2, but MEGASCALE_SLICE_ID is not set"},
        {"MEGASCALE_NUM_SLICES=2 MEGASCALE_SLICE_ID=2", 0, 0, "MEGASCALE_SLICE_ID is 2, but MEGASCALE_NUM_SLICES is 2"},
        {"MEGASCALE_NUM_SLICES=0", 0, 0, "MEGASCALE_NUM_SLICES is '0'"},
        {"MEGASCALE_NUM_SLICES=2 MEGASCALE_SLICE_ID=0 TPU_WORKER_HOSTNAMES=a,b TPU_WORKER_ID=1", 2, 0,
         "TPU_WORKER_HOSTNAMES has 4 processes, but jax.distributed has 2"},
        {"OMPI_COMM_WORLD_SIZE=4 OMPI_COMM_WORLD_RANK=1", 2, 1,
         "jax.distributed has 2 processes, but OMPI_COMM_WORLD_SIZE has 4"},
        {"OMPI_COMM_WORLD_SIZE=4 OMPI_COMM_WORLD_RANK=4", 0, 0,
         "OMPI_COMM_WORLD_RANK is 4, but OMPI_COMM_WORLD_SIZE has 4"},
        {"", 2, 2, "jax.distributed: process 2 of 2"},
        {"MESHLO_PROCESS_INDEX=2", 4, 1, "MESHLO_PROCESS_INDEX is 2, but jax.distributed says process 1"},
        {"MESHLO_PROCESS_INDEX=first", 0, 0, "MESHLO_PROCESS_INDEX is 'first'"},
        {"MESHLO_PROCESS_ADDRESSES=a:1,b:2", 0, 0, "but MESHLO_PROCESS_INDEX is not set"},
        {"MESHLO_HOST_TIMEOUT=soon", 0, 0, "MESHLO_HOST_TIMEOUT is 'soon'"},
        {"MESHLO_HOST_TIMEOUT=0", 0, 0, "MESHLO_HOST_TIMEOUT is '0'"},
        {"MESHLO_HOST_TIMEOUT=nan", 0, 0, "MESHLO_HOST_TIMEOUT is 'nan'"},
    };
    return cr_make_param_array(Refused, cases, sizeof(cases) / sizeof(cases[0]));
}

CaseTest(Refused *param, transport_environment, contradictions) {
    HloArena *arena = hlo_arena_new();
    TransportEnvironment got;
    HloStatus status = read(arena, param->variables, param->framework_count, param->framework_index, &got);
    cr_assert(status, "accepted: %s", param->variables);
    cr_expect_eq(hlo_status_code(status), HLO_INVALID_ARGUMENT);
    cr_expect(strstr(hlo_status_message(status), param->message), "'%s' instead of '%s'", hlo_status_message(status),
              param->message);
    hlo_status_free(status);
    hlo_arena_free(arena);
}

Test(transport_environment, settings) {
    HloArena *arena = hlo_arena_new();
    TransportEnvironment got;
    cr_assert(!read(arena, "MESHLO_HOST_TIMEOUT=2.5 MESHLO_SECRET=abc", 0, 0, &got));
    cr_expect_eq(got.timeout_seconds, 2.5);
    cr_expect_str_eq(got.secret, "abc");
    hlo_arena_free(arena);
}
