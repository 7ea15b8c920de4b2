// SPDX-License-Identifier: Apache-2.0
// The public entry points: memory errors become statuses here.
//
// The pipeline: infer the mesh, flatten tuples and control flow where that is needed (flatten.h), plan (arrays,
// annotations, propagation), emit the program of one device, then run the passes over its collectives (passes/). The
// input module is never changed: what needs changing is cloned.
#include <assert.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "hlo/analysis/contents.h"
#include "hlo/ir/custom_call.h"
#include "hlo/ir/infer/support.h"
#include "hlo/pass/pass.h"
#include "hlo/verify/verify.h"
#include "spmd_partitioner/boundary.h"
#include "spmd_partitioner/chain.h"
#include "spmd_partitioner/custom_call.h"
#include "spmd_partitioner/explain.h"
#include "spmd_partitioner/flatten.h"
#include "spmd_partitioner/partitioner.h"
#include "spmd_partitioner/passes/passes.h"

// The part of the time by bytes alone that a plan by the machine's prices may take.
static const double WORTHWHILE = 0.98;

// One call of the API. `arena` and `flat` go when it ends; `result` is the caller's if it succeeds.
typedef struct Request {
    const HloModule *module;
    const SpmdOptions *options;
    HloArena *arena;      // scratch
    SpmdCosts costs;      // on the mesh, by the machine of the options
    bool by_bytes;        // compare plans without the machine
    double seconds;       // that the result takes on the machine, if there is one
    HloModule *remeshed;  // the module laid out on the mesh of the options, if that is another one
    HloModule *flat;      // the module in the form that is partitioned
    HloModule *result;
} Request;

// What rules and sizes below rely on and the verifier leaves open.
static HloStatus check_program(const HloModule *module) {
    for (int64_t c = 0; c < module->computations.count; c++) {
        for (const HloInstruction *at = module->computations.items[c]->first; at; at = at->next) {
            HloStatus status = HLO_SUCCESS;
            if (hlo_shape_is_unbounded(at->shape))
                status = hlo_error(HLO_UNIMPLEMENTED,
                                   "%%%s: an array with an unbounded dimension cannot be partitioned", at->name);
            else if (hlo_is(at, HLO_OP_CUSTOM_CALL))
                status = hlo_custom_call_check(at);
            HLO_TRY(hlo_status_at_instruction(status, at));
        }
    }
    return HLO_SUCCESS;
}

// The mesh lives in the request's arena. The request's module is laid out on the options' mesh.
static HloStatus find_mesh(Request *request, const SpmdMesh **mesh) {
    const SpmdOptions *options = request->options;
    HLO_FAIL_IF(!request->module->entry, HLO_INVALID_ARGUMENT, "the module has no entry computation");
    if (options->mesh_axis_count) {
        HLO_TRY(spmd_mesh_apply(request->arena, request->module, options->mesh, options->mesh_axis_count,
                                &request->remeshed));
        if (request->remeshed) request->module = request->remeshed;
    }
    return spmd_mesh_infer(request->arena, request->module, request->options, mesh);
}

HloStatus spmd_module_mesh(HloArena *arena, const HloModule *module, const SpmdMeshAxis **axes, int64_t *count) {
    assert(arena && module && axes && count);
    const SpmdOptions defaults = {0};
    const SpmdMesh *mesh;
    HLO_TRY(spmd_mesh_infer(arena, module, &defaults, &mesh));
    *axes = mesh->axes;
    *count = mesh->axis_count;
    return HLO_SUCCESS;
}

typedef struct CountRequest {
    Request request;
    int64_t count;
} CountRequest;

static HloStatus count_devices(void *argument) {
    CountRequest *count = argument;
    const SpmdMesh *mesh;
    HLO_TRY(find_mesh(&count->request, &mesh));
    count->count = mesh->device_count;
    return HLO_SUCCESS;
}

HloStatus spmd_device_count(const HloModule *module, const SpmdOptions *options, int64_t *count) {
    assert(module && count);
    static const SpmdOptions defaults = {0};
    CountRequest request = {.request = {.module = module, .options = options ? options : &defaults}};
    request.request.arena = hlo_arena_new();
    HLO_FAIL_IF(!request.request.arena, HLO_RESOURCE_EXHAUSTED, "out of memory");
    HloStatus status = hlo_protect(count_devices, &request);
    hlo_arena_free(request.request.arena);
    hlo_module_free(request.request.remeshed);
    *count = request.count;
    return status;
}

// A clone of the module that was given, in place of the empty result.
static HloStatus copy_module(Request *request) {
    hlo_module_free(request->result);
    request->result = hlo_module_clone(request->module);
    HLO_FAIL_IF(!request->result, HLO_RESOURCE_EXHAUSTED, "no memory to copy the program");
    return HLO_SUCCESS;
}

