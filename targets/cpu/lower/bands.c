// SPDX-License-Identifier: Apache-2.0
// Computes chains of products and loops by bands of rows.
//
//     %s = dot(%q, %k)  %p = softmax(%s), one loop over rows  %o = dot(%p, %v)
//     for each head, for each band of its rows: scores of the band, their softmax, their rows of the result
//
// The matrices between (%s and %p, of all queries times all keys) are never whole: a worker has the band that it is
// computing, which stays in its second-level cache. This is attention as in Dao et al., "FlashAttention", 2022, except
// that a band has all keys, so that a row is divided nowhere. So every number has the bits of the separate steps: the
// members run their own kernels, on some rows.
//
// A row space is a number of rows, and of rows that are contiguous in every array (a head's queries). Members are
//     producers   products whose result has these rows           dims of the result   [leads][rows][keys]
//     loops       over whole rows, or elementwise, in one pass, which go through the arrays between in order
//     consumers   products that sum over the elements of a row   dims of an operand   [leads][rows][keys]
//     sums        products that sum over the rows of a lead      dims of an operand   [leads][rows][keys]
// Gradients have sums. The parts of a sum are added up band by band, so that one worker computes all bands of a lead in
// turn, and a band's rows are those that the whole product adds up at a time (cpu_matmul_depth_part()).
// A group grows from a producer, in program order, by the steps that read its arrays. It runs where its last member
// was, or before the first step outside that reads one of its arrays. Arrays that others read too are stored whole.
#include "targets/cpu/lower/bands.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "hlo/base/arithmetic.h"
#include "targets/cpu/lower/dot.h"

// The bytes of a band that stay in a second-level cache beside operands, and the rows of a band: enough that reading
// the other operand again for each is little work, but no more than fit.
enum { kBandBytes = 1 << 18, kLeastRows = 64, kMostRows = 256 };
// Arrays between that are smaller fit in caches as they are.
enum { kLeastSaved = 1 << 20 };
// The products of a group, and the arrays of a group or of a loop in it.
enum { kLeastProducts = 2, kMostArrays = 32 };
// The leads of a group with sums, which one worker each computes, and the rows that are summed without parts.
enum { kLeastLeads = 8, kMostAtOnce = 768 };
// How many steps after its latest member a group looks for the next one.
enum { kReach = 64 };

// ---- running

// The dimension of a product that the rows are.
typedef enum BandRole { BAND_ROWS_M, BAND_ROWS_N, BAND_ROWS_SUMMED } BandRole;

// A dimension of a product that a band does not divide: its index is (row / rows) % size.
typedef struct BandDim {
    int64_t rows, size;
    int64_t bytes[3];  // a step in the three arrays
} BandDim;

// One member of a group. `arrays` are indices into the group's arrays: the three of a product, or those of a loop's
// buffers.
typedef struct Member {
    const int32_t *arrays;
    int32_t array_count;
    CpuMatmul matmul;  // of one band, but for the number of rows
    BandRole role;     // of the rows in it
    bool swapped;
    BandDim *dims;
    int32_t dim_count;
    const CpuLoop *loop;  // NULL: a product
    int64_t loop_rows;    // its rows for each row of the space
} Member;

typedef struct BandArray {
    int32_t argument;   // of the step; -1: an array between, of which there is only a band
    int64_t row_bytes;  // of an array between
    size_t offset;      // in a worker's memory
} BandArray;

// A group as one kernel.
typedef struct BandKernel {
    int64_t leads, rows, bands;  // leads x rows are all rows; bands of one lead
    int64_t least, most;         // rows of the smallest band, and of the largest
    int64_t depth;               // with sums: the rows of all bands but a lead's last; else 0
    Member *members;
    int32_t member_count;
    BandArray *arrays;
    int32_t array_count;
    size_t loop_offset, bytes_each;  // of a worker's memory
} BandKernel;

typedef struct BandJob {
    const BandKernel *kernel;
    void *const *arguments;
    CpuPool *pool;
    char *scratch;
    HloStatus *statuses;  // by worker
} BandJob;

static void set_rows(BandRole role, CpuMatmul *matmul, int64_t rows) {
    *(role == BAND_ROWS_M ? &matmul->m : role == BAND_ROWS_N ? &matmul->n : &matmul->k) = rows;
}

// Returns the first row of a band in its lead. Without sums, bands differ in size by one row at most.
static int64_t first_row(const BandKernel *kernel, int64_t band) {
    if (band == kernel->bands) return kernel->rows;
    return kernel->depth ? band * kernel->depth : band * kernel->rows / kernel->bands;
}

static HloStatus run_product(const BandKernel *kernel, const Member *member, char *const *addresses, int64_t row,
                             int64_t rows, CpuPool *pool) {
    char *at[3];
    assert(row >= 0 && rows <= kernel->rows);
    for (int i = 0; i < 3; i++) at[i] = addresses[member->arrays[i]];
    for (int32_t d = 0; d < member->dim_count; d++) {
        const BandDim *dim = &member->dims[d];
        const int64_t index = row / dim->rows % dim->size;
        for (int i = 0; i < 3; i++) at[i] += index * dim->bytes[i];
    }
    CpuMatmul matmul = member->matmul;
    set_rows(member->role, &matmul, rows);
    matmul.accumulate = member->role == BAND_ROWS_SUMMED && row % kernel->rows > 0;
    return cpu_matmul(pool, &matmul, at[2], at[member->swapped ? 1 : 0], at[member->swapped ? 0 : 1]);
}

