// SPDX-License-Identifier: Apache-2.0
// JAX-101, "Parallel Evaluation in JAX", in C: the same program on each of eight TPU cores, with collectives.
//
// A convolution of five numbers with three weights runs on one device, over a batch (vmap), and with one row of the
// batch on each device (pmap); then devices talk to each other to normalise, and to train a regression.
//
//     parallel_evaluation [SEED]     of the samples of the regression (default 1)
#include <stdio.h>
#include <stdlib.h>

#include "example.h"

enum { kDevices = 8, kSteps = 1000 };

// sum(x[i-1:i+2] * w) for each inner i.
static HloInstruction *convolve(HloBuilder *b, HloInstruction *x, HloInstruction *w) {
    HloInstruction *columns[3];
    for (int64_t i = 0; i < 3; i++) {
        HloInstruction *part = hlo_build_slice(b, x, HLO_DIMS(i), HLO_DIMS(i + 3), HLO_DIMS());
        HloInstruction *sum = hlo_build_reduce_op(b, HLO_OP_ADD, hlo_build_mul(b, part, w), HLO_DIMS(0));
        columns[i] = hlo_build_reshape(b, sum, HLO_DIMS(1));
    }
    return hlo_build_concatenate(b, columns, 3, 0);
}

// convolve(x, w) / psum(convolve(x, w), 'p'): over devices, or over the axis of a batch that has this name.
static HloInstruction *normalized(HloBuilder *b, HloInstruction *x, HloInstruction *w) {
    static const HloCollectiveAttributes all_devices;
    HloInstruction *y = convolve(b, x, w);
    HloInstruction *sum = hlo_build_all_reduce_op(b, HLO_OP_ADD, y, &all_devices);
    return hlo_build_div(b, y, hlo_build_with_axis_name(b, sum, "p"));
}

typedef HloInstruction *Function(HloBuilder *b, HloInstruction *x, HloInstruction *w);

// A module of f(x, w) on `devices` devices, or of f mapped over `batch` rows when that is not 0.
static HloStatus make(Function *f, int64_t devices, int64_t batch, HloModule **result) {
    HloModule *module = hlo_module_new("f");
    HLO_FAIL_IF(!module, HLO_RESOURCE_EXHAUSTED, "out of memory");
    module->replica_count = devices;
    HloBuilder *b = hlo_builder_new(module, "main");
    HloInstruction *x = hlo_build_parameter(b, 0, HLO_F32, HLO_DIMS(5), "x");
    HloInstruction *w = hlo_build_parameter(b, 1, HLO_F32, HLO_DIMS(3), "w");
    HloComputation *mapped = NULL;
    HloStatus status = hlo_builder_finish_entry(b, f(b, x, w));
    if (!status && batch) {
        status = hlo_vmap(module->entry, &(HloVmapOptions){.size = batch, .axis_name = "p"}, &mapped);
        if (!status) hlo_make_entry(module, mapped);
    }
    if (status)
        hlo_module_free(module);
    else
        *result = module;
    return status;
}

// xs[d] = 5d, 5d + 1, …; ws[d] = 2, 3, 4.
typedef struct Data {
    HloLiteral *xs, *ws, *w;
} Data;

static HloStatus make_data(Data *data) {
    float xs[kDevices][5], ws[kDevices][3];
    for (int d = 0; d < kDevices; d++) {
        for (int i = 0; i < 5; i++) xs[d][i] = (float)(5 * d + i);
        for (int i = 0; i < 3; i++) ws[d][i] = (float)(2 + i);
    }
    *data = (Data){hlo_literal_of(HLO_F32, HLO_DIMS(kDevices, 5), xs),
                   hlo_literal_of(HLO_F32, HLO_DIMS(kDevices, 3), ws), hlo_literal_of(HLO_F32, HLO_DIMS(3), ws)};
    HLO_FAIL_IF(!data->xs || !data->ws || !data->w, HLO_RESOURCE_EXHAUSTED, "out of memory");
    return HLO_SUCCESS;
}

