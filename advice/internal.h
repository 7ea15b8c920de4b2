// SPDX-License-Identifier: Apache-2.0
// What the files of this folder share while they make a report.
#ifndef MESHLO_ADVICE_INTERNAL_H_
#define MESHLO_ADVICE_INTERNAL_H_

#include "advice/classify.h"
#include "advice/plan.h"
#include "advice/trial.h"

// A report in the making. `report` and what it points to live in report->arena.
typedef struct AdviceRequest {
    const HloModule *module;  // as the user wrote it
    const CompileOptions *compile;
    const CompiledModule *compiled;
    const AdviceOptions *options;
    AdviceReport *report;
    AdviceFacts facts;
    AdviceFinding *findings;  // by collective of the report
    int32_t *group_of;        // by collective of the report
    EmuReport *emulated;      // NULL without a slice
    AdviceTrial trial;        // the one that is running
} AdviceRequest;

// Fills in the report's suggestions. Memory errors jump to hlo_protect().
HloStatus advice_suggest(AdviceRequest *request);
// Fills in the report's donation, where one that is missing saves memory. Memory errors jump to hlo_protect().
HloStatus advice_suggest_donation(AdviceRequest *request);
// The share of the whole that a group costs, for folding: of the step's time, else of the bytes.
double advice_share(const AdviceReport *report, const AdviceAmount *amount);
// What a step costs, in the unit of the price; negative where the slice has none.
double advice_step_cost(const AdvicePlanned *plan);
// Fills in a plan's names and patterns of parameters, when its best is known. Memory errors jump to hlo_protect().
void advice_plan_name(AdvicePlan *plan, const HloModule *module);

#endif