// Runs all members for rows [row, row + rows). Of an array between, the address is where the whole array would begin.
static HloStatus run_band(const BandJob *job, int64_t row, int64_t rows, char *memory) {
    const BandKernel *kernel = job->kernel;
    char *addresses[kMostArrays];
    assert(kernel->array_count <= kMostArrays);
    for (int32_t i = 0; i < kernel->array_count; i++) {
        const BandArray *array = &kernel->arrays[i];
        const uintptr_t band = (uintptr_t)(memory + array->offset) - (uintptr_t)(row * array->row_bytes);
        addresses[i] = array->argument < 0 ? (char *)band : job->arguments[array->argument];
    }
    for (int32_t m = 0; m < kernel->member_count; m++) {
        const Member *member = &kernel->members[m];
        if (!member->loop) {
            HLO_TRY(run_product(kernel, member, addresses, row, rows, job->pool));
            continue;
        }
        void *buffers[kMostArrays];
        for (int32_t i = 0; i < member->array_count; i++) buffers[i] = addresses[member->arrays[i]];
        cpu_loop_run_rows(member->loop, buffers, row * member->loop_rows, (row + rows) * member->loop_rows,
                          memory + kernel->loop_offset);
    }
    return HLO_SUCCESS;
}

// Runs bands [begin, end), numbered through all leads.
static void band_task(void *argument, int64_t begin, int64_t end, int worker) {
    const BandJob *job = argument;
    const BandKernel *kernel = job->kernel;
    char *memory = job->scratch + (size_t)worker * kernel->bytes_each;
    HloStatus *status = &job->statuses[worker];
    for (int64_t unit = begin; unit < end && !*status; unit++) {
        const int64_t lead = unit / kernel->bands, band = unit % kernel->bands, from = first_row(kernel, band);
        *status = run_band(job, lead * kernel->rows + from, first_row(kernel, band + 1) - from, memory);
    }
}

// Runs all bands of leads [begin, end).
static void lead_task(void *argument, int64_t begin, int64_t end, int worker) {
    const int64_t bands = ((const BandJob *)argument)->kernel->bands;
    band_task(argument, begin * bands, end * bands, worker);
}

static HloStatus run_bands(const void *data, void *const *arguments, CpuPool *pool) {
    const BandKernel *kernel = data;
    const size_t workers = (size_t)cpu_pool_worker_count(pool);
    char *scratch = cpu_pool_scratch_take(pool, workers * (kernel->bytes_each + sizeof(HloStatus)));
    HLO_FAIL_IF(!scratch, HLO_RESOURCE_EXHAUSTED, "no memory for %lld bytes of each thread's rows",
                (long long)kernel->bytes_each);
    BandJob job = {kernel, arguments, pool, scratch, (HloStatus *)(void *)(scratch + workers * kernel->bytes_each)};
    for (size_t i = 0; i < workers; i++) job.statuses[i] = HLO_SUCCESS;
    if (kernel->depth)
        cpu_pool_parallel_for_grain(pool, kernel->leads, 1, lead_task, &job);
    else
        cpu_pool_parallel_for_grain(pool, kernel->leads * kernel->bands, 1, band_task, &job);
    HloStatus status = HLO_SUCCESS;
    for (size_t i = 0; i < workers; i++) {
        if (!status)
            status = job.statuses[i];
        else
            hlo_status_free(job.statuses[i]);
    }
    cpu_pool_scratch_give(pool, scratch);
    return status;
}

// ---- finding groups

typedef struct Use {
    int64_t step;
    int32_t next;  // the array's next use, or -1
} Use;

// What is known of an array, by its id.
typedef struct Fact {
    int64_t writer;  // the step that writes it, or -1
    int32_t first;   // its first use, or -1
    bool is_result;  // of the region
    int32_t group;   // the group whose member writes it in the order of rows
    int32_t index;   // in that group's arrays
} Fact;

typedef struct Finder {
    CpuLowering *lowering;
    CpuSteps *steps;
    Fact *facts;
    HLO_VECTOR(Use) uses;
    int32_t *group_of;  // by step: the group that it is a member of, or 0
    int64_t *places;    // by group: where it runs
    // Of the group that is being built.
    int32_t group;
    int64_t leads, rows;
    int64_t limit;  // where the first step outside runs that reads one of its arrays
    int64_t last;   // the last member
    int32_t depth;  // loops that add what they read, each for the one before
    HLO_VECTOR(int64_t) members;
} Finder;

static Fact *fact_of(const Finder *finder, CpuArray *array) {
    return &finder->facts[cpu_array_root(array)->id];
}

// Whether a member of the current group writes the array.
static bool is_inside(const Finder *finder, CpuArray *array) {
    const Fact *fact = fact_of(finder, array);
    return fact->writer >= 0 && finder->group_of[fact->writer] == finder->group;
}

// Places order groups and steps: before each step there is room for groups.
enum { kRoom = 1024 };