static HloStatus check_root(const HloModule *module) {
    const HloInstruction *root = module->entry->root;
    HLO_FAIL_IF(hlo_op_is(root->opcode, HLO_OP_IS_ASYNC_START), HLO_UNIMPLEMENTED,
                "%%%s: the root %s has no matching done", root->name, hlo_op_text(root->opcode));
    return HLO_SUCCESS;
}

// Groups, pairs and shapes of a module that does not count its partitions may be those of any number of them. They have
// to be right for the mesh's.
static HloStatus check_collectives(const HloModule *module, const SpmdMesh *mesh) {
    if (module->num_partitions == mesh->device_count || !hlo_module_has_collectives(module)) return HLO_SUCCESS;
    HloModule *counted = hlo_module_clone(module);
    HLO_FAIL_IF(!counted, HLO_RESOURCE_EXHAUSTED, "no memory to copy the program");
    counted->num_partitions = mesh->device_count;
    const HloStatus status = hlo_verify(counted);
    hlo_module_free(counted);
    return status;
}

// For one device the program stays as it is, ops without a partition rule and dynamic sizes too; only annotations go.
// Boundary marks say what the global arrays are, also where local ones are the same.
static HloStatus mark_whole(void *argument) {
    HloModule *module = argument;
    spmd_set_device_count(module, 1);
    spmd_boundary_mark(module);
    return HLO_SUCCESS;
}

HloStatus spmd_keep_whole(HloModule *module) {
    static const char *const passes[] = {"sharding-remover"};
    static const HloPassOptions options = {.skip_verify = true};
    HLO_TRY(check_root(module));
    HLO_TRY(hlo_run_passes(module, passes, 1, &options));
    return hlo_protect(mark_whole, module);
}

static HloStatus keep_whole(Request *request) {
    HLO_TRY(copy_module(request));
    return spmd_keep_whole(request->result);
}

// Gives arrays the layouts that they have when the module's text is read again.
static void complete_layouts(HloModule *module) {
    for (int64_t c = 0; c < module->computations.count; c++)
        for (HloInstruction *at = module->computations.items[c]->first; at; at = at->next)
            if (hlo_shape_is_tuple(at->shape) || !at->shape->layout)
                at->shape = hlo_shape_with_default_layout(module->arena, at->shape);
}

// What is done for transfers beside products.
static HloStatus overlap(Request *request) {
    const SpmdOptions *options = request->options;
    if (options->no_optimize || (!options->overlaps && !options->async)) return HLO_SUCCESS;
    if (options->overlaps) {
        HLO_TRY(spmd_window_products(request->result, &request->costs, request->arena));
        HLO_TRY(spmd_part_exchanges(request->result, &request->costs, request->arena));
    }
    if (options->async) HLO_TRY(spmd_make_async(request->result, request->arena));
    complete_layouts(request->result);
    return HLO_SUCCESS;
}

// Under hlo_protect(): memory errors jump out of it, and run() cleans up.
static HloStatus run_partition(void *argument) {
    Request *request = argument;
    HLO_FAIL_IF(spmd_is_partitioned(request->module), HLO_INVALID_ARGUMENT,
                "the module is already the program of one device");
    SpmdPlan *plan;
    const SpmdMesh *mesh;
    HLO_TRY(find_mesh(request, &mesh));
    const HloModule *module = request->module;
    HLO_TRY(check_root(module));
    if (mesh->device_count == 1 && request->options->shard_count == 0) return keep_whole(request);
    HLO_TRY(check_program(module));
    HLO_TRY(check_collectives(module, mesh));
    const bool flattens = spmd_needs_flattening(module), converts = hlo_module_has_converting_product(module);
    const bool joins = spmd_has_chains(module);
    if (flattens || converts || joins) {
        static const char *const passes[] = {"product-type-expander"};
        request->flat = hlo_module_clone(module);
        HLO_FAIL_IF(!request->flat, HLO_RESOURCE_EXHAUSTED, "no memory to copy the program");
        if (flattens) HLO_TRY(spmd_flatten(request->flat, request->arena));
        if (flattens || joins) spmd_join_chains(request->flat);
        // Parts of a sum are added up before it is converted.
        if (converts) HLO_TRY(hlo_run_passes(request->flat, passes, 1, NULL));
        module = request->flat;
    }
    SpmdCosts bytes;
    spmd_costs_open(&request->costs, mesh, request->options->machine);
    spmd_costs_open(&bytes, mesh, NULL);
    SpmdCosts *costs = request->by_bytes ? &bytes : &request->costs;
    HLO_TRY(spmd_plan_new(request->arena, module, costs, request->options, &plan));
    HLO_TRY(spmd_partition_plan(plan, &request->result));
    if (!request->options->no_optimize) HLO_TRY(spmd_run_passes(request->result, request->options, request->arena));
    HLO_TRY(spmd_number_devices(request->result, &mesh->order, request->arena));
    complete_layouts(request->result);
    // Before transfers overlap: this adds up all of them.
    if (request->costs.machine)
        request->seconds = spmd_program_seconds(&request->costs, request->result, request->arena);
    return overlap(request);
}