// vmap: the whole batch on one device.
static HloStatus run_batch(TargetClient *client, Function *f, const char *title, const char *format, const Data *data) {
    HloModule *module = NULL;
    TargetProgram *program = NULL;
    HloLiteral *result = NULL;
    HLO_TRY(make(f, 1, kDevices, &module));
    HloStatus status = target_program_new(client, module, NULL, &program);
    if (!status) status = target_program_call(program, (const HloLiteral *const[]){data->xs, data->ws}, 2, &result);
    if (!status) example_print(title, format, result);
    hlo_literal_free(result);
    target_program_free(program);
    hlo_module_free(module);
    return status;
}

static HloStatus gather_and_print(const char *title, const char *format, const PmapArray *array) {
    HloLiteral *all = NULL;
    HLO_TRY(pmap_gather(array, &all));
    example_print(title, format, all);
    hlo_literal_free(all);
    return HLO_SUCCESS;
}

// pmap: a row on each device; the second call takes as its weights what the first one left on the devices.
static HloStatus run_parallel(Pmap *f, const Data *data) {
    PmapArray arguments[2], once, twice, replicated;
    HLO_TRY(pmap_shard(f, data->xs, &arguments[0]));
    HLO_TRY(pmap_shard(f, data->ws, &arguments[1]));
    HLO_TRY(pmap_run(f, arguments, 2, &once, 1));
    HLO_TRY(gather_and_print("\npmap(convolve)(xs, ws)", "%5g", &once));
    HLO_TRY(pmap_run(f, (PmapArray[]){arguments[0], once}, 2, &twice, 1));
    HLO_TRY(gather_and_print("\npmap(convolve)(xs, pmap(convolve)(xs, ws)): nothing left its device in between", "%5g",
                             &twice));
    HLO_TRY(pmap_replicate(f, data->w, &replicated));
    pmap_release(&once);
    HLO_TRY(pmap_run(f, (PmapArray[]){arguments[0], replicated}, 2, &once, 1));
    HLO_TRY(gather_and_print("\npmap(convolve, in_axes=(0, None))(xs, w)", "%5g", &once));
    pmap_release(&once);
    pmap_release(&twice);
    pmap_release(&replicated);
    pmap_release(&arguments[0]);
    pmap_release(&arguments[1]);
    return HLO_SUCCESS;
}

static HloStatus run_normalized(Pmap *f, const Data *data) {
    PmapArray arguments[2], result;
    HLO_TRY(pmap_shard(f, data->xs, &arguments[0]));
    HLO_TRY(pmap_shard(f, data->ws, &arguments[1]));
    HLO_TRY(pmap_run(f, arguments, 2, &result, 1));
    HLO_TRY(gather_and_print("\npmap(normalized_convolution, axis_name='p')(xs, ws)", "%.7f", &result));
    pmap_release(&result);
    pmap_release(&arguments[0]);
    pmap_release(&arguments[1]);
    return HLO_SUCCESS;
}

static HloStatus with_pmap(TargetClient *client, Function *f, HloStatus (*run)(Pmap *, const Data *),
                           const Data *data) {
    HloModule *module = NULL;
    Pmap *pmap = NULL;
    HLO_TRY(make(f, kDevices, 0, &module));
    HloStatus status = pmap_new(client, module, &pmap);
    if (!status) status = run(pmap, data);
    pmap_free(pmap);
    hlo_module_free(module);
    return status;
}

// More rows than devices are refused.
static HloStatus show_too_many(TargetClient *client) {
    HloModule *module = NULL;
    Pmap *pmap = NULL;
    HLO_TRY(make(convolve, 9, 0, &module));
    HloStatus status = pmap_new(client, module, &pmap);
    printf("\nwith nine rows: %s\n", status ? hlo_status_message(status) : "accepted");
    hlo_status_free(status);
    pmap_free(pmap);
    hlo_module_free(module);
    return HLO_SUCCESS;
}

// ---- regression

// Mean over the devices.
static HloInstruction *pmean(HloBuilder *b, HloInstruction *x) {
    static const HloCollectiveAttributes all_devices;
    HloInstruction *sum = hlo_build_all_reduce_op(b, HLO_OP_ADD, x, &all_devices);
    return hlo_build_mul(b, sum, hlo_build_splat_like(b, x, 1.0 / kDevices));
}

enum { kSamples = 128 / kDevices };