// Returns where a step runs: with its group, if it is a member of an earlier one.
static int64_t place_of(const Finder *finder, int64_t step) {
    const int32_t group = finder->group_of[step];
    return group && group != finder->group ? finder->places[group] : (step + 1) * kRoom;
}

static void find_uses(Finder *finder) {
    const CpuSteps *steps = finder->steps;
    for (int64_t i = steps->steps.count; i-- > 0;) {
        const CpuStep *step = &steps->steps.items[i];
        for (int32_t k = 0; k < step->write_count; k++) fact_of(finder, step->writes[k])->writer = i;
        for (int32_t k = 0; k < step->read_count; k++) {
            Fact *fact = fact_of(finder, step->reads[k]);
            hlo_vector_push(finder->lowering->program->arena, &finder->uses, ((Use){i, fact->first}));
            fact->first = (int32_t)finder->uses.count - 1;
        }
    }
    for (int64_t i = 0; i < steps->region->results.count; i++)
        fact_of(finder, steps->region->results.items[i])->is_result = true;
}

// The dimensions of a product by role, for an array that it reads or writes.
typedef struct Roles {
    const CpuDotDim *rows, *keys;  // the two last dimensions of the array
    BandRole role;
} Roles;

// Whether the dimensions of the product other than `roles` are steps through all rows of the array, which has `keys`
// elements a row.
static bool covers_rows(const Finder *finder, const CpuDotKernel *dot, int array, const Roles *roles, int64_t keys) {
    if (roles->rows->strides[array] != keys || roles->rows->size % finder->rows != 0) return false;
    if (roles->keys->strides[array] != 1 || roles->keys->size != keys) return false;
    int64_t rows = roles->rows->size * dot->batch.size;
    if (dot->batch.size > 1 && (dot->batch.strides[array] < keys || dot->batch.strides[array] % keys != 0))
        return false;
    for (int64_t i = 0; i < dot->outer_count; i++) {
        const int64_t stride = dot->outer[i].strides[array];
        if (stride < keys || stride % keys != 0) return false;
        rows *= dot->outer[i].size;
    }
    return rows == finder->leads * finder->rows;
}

// Whether the product may sum over the rows of the space: leads are enough for a machine's threads, and a lead's rows
// are all that is added up.
static bool may_sum(const Finder *finder, const CpuDotKernel *dot) {
    return finder->leads >= kLeastLeads && dot->k.size == finder->rows &&
           (finder->rows <= kMostAtOnce || cpu_matmul_depth_part(finder->lowering->features, &dot->matmul) > 0);
}

// Whether it costs little that every band reads, and packs, the operand without rows again: heads of attention are
// narrow, layers are not.
static bool rereads_little(const CpuDotKernel *dot, const Roles *roles) {
    const int64_t other = roles->role == BAND_ROWS_M ? dot->n.size : dot->m.size;
    return roles->role == BAND_ROWS_SUMMED || hlo_smaller(dot->k.size, other) <= 4 * kLeastRows;
}

// Whether the product goes through its array (left, right or result) row by row, and finds the roles.
static bool find_roles(const Finder *finder, const CpuDotKernel *dot, int array, const CpuArray *shape, Roles *roles) {
    const int64_t all = finder->leads * finder->rows, keys = shape->elements / all;
    if (shape->elements % all != 0 || keys < 2) return false;
    const CpuDotDim *own = array == CPU_DOT_LEFT ? &dot->m : &dot->n;
    const Roles of_result[] = {{&dot->m, &dot->n, BAND_ROWS_M}, {&dot->n, &dot->m, BAND_ROWS_N}};
    const Roles of_operand[] = {{own, &dot->k, array == CPU_DOT_LEFT ? BAND_ROWS_M : BAND_ROWS_N},
                                {&dot->k, own, BAND_ROWS_SUMMED}};
    for (int i = 0; i < 2; i++) {
        *roles = (array == CPU_DOT_OUT ? of_result : of_operand)[i];
        if (roles->role == BAND_ROWS_SUMMED && !may_sum(finder, dot)) continue;
        if (covers_rows(finder, dot, array, roles, keys) && rereads_little(dot, roles)) return true;
    }
    return false;
}

// Returns the array through which a product may join the group: an operand that a member writes, else its result; -1 if
// it cannot. *in_order: the result has its rows in order too.
static int joining_array(const Finder *finder, const CpuStep *step, const CpuDotKernel *dot, Roles *roles,
                         bool *in_order) {
    Roles of_result;
    *in_order = find_roles(finder, dot, CPU_DOT_OUT, step->writes[0], &of_result);
    const bool left = is_inside(finder, step->reads[0]), right = is_inside(finder, step->reads[1]);
    if (left && right) return -1;
    if (!left && !right) {
        *roles = of_result;
        return *in_order ? CPU_DOT_OUT : -1;
    }
    const int array = left ? CPU_DOT_LEFT : CPU_DOT_RIGHT;
    if (fact_of(finder, step->reads[array])->group != finder->group) return -1;
    if (!find_roles(finder, dot, array, cpu_array_root(step->reads[array]), roles)) return -1;
    *in_order = *in_order && of_result.rows == roles->rows;
    return array;
}

static int64_t row_elements(const Finder *finder, const CpuArray *array) {
    const int64_t all = finder->leads * finder->rows;
    return array->elements % all == 0 ? array->elements / all : -1;
}

