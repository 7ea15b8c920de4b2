// SPDX-License-Identifier: Apache-2.0
// Internal: the bytes that a transfer puts on links, as functions of the bytes of its operand. Which links a transfer
// uses does not depend on how many bytes it has, and most links carry the same: in a slice of thousands of chips there
// are tens of thousands of links but few different loads. So routes are followed once for all sizes:
//
//   amount   the operand times and over some numbers, which one step of a collective puts on a link
//   load     the amounts that were put on a link in one stage, in this order; links with the same ones share a load
//
// Sums and products are evaluated in the order in which they were made, so the result is that of numbers from the
// start.
#ifndef MESHLO_EMULATOR_LINK_LOADS_H_
#define MESHLO_EMULATOR_LINK_LOADS_H_

#include "emulator/collective_groups.h"

// The number of an amount.
typedef int32_t EmuAmount;
enum { EMU_AMOUNT_NOTHING, EMU_AMOUNT_OPERAND };

// The loads of the stages of a transfer.
typedef struct EmuLoads EmuLoads;

// Begins to list loads in `arena`. Until emu_loads_finish(), `network` has the tables of its links in use.
EmuLoads *emu_loads_new(HloArena *arena, EmuNetwork *network);

// An amount multiplied by, or divided by, a number that is not negative.
EmuAmount emu_amount_times(EmuLoads *loads, EmuAmount amount, double factor);
EmuAmount emu_amount_over(EmuLoads *loads, EmuAmount amount, double divisor);

// Puts an amount on a link a number of times.
void emu_load_link(EmuLoads *loads, int64_t link, EmuAmount amount, int32_t times);
// Puts an amount on all links of the route between two positions. Returns the number of links.
int64_t emu_load_route(EmuLoads *loads, int64_t from, int64_t to, EmuAmount amount);
// Ends a stage: what follows begins when all links have carried their loads.
void emu_loads_end_stage(EmuLoads *loads);
// Leaves the tables of the network as they were, also after an error.
void emu_loads_finish(EmuLoads *loads);

// Exchanges between all pairs of the members of groups.
typedef struct EmuExchange EmuExchange;

// Begins exchanges, in the arena of the network.
EmuExchange *emu_exchange_new(EmuLoads *loads, EmuNetwork *network);

// Puts an amount on the links of all routes from every stride-th of some positions to all of them, one after the other.
// Returns the number of links of the longest route.
int64_t emu_load_pairs(EmuLoads *loads, const int64_t *places, int64_t count, int64_t stride, EmuAmount amount);
// The same for positions of one slice, which is not twisted, by counting the routes that pass each line.
int64_t emu_load_exchange(EmuExchange *exchange, const int64_t *places, int64_t count, int64_t stride,
                          EmuAmount amount);
// The same along one axis of a grid, on which every member has a block for each member: what they send to others on the
// way goes with it.
int64_t emu_load_grid_exchange(EmuExchange *exchange, const EmuGrid *grid, int axis, EmuAmount block);

// Sets the links of a transfer, and what each carries (in `arena`), for an operand of this many bytes. Returns the
// seconds of all stages on `network`, each as long as its busiest link takes. The network need not be the one on which
// the loads were listed, but one of the same devices.
double emu_loads_evaluate(const EmuNetwork *network, const EmuLoads *loads, HloArena *arena, double operand_bytes,
                          EmuTransfer *transfer);

#endif