// Annotates a copy; computations stay as they are.
static HloStatus run_propagate(void *argument) {
    Request *request = argument;
    const SpmdMesh *mesh;
    SpmdPlan *plan;
    HLO_TRY(check_program(request->module));
    HLO_TRY(find_mesh(request, &mesh));
    spmd_costs_open(&request->costs, mesh, request->options->machine);
    HLO_TRY(spmd_plan_new(request->arena, request->module, &request->costs, request->options, &plan));
    HLO_TRY(copy_module(request));
    return spmd_plan_annotate(plan, request->result);
}

// Runs `body` with scratch memory and a new module, and cleans up after a failure. `result` is an empty module while
// `body` runs. It is freed on failure; on success `body` has left the program in it.
static HloStatus run(Request *request, HloStatus (*body)(void *)) {
    assert(body);
    static const SpmdOptions defaults = {0};
    if (!request->options) request->options = &defaults;
    request->arena = hlo_arena_new();
    request->result = hlo_module_new(request->module->name);
    HloStatus status = hlo_error(HLO_RESOURCE_EXHAUSTED, "out of memory");
    if (request->arena && request->result) {
        hlo_status_free(status);
        status = hlo_protect(body, request);
    }
    spmd_costs_close(&request->costs);
    hlo_arena_free(request->arena);
    hlo_module_free(request->flat);
    hlo_module_free(request->remeshed);
    if (status) {
        hlo_module_free(request->result);
        request->result = NULL;
    }
    return status;
}

// Wall-clock seconds.
// For the report only (its key seconds): nothing is decided by it.
static double now(void) {
    struct timespec time;
    timespec_get(&time, TIME_UTC);
    return (double)time.tv_sec + 1e-9 * (double)time.tv_nsec;
}

// Whether the shardings leave the partitioner: they must be those of the program that is kept.
static bool reports_shardings(const HloModule *module, const SpmdOptions *options) {
    for (int64_t c = 0; c < module->computations.count; c++) {
        for (const HloInstruction *at = module->computations.items[c]->first; at; at = at->next) {
            if (!hlo_is(at, HLO_OP_CUSTOM_CALL)) continue;
            if (hlo_custom_call_kind(at) == HLO_CALL_INSPECT || spmd_author_of(options, at)) return true;
        }
    }
    return false;
}

// What each op decides by the machine's prices need not be best for the whole program: the plan by bytes alone is kept
// unless the machine needs noticeably less time for the other. Both times add up what a machine may do at once, so that
// smaller differences mean nothing.
static HloStatus try_bytes(Request *request, const HloModule *module) {
    if (!request->seconds || reports_shardings(module, request->options)) return HLO_SUCCESS;
    Request other = {.module = module, .options = request->options, .by_bytes = true};
    HloStatus status = run(&other, run_partition);
    if (status) {
        hlo_module_free(request->result);
        return status;
    }
    const bool better = request->seconds > WORTHWHILE * other.seconds;
    hlo_module_free(better ? request->result : other.result);
    if (better) request->result = other.result;
    return HLO_SUCCESS;
}

// A report that cannot be made is an error, and leaves no module behind.
HloStatus spmd_partition(const HloModule *module, const SpmdOptions *options, HloModule **partitioned,
                         SpmdReport **report) {
    assert(module && partitioned);
    double start = now();
    Request request = {.module = module, .options = options};
    HLO_TRY(run(&request, run_partition));
    HLO_TRY(try_bytes(&request, module));
    double seconds = now() - start;
    if (report) {
        HloStatus status = spmd_report_new(request.result, report);
        if (status) {
            hlo_module_free(request.result);
            return status;
        }
        (*report)->seconds = seconds;
    }
    *partitioned = request.result;
    return HLO_SUCCESS;
}

static HloStatus run_remesh(void *argument) {
    Request *request = argument;
    hlo_module_free(request->result);
    request->result = NULL;
    return spmd_mesh_apply(request->arena, request->module, request->options->mesh, request->options->mesh_axis_count,
                           &request->result);
}

HloStatus spmd_remesh(const HloModule *module, const SpmdMeshAxis *axes, int64_t count, HloModule **remeshed) {
    assert(module && axes && count > 0 && remeshed);
    const SpmdOptions options = {.mesh = axes, .mesh_axis_count = count};
    Request request = {.module = module, .options = &options};
    HloStatus status = run(&request, run_remesh);
    *remeshed = request.result;
    return status;
}

HloStatus spmd_propagate(const HloModule *module, const SpmdOptions *options, HloModule **annotated) {
    Request request = {.module = module, .options = options};
    HLO_TRY(run(&request, run_propagate));
    *annotated = request.result;
    return HLO_SUCCESS;
}