// Whether the loop goes through rows of the space, and through each array that members write in the order of rows, and
// has no more arrays than a kernel may.
static bool loop_fits(const Finder *finder, const CpuStep *step) {
    if (step->kind != CPU_STEP_LOOPS || step->loop_count != 1) return false;
    const CpuFusedLoop *loop = &step->loops[0];
    const int64_t rows = cpu_loop_rows(loop->loop), all = finder->leads * finder->rows;
    if (rows == 0 || rows % all != 0 || loop->buffer_count > kMostArrays) return false;
    for (int32_t i = 0; i < loop->buffer_count; i++) {
        const CpuLoopBuffer *buffer = &loop->buffers[i];
        if (buffer->start_count) return false;
        const bool inside = is_inside(finder, buffer->array);
        if (!buffer->written && !inside) continue;
        if (inside && fact_of(finder, buffer->array)->group != finder->group) return false;
        const int64_t elements = row_elements(finder, cpu_array_root(buffer->array));
        if (elements < 1 || !cpu_loop_follows_rows(loop->loop, i, rows / all, elements)) return false;
    }
    return true;
}

// Returns where the last step outside runs that the step reads from, -1 for none.
static int64_t inputs_place(const Finder *finder, const CpuStep *step) {
    int64_t last = -1;
    for (int32_t i = 0; i < step->read_count; i++) {
        const int64_t writer = fact_of(finder, step->reads[i])->writer;
        if (writer >= 0 && !is_inside(finder, step->reads[i])) last = hlo_larger(last, place_of(finder, writer));
    }
    return last;
}

// Returns where the first of the steps outside before `at` runs that read from members, from number `first` on;
// INT64_MAX if none does.
static int64_t readers_place(const Finder *finder, int64_t first, int64_t at) {
    int64_t place = INT64_MAX;
    for (int64_t i = first; i < finder->members.count; i++) {
        const CpuStep *step = &finder->steps->steps.items[finder->members.items[i]];
        for (int32_t k = 0; k < step->write_count; k++)
            for (int32_t use = fact_of(finder, step->writes[k])->first; use >= 0; use = finder->uses.items[use].next) {
                const int64_t reader = finder->uses.items[use].step;
                if (reader < at && finder->group_of[reader] != finder->group)
                    place = hlo_smaller(place, place_of(finder, reader));
            }
    }
    return place;
}

static void add_member(Finder *finder, int64_t at, bool in_order) {
    const CpuStep *step = &finder->steps->steps.items[at];
    hlo_vector_push(finder->lowering->program->arena, &finder->members, at);
    finder->group_of[at] = finder->group;
    if (at > finder->last) finder->last = at;
    for (int32_t i = 0; i < step->write_count; i++)
        fact_of(finder, step->writes[i])->group = in_order ? finder->group : 0;
}

// Takes back the members from number `count` on.
static void drop_members(Finder *finder, int64_t count) {
    for (int64_t i = count; i < finder->members.count; i++) finder->group_of[finder->members.items[i]] = 0;
    finder->members.count = count;
}

// Whether the members write more arrays than a kernel may have: no step can be made of them, however many follow.
static bool is_too_large(const Finder *finder) {
    const CpuArray *written[kMostArrays];
    int32_t count = 0;
    if (finder->members.count <= kMostArrays) return false;  // the usual case
    for (int64_t i = 0; i < finder->members.count; i++) {
        const CpuStep *step = &finder->steps->steps.items[finder->members.items[i]];
        for (int32_t k = 0; k < step->write_count; k++) {
            const CpuArray *root = cpu_array_root(step->writes[k]);
            int32_t known = 0;
            while (known < count && written[known] != root) known++;
            if (known < count) continue;
            if (count == kMostArrays) return true;
            written[count++] = root;
        }
    }
    return false;
}

static void add_producers(Finder *finder, int64_t at);

// Adds the step if it is a product of rows of the space, or a loop over what such a product gives.
static void add_producer(Finder *finder, int64_t at) {
    const CpuStep *step = &finder->steps->steps.items[at];
    const CpuDotKernel *dot = cpu_dot_kernel(step);
    Roles roles;
    bool in_order, reads = dot != NULL;
    if (inputs_place(finder, step) >= finder->limit) return;
    if (dot ? joining_array(finder, step, dot, &roles, &in_order) != CPU_DOT_OUT : !loop_fits(finder, step)) return;
    if (!dot) add_producers(finder, at);
    for (int32_t i = 0; i < step->read_count; i++) reads |= is_inside(finder, step->reads[i]);
    if (reads) add_member(finder, at, true);
}

// Adds the steps whose results a loop is the first to read, if these are between then: they are computed for it. Loops
// that read each other's results make a group too large if they are many.
static void add_producers(Finder *finder, int64_t at) {
    const CpuStep *step = &finder->steps->steps.items[at];
    if (finder->depth == kMostArrays) return;
    finder->depth++;
    for (int32_t i = 0; i < step->read_count && !is_too_large(finder); i++) {
        const Fact *fact = fact_of(finder, step->reads[i]);
        const int64_t from = fact->writer, count = finder->members.count;
        if (from < 0 || finder->group_of[from] || finder->uses.items[fact->first].step < at) continue;
        add_producer(finder, from);
        // It may not go through their results in order, or need what another step computes from these.
        if (!loop_fits(finder, step) || inputs_place(finder, step) >= readers_place(finder, count, at))
            drop_members(finder, count);
    }
    finder->depth--;
}

