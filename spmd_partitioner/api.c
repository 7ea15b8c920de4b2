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
#include "spmd_partitioner/contraction.h"
#include "spmd_partitioner/custom_call.h"
#include "spmd_partitioner/explain.h"
#include "spmd_partitioner/flatten.h"
#include "spmd_partitioner/partitioner.h"
#include "spmd_partitioner/passes/passes.h"

// The part of the time by bytes alone that a plan by the machine's prices may take.
static const double WORTHWHILE = 0.98;
// The instructions of programs whose plans are simulated. Larger ones would take longer for it than for partitioning.
enum { MOST_SIMULATED = 512 };

// What prices a plan: the machine's times where there is one, or bytes. Propagation compares what follows from
// shardings, emission how to bring arrays into them.
typedef struct Prices {
    bool propagates_by_bytes, emits_by_bytes;
    bool hides_arguments;  // SpmdCosts.hides_arguments
    bool sends_in_loops;   // what loops stack up, in place of the stacks after them
} Prices;

// The plans that are compared. By the added times of a program only the first two are: those leave out what runs at the
// same time.
static const Prices PRICES[] = {{0},
                                {.propagates_by_bytes = true, .emits_by_bytes = true},
                                {.propagates_by_bytes = true},
                                {.hides_arguments = true},
                                {.propagates_by_bytes = true, .hides_arguments = true}};
enum { PRICES_BY_ADDED_TIMES = 2 };

// The programs of the plans that were simulated: plans by several prices are often the same.
typedef struct Simulated {
    uint64_t hashes[HLO_COUNT_OF(PRICES) + 1];
    size_t count;
} Simulated;