// Appends the parameters of the loss.
static void add_parameters(HloBuilder *b, HloInstruction *parameters[4]) {
    static const char *const names[] = {"weight", "bias", "x", "y"};
    for (int64_t i = 0; i < 4; i++)
        parameters[i] = hlo_build_parameter(b, i, HLO_F32, i < 2 ? HLO_DIMS() : HLO_DIMS(kSamples, 1), names[i]);
}

// mean((w x + b - y)²)
static HloStatus build_loss(HloModule *module, HloComputation **computation) {
    HloBuilder *b = hlo_builder_new(module, "loss");
    HloInstruction *p[4];
    HloInts dims = HLO_DIMS(kSamples, 1);
    add_parameters(b, p);
    HloInstruction *line = hlo_build_add(b, hlo_build_mul(b, hlo_build_broadcast(b, p[0], dims, HLO_DIMS()), p[2]),
                                         hlo_build_broadcast(b, p[1], dims, HLO_DIMS()));
    HloInstruction *error = hlo_build_sub(b, line, p[3]);
    HloInstruction *loss = hlo_build_reduce_op(b, HLO_OP_ADD, hlo_build_mul(b, error, error), HLO_DIMS(0, 1));
    return hlo_builder_finish(b, hlo_build_mul(b, loss, hlo_build_scalar(b, HLO_F32, 1.0 / kSamples)), computation);
}

// One step of gradient descent: (w, b, loss). Each device sees its own 16 samples; the mean of the gradients keeps the
// parameters of all devices equal.
static HloStatus build_update(HloModule *module) {
    const double rate = 0.005;
    HloComputation *loss = NULL, *gradient = NULL;
    HLO_TRY(build_loss(module, &loss));
    HLO_TRY(hlo_value_and_gradient(loss, &(HloGradientOptions){.wrt = HLO_DIMS(0, 1)}, &gradient));
    HloBuilder *b = hlo_builder_new(module, "update");
    HloInstruction *p[4], *results[3];
    add_parameters(b, p);
    HloInstruction *all = hlo_build_call(b, p, 4, gradient);  // the loss, then the two slopes
    HloInstruction *step = hlo_build_scalar(b, HLO_F32, rate);
    for (int64_t i = 0; i < 2; i++)
        results[i] = hlo_build_sub(b, p[i], hlo_build_mul(b, step, pmean(b, hlo_build_get(b, all, 1 + i))));
    results[2] = pmean(b, hlo_build_get(b, all, 0));
    return hlo_builder_finish_entry(b, hlo_build_tuple(b, results, 3));
}

// (weight, bias, xs, ys): parameters from PRNGKey(123) as the document draws them; samples of y = 2 x - 1 + noise from
// PRNGKey(seed). The document draws its samples without a seed, and what it prints is the loss of a second run of the
// cell, on parameters that the first one has trained: 0.228 from step 0 on. The loss ends at the mean square of the
// noise that no line fits, 0.246 +- 0.031 over the samples (of 10,000 seeds); seed 1 has one that prints as the
// document's. JAX has the same losses as this program, to all digits that it prints, and weight and bias to a unit in
// the last place.
static HloStatus build_samples(HloModule *module, int64_t seed) {
    const HloRandomForm form = HLO_RANDOM_ORIGINAL;
    HloBuilder *b = hlo_builder_new(module, "samples");
    HloInstruction *keys = hlo_random_split(b, form, hlo_random_key(b, 123), 2);
    HloInstruction *data = hlo_random_split(b, form, hlo_random_key(b, seed), 2);
    HloInts dims = HLO_DIMS(128, 1);
    HloInstruction *x = hlo_random_normal(b, form, hlo_random_row(b, data, 0), HLO_F32, dims);
    HloInstruction *noise = hlo_random_normal(b, form, hlo_random_row(b, data, 1), HLO_F32, dims);
    HloInstruction *y = hlo_build_add(b, x, x);
    y = hlo_build_sub(b, y, hlo_build_splat_like(b, y, 1));
    y = hlo_build_add(b, y, hlo_build_mul(b, noise, hlo_build_splat_like(b, noise, 0.5)));
    HloInstruction *results[] = {
        hlo_random_normal(b, form, hlo_random_row(b, keys, 0), HLO_F32, HLO_DIMS()),
        hlo_random_normal(b, form, hlo_random_row(b, keys, 1), HLO_F32, HLO_DIMS()),
        hlo_build_reshape(b, x, HLO_DIMS(kDevices, 16, 1)),
        hlo_build_reshape(b, y, HLO_DIMS(kDevices, 16, 1)),
    };
    return hlo_builder_finish_entry(b, hlo_build_tuple(b, results, 4));
}