// Adds the step to the group if it can be computed by bands.
static bool join(Finder *finder, int64_t at) {
    const CpuStep *step = &finder->steps->steps.items[at];
    const CpuDotKernel *dot = cpu_dot_kernel(step);
    Roles roles;
    bool in_order = true;
    if (finder->group_of[at] || inputs_place(finder, step) >= finder->limit) return false;
    if (dot ? joining_array(finder, step, dot, &roles, &in_order) < 0 : !loop_fits(finder, step)) return false;
    const int64_t count = finder->members.count;
    if (!dot) add_producers(finder, at);
    finder->limit = hlo_smaller(finder->limit, readers_place(finder, count, at));
    add_member(finder, at, in_order);
    return true;
}

// Sets the row space of a product's result: its two last dimensions that are longer than one.
static bool set_space(Finder *finder, const CpuStep *step) {
    const HloShape *shape = step->writes[0]->shape;
    int64_t dims[2] = {0}, count = 0;
    for (int64_t d = shape->rank; d-- > 0 && count < 2;)
        if (shape->dims[d] > 1) dims[count++] = shape->dims[d];
    if (count < 2 || step->writes[0]->elements == 0) return false;
    finder->rows = dims[1];
    finder->leads = step->writes[0]->elements / (dims[0] * dims[1]);
    return true;
}

// Collects the group that begins with a product, or enough of it to see that it is too large: in a long chain of
// products, each would otherwise collect all that follow.
static void grow(Finder *finder, int64_t seed) {
    const int64_t count = finder->steps->steps.count;
    finder->members.count = 0;
    finder->limit = INT64_MAX;
    finder->last = -1;
    if (!set_space(finder, &finder->steps->steps.items[seed]) || !join(finder, seed)) return;
    for (int64_t at = seed + 1; at < count && at - finder->last <= kReach && !is_too_large(finder); at++) {
        const CpuStep *step = &finder->steps->steps.items[at];
        bool reads = false;
        for (int32_t i = 0; i < step->read_count; i++) reads |= is_inside(finder, step->reads[i]);
        if (!reads || finder->group_of[at] == finder->group || join(finder, at)) continue;
        finder->limit = hlo_smaller(finder->limit, place_of(finder, at));
    }
}

// ---- making the kernel

static bool is_between(const Finder *finder, CpuArray *array) {
    const Fact *fact = fact_of(finder, array);
    if (!is_inside(finder, array) || fact->group != finder->group || fact->is_result) return false;
    for (int32_t use = fact->first; use >= 0; use = finder->uses.items[use].next)
        if (finder->group_of[finder->uses.items[use].step] != finder->group) return false;
    return true;
}

typedef struct Maker {
    Finder *finder;
    BandKernel *kernel;
    CpuStep step;
    HLO_VECTOR(CpuArray *) arrays;
    HLO_VECTOR(BandArray) forms;
    CpuArrayVector reads, writes;
} Maker;

// Returns the array's index in the kernel; it is added if it is new. Reads become arguments before writes.
static int32_t index_of(Maker *maker, CpuArray *array) {
    CpuArray *root = cpu_array_root(array);
    for (int64_t i = 0; i < maker->arrays.count; i++)
        if (maker->arrays.items[i] == root) return (int32_t)i;
    HloArena *arena = maker->finder->lowering->arena;
    BandArray form = {.argument = -1};
    if (is_between(maker->finder, root)) {
        form.row_bytes = root->bytes / (maker->finder->leads * maker->finder->rows);
    } else if (is_inside(maker->finder, root)) {
        form.argument = (int32_t)maker->writes.count;  // after all reads, see finish_arrays()
        hlo_vector_push(arena, &maker->writes, root);
    } else {
        form.argument = (int32_t)maker->reads.count;
        hlo_vector_push(arena, &maker->reads, root);
    }
    hlo_vector_push(arena, &maker->arrays, root);
    hlo_vector_push(arena, &maker->forms, form);
    return (int32_t)maker->arrays.count - 1;
}

// Appends a dimension that the band has one index of.
static void add_dim(Member *member, const CpuDotKernel *dot, const CpuDotDim *dim, int array, int64_t keys) {
    if (dim->size == 1) return;
    BandDim *to = &member->dims[member->dim_count++];
    *to = (BandDim){.rows = dim->strides[array] / keys, .size = dim->size};
    for (int i = 0; i < 3; i++) to->bytes[i] = dim->strides[i] * dot->widths[i];
}