// One call of the API. `arena` and `flat` go when it ends; `result` is the caller's if it succeeds.
typedef struct Request {
    const HloModule *module;
    const SpmdOptions *options;
    HloArena *arena;   // scratch
    SpmdCosts *costs;  // on the mesh, by the machine of the options; all plans of the call have the same
    Prices prices;
    Simulated *simulated;  // before this plan
    bool is_known;         // the plan is one of those: it has neither times nor transfers beside products
    bool stacks;           // the result sends what loops stack up after them
    double seconds;        // that the result's work takes on the machine, if there is one, one after the other
    double step;           // that the machine takes for the result; negative where that is not known
    HloModule *spare;      // another form of the result
    HloModule *remeshed;   // the module laid out on the mesh of the options, if that is another one
    HloModule *flat;       // the module in the form that is partitioned
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

// Products in parts beside their transfers.
static HloStatus make_parts(Request *request) {
    HLO_TRY(spmd_window_products(request->result, request->costs, request->arena));
    return spmd_part_exchanges(request->result, request->costs, request->arena);
}

// Whether the machine is asked for the step of the result.
static bool is_simulated(const Request *request) {
    const SpmdMachine *machine = request->costs->machine;
    return machine && machine->program_seconds && request->module->instruction_limit <= MOST_SIMULATED;
}

// The step of the result, if the machine is asked for it and knows it; negative otherwise.
static double step_of(const Request *request) {
    return is_simulated(request) ? request->costs->machine->program_seconds(request->costs->session, request->result)
                                 : -1;
}

// Sums that were joined, each alone.
static HloStatus separate_sums(Request *request) {
    spmd_separate_sums(request->result);
    return HLO_SUCCESS;
}

// Small collectives in stages.
static HloStatus make_stages(Request *request) {
    spmd_stage_collectives(request->result, request->costs, request->arena);
    return HLO_SUCCESS;
}

// Whether there are products and collectives, which may go in parts beside each other.
static bool has_parts(const HloModule *module) {
    return hlo_module_find(module, spmd_is_product) && hlo_module_has_collectives(module);
}

// A change of the result that may shorten its step, and whether there is anything that it could change.
typedef struct Change {
    HloStatus (*make)(Request *request);
    bool (*may)(const HloModule *module);
} Change;

static const Change CHANGES[] = {
    {separate_sums, spmd_has_joined_sums}, {make_parts, has_parts}, {make_stages, hlo_module_has_collectives}};

// Changes the result, unless its step is then not shorter. Passes go by the machine's times of what they change; the
// whole program may say otherwise: what is fused with a product is done in parts, too.
static HloStatus keep_if_faster(Request *request, const Change *change) {
    if (!change->may(request->result)) return HLO_SUCCESS;
    hlo_module_free(request->spare);
    HloModule *before = request->spare = hlo_module_clone(request->result);
    HLO_FAIL_IF(!before, HLO_RESOURCE_EXHAUSTED, "no memory to copy the program");
    const int64_t limit = request->result->instruction_limit;
    HLO_TRY(change->make(request));
    complete_layouts(request->result);
    const double step = request->result->instruction_limit > limit ? step_of(request) : -1;
    if (step >= 0 && step < request->step) {
        request->step = step;
    } else {
        request->spare = request->result;
        request->result = before;
    }
    return HLO_SUCCESS;
}

// Whether the plan is one that was simulated before.
static bool is_known(Request *request) {
    Simulated *simulated = request->simulated;
    if (!is_simulated(request)) return false;
    const uint64_t hash = hlo_module_hash(request->result);
    for (size_t i = 0; i < simulated->count; i++)
        if (simulated->hashes[i] == hash) return true;
    simulated->hashes[simulated->count++] = hash;
    return false;
}

// What is done for transfers beside products. The times of the plan are taken.
static HloStatus overlap(Request *request) {
    const SpmdOptions *options = request->options;
    request->is_known = is_known(request);
    if (request->is_known) return HLO_SUCCESS;
    request->step = step_of(request);
    // Before transfers overlap: this adds up all of them.
    if (request->costs->machine)
        request->seconds = spmd_program_seconds(request->costs, request->result, request->arena);
    if (options->no_optimize) return HLO_SUCCESS;
    if (options->overlaps && request->step >= 0) {
        for (size_t i = 0; i < HLO_COUNT_OF(CHANGES); i++) HLO_TRY(keep_if_faster(request, &CHANGES[i]));
    } else if (options->overlaps) {
        HLO_TRY(make_parts(request));
    }
    if (options->async) HLO_TRY(spmd_make_async(request->result, request->arena));
    complete_layouts(request->result);
    return HLO_SUCCESS;
}

static HloStatus run_passes(Request *request) {
    const SpmdOptions *options = request->options;
    if (options->no_optimize) return HLO_SUCCESS;
    // Large ones may run beside the work of the loop. Where the step tells, both are tried.
    const bool may_hide = options->machine && options->overlaps && !is_simulated(request);
    const int64_t most = request->prices.sends_in_loops ? 0 : may_hide ? SPMD_SMALL_BYTES : INT64_MAX;
    return spmd_run_passes(request->result, options, most, &request->stacks, request->arena);
}

// Opens the costs for the first plan; later ones, on the same mesh, go on with its prices and its session.
static void open_costs(Request *request, const SpmdMesh *mesh) {
    if (request->costs->mesh)
        request->costs->mesh = mesh;
    else
        spmd_costs_open(request->costs, mesh, request->options->machine);
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
    open_costs(request, mesh);
    spmd_costs_open(&bytes, mesh, NULL);
    const Prices *prices = &request->prices;
    request->costs->hides_arguments = prices->hides_arguments;
    HLO_TRY(spmd_plan_new(request->arena, module, prices->propagates_by_bytes ? &bytes : request->costs,
                          request->options, &plan));
    plan->costs = prices->emits_by_bytes ? &bytes : request->costs;
    HLO_TRY(spmd_partition_plan(plan, &request->result));
    HLO_TRY(run_passes(request));
    HLO_TRY(spmd_number_devices(request->result, &mesh->order, request->arena));
    complete_layouts(request->result);
    return overlap(request);
}

// Annotates a copy; computations stay as they are.
static HloStatus run_propagate(void *argument) {
    Request *request = argument;
    const SpmdMesh *mesh;
    SpmdPlan *plan;
    HLO_TRY(check_program(request->module));
    HLO_TRY(find_mesh(request, &mesh));
    open_costs(request, mesh);
    HLO_TRY(spmd_plan_new(request->arena, request->module, request->costs, request->options, &plan));
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
    hlo_arena_free(request->arena);
    hlo_module_free(request->flat);
    hlo_module_free(request->remeshed);
    hlo_module_free(request->spare);
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

// Whether a later plan is better. Small differences of added times mean nothing.
static bool is_better(const Request *other, const Request *request) {
    const bool is_simulated = request->step >= 0 && other->step >= 0;
    const bool by_bytes = other->prices.emits_by_bytes && !other->prices.sends_in_loops;
    if (is_simulated) return by_bytes ? other->step <= request->step : other->step < request->step;
    return by_bytes && request->seconds > WORTHWHILE * other->seconds;
}

// Keeps the plan by other prices if it is better. On failure there is no result.
static HloStatus try_other(Request *request, const HloModule *module, Prices prices) {
    Request other = {.module = module,
                     .options = request->options,
                     .costs = request->costs,
                     .prices = prices,
                     .simulated = request->simulated};
    HloStatus status = run(&other, run_partition);
    if (status) {
        hlo_module_free(request->result);
        return status;
    }
    const bool better = !other.is_known && is_better(&other, request);
    hlo_module_free(better ? request->result : other.result);
    if (better) *request = other;
    return HLO_SUCCESS;
}

// What each op decides by the machine's prices need not be best for the whole program: plans by other prices are made,
// too. Without the step's time the plan by bytes alone is kept unless the machine needs noticeably less time for the
// other. Whether stacks leave their loops is tried for the best plan only.
static HloStatus try_others(Request *request, const HloModule *module) {
    if (!request->seconds || reports_shardings(module, request->options)) return HLO_SUCCESS;
    const size_t count = request->step < 0 ? PRICES_BY_ADDED_TIMES : HLO_COUNT_OF(PRICES);
    for (size_t i = 1; i < count; i++) HLO_TRY(try_other(request, module, PRICES[i]));
    if (!request->stacks || request->step < 0) return HLO_SUCCESS;
    Prices prices = request->prices;
    prices.sends_in_loops = true;
    return try_other(request, module, prices);
}

// A report that cannot be made is an error, and leaves no module behind.
HloStatus spmd_partition(const HloModule *module, const SpmdOptions *options, HloModule **partitioned,
                         SpmdReport **report) {
    assert(module && partitioned);
    double start = now();
    Simulated simulated = {.count = 0};
    SpmdCosts costs = {0};
    Request request = {.module = module, .options = options, .costs = &costs, .simulated = &simulated};
    HloStatus made = run(&request, run_partition);
    if (!made) made = try_others(&request, module);
    spmd_costs_close(&costs);
    HLO_TRY(made);
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
    SpmdCosts costs = {0};
    Request request = {.module = module, .options = options, .costs = &costs};
    HloStatus status = run(&request, run_propagate);
    spmd_costs_close(&costs);
    HLO_TRY(status);
    *annotated = request.result;
    return HLO_SUCCESS;
}