static HloStatus make_samples(TargetClient *client, int64_t seed, HloLiteral *samples[4]) {
    HloModule *module = hlo_module_new("samples");
    TargetProgram *program = NULL;
    HLO_FAIL_IF(!module, HLO_RESOURCE_EXHAUSTED, "out of memory");
    HloStatus status = build_samples(module, seed);
    if (!status) status = target_program_new(client, module, NULL, &program);
    if (!status) status = target_program_call(program, NULL, 0, samples);
    target_program_free(program);
    hlo_module_free(module);
    return status;
}

// Parameters stay on the devices for all steps.
static HloStatus train(Pmap *update, HloLiteral *samples[4]) {
    PmapArray arguments[4], results[3];
    for (int i = 0; i < 2; i++) HLO_TRY(pmap_replicate(update, samples[i], &arguments[i]));
    for (int i = 2; i < 4; i++) HLO_TRY(pmap_shard(update, samples[i], &arguments[i]));
    for (int step = 0; step < kSteps; step++) {
        float loss;
        HLO_TRY(pmap_run(update, arguments, 4, results, 3));
        for (int i = 0; i < 2; i++) {
            pmap_release(&arguments[i]);
            arguments[i] = results[i];
        }
        if (step % 100 == 0) {
            HLO_TRY(target_buffer_to_host(results[2].rows[0], &loss, sizeof loss, NULL));
            printf("Step %3d, loss: %.3f\n", step, (double)loss);
        }
        pmap_release(&results[2]);
    }
    HLO_TRY(gather_and_print("weight on each device, expected near 2", "%.7f", &arguments[0]));
    HLO_TRY(gather_and_print("bias on each device, expected near -1", "%.7f", &arguments[1]));
    for (int i = 0; i < 4; i++) pmap_release(&arguments[i]);
    return HLO_SUCCESS;
}

static HloStatus run_regression(TargetClient *client, int64_t seed) {
    HloLiteral *samples[4] = {0};
    Pmap *update = NULL;
    HloModule *module = hlo_module_new("update");
    HLO_FAIL_IF(!module, HLO_RESOURCE_EXHAUSTED, "out of memory");
    module->replica_count = kDevices;
    HloStatus status = build_update(module);
    if (!status) status = pmap_new(client, module, &update);
    if (!status) status = make_samples(client, seed, samples);
    if (!status) {
        printf("\nregression: weight %.7f, bias %.7f at first\n", hlo_literal_get_double(samples[0], 0),
               hlo_literal_get_double(samples[1], 0));
        status = train(update, samples);
    }
    for (int i = 0; i < 4; i++) hlo_literal_free(samples[i]);
    pmap_free(update);
    hlo_module_free(module);
    return status;
}

static HloStatus run(TargetClient *client, const Data *data, int64_t seed) {
    for (int64_t d = 0; d < target_client_device_count(client); d++) puts(target_client_device(client, d)->text);
    HLO_TRY(run_batch(client, convolve, "\nvmap(convolve)(xs, ws)", "%5g", data));
    HLO_TRY(with_pmap(client, convolve, run_parallel, data));
    HLO_TRY(show_too_many(client));
    HLO_TRY(with_pmap(client, normalized, run_normalized, data));
    HLO_TRY(run_batch(client, normalized, "\nvmap(normalized_convolution, axis_name='p')(xs, ws)", "%.7f", data));
    return run_regression(client, seed);
}

int main(int argc, char **argv) {
    const int64_t seed = argc > 1 ? atoll(argv[1]) : 1;
    TargetClient *client = NULL;
    Data data = {0};
    HloStatus status = make_data(&data);
    if (!status) status = target_client_new("v2-8", &client);
    if (!status) status = run(client, &data, seed);
    hlo_literal_free(data.xs);
    hlo_literal_free(data.ws);
    hlo_literal_free(data.w);
    target_client_release(client);
    return example_end(status);
}