// Describes the product of one band.
static void make_product(Maker *maker, const CpuStep *step, const CpuDotKernel *dot, Member *member) {
    const Finder *finder = maker->finder;
    HloArena *arena = finder->lowering->arena;
    CpuArray *arrays[3] = {step->reads[0], step->reads[1], step->writes[0]};
    int array = CPU_DOT_OUT;
    for (int i = 0; i < 2; i++)
        if (is_inside(finder, arrays[i])) array = i;
    Roles roles;
    const CpuArray *shape = cpu_array_root(arrays[array]);
    const bool found = find_roles(finder, dot, array, shape, &roles);
    assert(found);
    (void)found;
    const int64_t keys = row_elements(finder, shape);
    member->swapped = dot->swapped;
    member->role = roles.role;
    if (dot->swapped && roles.role != BAND_ROWS_SUMMED)
        member->role = roles.role == BAND_ROWS_M ? BAND_ROWS_N : BAND_ROWS_M;
    member->matmul = dot->matmul;
    member->matmul.batch = 1;
    member->dims = HLO_ARENA_NEW(arena, BandDim, dot->outer_count + 2);
    add_dim(member, dot, &dot->batch, array, keys);
    add_dim(member, dot, roles.rows, array, keys);
    for (int64_t i = 0; i < dot->outer_count; i++) add_dim(member, dot, &dot->outer[i], array, keys);
    int32_t *indices = HLO_ARENA_NEW(arena, int32_t, 3);
    for (int i = 0; i < 3; i++) indices[i] = index_of(maker, arrays[i]);
    member->arrays = indices;
    member->array_count = 3;
}

static void make_loop(Maker *maker, const CpuStep *step, Member *member) {
    const CpuFusedLoop *loop = &step->loops[0];
    int32_t *indices = HLO_ARENA_NEW(maker->finder->lowering->arena, int32_t, loop->buffer_count);
    for (int32_t i = 0; i < loop->buffer_count; i++) indices[i] = index_of(maker, loop->buffers[i].array);
    member->arrays = indices;
    member->array_count = loop->buffer_count;
    member->loop = loop->loop;
    member->loop_rows = cpu_loop_rows(loop->loop) / (maker->finder->leads * maker->finder->rows);
}

// Returns the last member that reads the array.
static int32_t last_reader(const BandKernel *kernel, int32_t array) {
    int32_t last = 0;
    for (int32_t m = 0; m < kernel->member_count; m++)
        for (int32_t i = 0; i < kernel->members[m].array_count; i++)
            if (kernel->members[m].arrays[i] == array) last = m;
    return last;
}

static int32_t first_member(const BandKernel *kernel, int32_t array) {
    for (int32_t m = 0; m < kernel->member_count; m++)
        for (int32_t i = 0; i < kernel->members[m].array_count; i++)
            if (kernel->members[m].arrays[i] == array) return m;
    return kernel->member_count;
}

// Whether the member may write its result over this array, which it is the last to read.
static bool works_in_place(const CpuStep *step, const CpuArray *read) {
    if (step->kind != CPU_STEP_LOOPS) return false;
    for (int32_t i = 0; i < step->loops[0].buffer_count; i++) {
        const CpuLoopBuffer *buffer = &step->loops[0].buffers[i];
        if (cpu_array_root(buffer->array) == read && !buffer->written && !buffer->in_place) return false;
    }
    return true;
}

// Memory of one array between, and of others after it.
typedef struct Slots {
    int32_t *of;         // by array: its slot, or -1
    int64_t *row_bytes;  // by slot
    int32_t count;
} Slots;

// Whether the arrays placed there are no longer read when member `at` writes array number `array`.
static bool is_free(const Maker *maker, const Slots *slots, int32_t slot, int32_t array, int32_t at) {
    const CpuStep *step = &maker->finder->steps->steps.items[maker->finder->members.items[at]];
    for (int32_t i = 0; i < array; i++) {
        if (slots->of[i] != slot) continue;
        const int32_t last = last_reader(maker->kernel, i);
        if (last > at || (last == at && !works_in_place(step, maker->arrays.items[i]))) return false;
    }
    return true;
}

// Gives each array between a slot: that of arrays of the same size that are no longer read, if there is one.
static void place_arrays(const Maker *maker, Slots *slots) {
    const BandKernel *kernel = maker->kernel;
    for (int32_t i = 0; i < kernel->array_count; i++) {
        const BandArray *array = &kernel->arrays[i];
        slots->of[i] = -1;
        if (array->argument >= 0) continue;
        const int32_t at = first_member(kernel, i);
        int32_t slot = 0;
        while (slot < slots->count &&
               (slots->row_bytes[slot] != array->row_bytes || !is_free(maker, slots, slot, i, at)))
            slot++;
        if (slot == slots->count) slots->row_bytes[slots->count++] = array->row_bytes;
        slots->of[i] = slot;
    }
}

// Lays out a worker's memory for bands of at most `rows` rows.
static void lay_out(BandKernel *kernel, const Slots *slots, int64_t rows) {
    enum { kLine = 64 };
    int64_t at = 0;
    for (int32_t slot = 0; slot < slots->count; slot++) {
        for (int32_t i = 0; i < kernel->array_count; i++)
            if (slots->of[i] == slot) kernel->arrays[i].offset = (size_t)at;
        at += hlo_round_up(slots->row_bytes[slot] * rows, kLine);
    }
    kernel->loop_offset = (size_t)at;
    size_t loops = 0;
    for (int32_t m = 0; m < kernel->member_count; m++) {
        const size_t bytes = kernel->members[m].loop ? cpu_loop_scratch_bytes(kernel->members[m].loop) : 0;
        if (bytes > loops) loops = bytes;
    }
    kernel->bytes_each = (size_t)(at + hlo_round_up((int64_t)loops, kLine));
}

// Returns the rows that every band of a group with sums has, except a lead's last; 0 for a group without.
static int64_t depth_of(const Maker *maker) {
    const BandKernel *kernel = maker->kernel;
    int64_t depth = 0;
    for (int32_t m = 0; m < kernel->member_count; m++) {
        if (kernel->members[m].loop || kernel->members[m].role != BAND_ROWS_SUMMED) continue;
        const int64_t part = cpu_matmul_depth_part(maker->finder->lowering->features, &kernel->members[m].matmul);
        if (part == 0) return kernel->rows;
        int64_t multiple = depth ? depth : part;
        while (multiple % part != 0) multiple += depth;
        depth = multiple;
    }
    return depth;
}

// Chooses the rows of a band by the bytes of a row, and the memory for them. The last band of sums is half as long as
// the others at least, and one and a half times as long at most.
static void choose_bands(const Maker *maker) {
    BandKernel *kernel = maker->kernel;
    HloArena *arena = maker->finder->lowering->program->arena;
    Slots slots = {.of = HLO_ARENA_NEW(arena, int32_t, kernel->array_count + 1),
                   .row_bytes = HLO_ARENA_NEW(arena, int64_t, kernel->array_count + 1)};
    place_arrays(maker, &slots);
    int64_t each = 1;
    for (int32_t i = 0; i < slots.count; i++) each += slots.row_bytes[i];
    const int64_t rows = hlo_smaller(hlo_larger(kBandBytes / each, kLeastRows), kMostRows);
    kernel->depth = depth_of(maker);
    kernel->bands = kernel->depth ? hlo_larger(1, (kernel->rows + kernel->depth / 2) / kernel->depth)
                                  : hlo_divide_up(kernel->rows, rows);
    kernel->least = kernel->rows;
    for (int64_t band = 0; band < kernel->bands; band++) {
        const int64_t count = first_row(kernel, band + 1) - first_row(kernel, band);
        kernel->most = hlo_larger(kernel->most, count);
        kernel->least = hlo_smaller(kernel->least, count);
    }
    lay_out(kernel, &slots, kernel->most);
}

// Whether every element that the kernel computes has the bits of the separate steps.
static bool keeps_bits(const Maker *maker) {
    const BandKernel *kernel = maker->kernel;
    for (int32_t m = 0; m < kernel->member_count; m++) {
        const Member *member = &kernel->members[m];
        if (member->loop) continue;
        const CpuStep *step = &maker->finder->steps->steps.items[maker->finder->members.items[m]];
        const CpuMatmul *whole = &cpu_dot_kernel(step)->matmul;
        for (int i = 0; i < 2; i++) {
            CpuMatmul part = member->matmul;
            set_rows(member->role, &part, i ? kernel->most : kernel->least);
            if (!cpu_matmul_keeps_bits(maker->finder->lowering->features, whole, &part)) return false;
        }
    }
    return true;
}

// Returns the bytes that the group saves: 0 unless one of its products reads an array between. Other groups would only
// let their operands live longer.
static double saved_bytes(const Finder *finder) {
    double saved = 0;
    bool reads = false;
    for (int64_t i = 0; i < finder->members.count; i++) {
        const CpuStep *step = &finder->steps->steps.items[finder->members.items[i]];
        for (int32_t k = 0; k < step->read_count && cpu_dot_kernel(step); k++)
            reads |= is_between(finder, step->reads[k]);
        for (int32_t k = 0; k < step->write_count; k++)
            if (is_between(finder, step->writes[k])) saved += (double)step->writes[k]->bytes;
    }
    return reads ? saved : 0;
}

// Makes the step of the group; false if it saves too little or is not possible.
static bool make_step(Finder *finder, CpuStep *result) {
    HloArena *arena = finder->lowering->arena;
    if (saved_bytes(finder) < kLeastSaved) return false;
    qsort(finder->members.items, (size_t)finder->members.count, sizeof(int64_t), hlo_compare_int64);
    BandKernel *kernel = HLO_ARENA_NEW(arena, BandKernel, 1);
    *kernel = (BandKernel){.leads = finder->leads,
                           .rows = finder->rows,
                           .members = HLO_ARENA_NEW(arena, Member, finder->members.count),
                           .member_count = (int32_t)finder->members.count};
    Maker maker = {.finder = finder, .kernel = kernel};
    CpuFusedLoop *loops = HLO_ARENA_NEW(arena, CpuFusedLoop, kernel->member_count);
    *result =
        (CpuStep){.kind = CPU_STEP_KERNEL, .update_in_place = -1, .run = run_bands, .kernel = kernel, .loops = loops};
    for (int32_t m = 0; m < kernel->member_count; m++) {
        const CpuStep *step = &finder->steps->steps.items[finder->members.items[m]];
        const CpuDotKernel *dot = cpu_dot_kernel(step);
        if (dot)
            make_product(&maker, step, dot, &kernel->members[m]);
        else
            make_loop(&maker, step, &kernel->members[m]);
        if (!dot) loops[result->loop_count++] = step->loops[0];
        result->cost += step->cost;
        result->node = step->node;
    }
    for (int32_t m = 0; m < kernel->member_count; m++)
        if (kernel->members[m].array_count > kMostArrays) return false;
    if (maker.arrays.count > kMostArrays) return false;
    kernel->array_count = (int32_t)maker.arrays.count;
    kernel->arrays = maker.forms.items;
    choose_bands(&maker);
    result->reads = maker.reads.items;
    result->read_count = (int32_t)maker.reads.count;
    result->writes = maker.writes.items;
    result->write_count = (int32_t)maker.writes.count;
    for (int32_t i = 0; i < kernel->array_count; i++)
        if (is_inside(finder, maker.arrays.items[i]) && kernel->arrays[i].argument >= 0)
            kernel->arrays[i].argument += result->read_count;
    return keeps_bits(&maker);
}

// Sets the group's place: that of its last member or, if others read its arrays before, just before them. False if it
// would run before its inputs: a member may have joined before the limit was known.
static bool find_place(Finder *finder) {
    int64_t inputs = -1, last = -1;
    for (int64_t i = 0; i < finder->members.count; i++) {
        const int64_t member = finder->members.items[i];
        inputs = hlo_larger(inputs, inputs_place(finder, &finder->steps->steps.items[member]));
        last = hlo_larger(last, place_of(finder, member) - kRoom / 2);
    }
    const int64_t readers = readers_place(finder, 0, finder->steps->steps.count);
    finder->places[finder->group] = hlo_smaller(last, readers - 1);
    return inputs < finder->places[finder->group];
}

// A step of the new list.
typedef struct Placed {
    int64_t place;
    CpuStep step;
} Placed;

static int compare_places(const void *a, const void *b) {
    const Placed *x = a, *y = b;
    return (x->place > y->place) - (x->place < y->place);
}

// Puts the groups' steps in place of their members. `groups` are numbered from 1.
static void replace_steps(const Finder *finder, const CpuStep *groups, int32_t count) {
    CpuSteps *steps = finder->steps;
    HLO_VECTOR(Placed) placed = {0};
    HloArena *arena = finder->lowering->program->arena;
    for (int64_t i = 0; i < steps->steps.count; i++)
        if (!finder->group_of[i]) hlo_vector_push(arena, &placed, ((Placed){(i + 1) * kRoom, steps->steps.items[i]}));
    for (int32_t g = 1; g <= count; g++) hlo_vector_push(arena, &placed, ((Placed){finder->places[g], groups[g]}));
    qsort(placed.items, (size_t)placed.count, sizeof *placed.items, compare_places);
    steps->steps.count = placed.count;
    for (int64_t i = 0; i < placed.count; i++) steps->steps.items[i] = placed.items[i].step;
}

// A product from which a group may grow, and what that would save.
typedef struct Seed {
    int64_t step;
    double saved;
} Seed;

// Sorts the largest groups first, in program order otherwise.
static int compare_seeds(const void *a, const void *b) {
    const Seed *x = a, *y = b;
    if (x->saved != y->saved) return x->saved > y->saved ? -1 : 1;
    return (x->step > y->step) - (x->step < y->step);
}

// Returns the products from which groups of some size grow.
static int64_t find_seeds(Finder *finder, Seed *seeds) {
    int64_t count = 0;
    finder->group = 1;
    for (int64_t i = 0; i < finder->steps->steps.count; i++) {
        if (!cpu_dot_kernel(&finder->steps->steps.items[i])) continue;
        grow(finder, i);
        seeds[count] = (Seed){i, saved_bytes(finder)};
        count += seeds[count].saved >= kLeastSaved;
        drop_members(finder, 0);
    }
    qsort(seeds, (size_t)count, sizeof *seeds, compare_seeds);
    return count;
}

// A step may belong to several groups that could be made, as the scores and their gradient do: the one that saves most
// is made first.
void cpu_lower_bands(CpuLowering *lowering, CpuSteps *steps) {
    HloArena *arena = lowering->program->arena;
    const int64_t count = steps->steps.count;
    int64_t products = 0;
    for (int64_t i = 0; i < count; i++) products += cpu_dot_kernel(&steps->steps.items[i]) != NULL;
    if (products < kLeastProducts) return;
    Finder finder = {.lowering = lowering,
                     .steps = steps,
                     .facts = HLO_ARENA_NEW(arena, Fact, lowering->program->arrays.count),
                     .group_of = HLO_ARENA_NEW(arena, int32_t, count + 1),
                     .places = HLO_ARENA_NEW(arena, int64_t, count + 1)};
    for (int64_t i = 0; i < lowering->program->arrays.count; i++) finder.facts[i] = (Fact){.writer = -1, .first = -1};
    find_uses(&finder);
    Seed *seeds = HLO_ARENA_NEW(arena, Seed, products + 1);
    CpuStep *groups = HLO_ARENA_NEW(arena, CpuStep, products + 1);
    const int64_t seed_count = find_seeds(&finder, seeds);
    int32_t made = 0;
    for (int64_t i = 0; i < seed_count; i++) {
        if (finder.group_of[seeds[i].step]) continue;
        finder.group = made + 1;
        grow(&finder, seeds[i].step);
        if (make_step(&finder, &groups[made + 1]) && find_place(&finder))
            made++;
        else
            drop_members(&finder, 0);
    }
    if (made) replace_steps(&finder, groups, made);
}
