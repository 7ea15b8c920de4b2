// SPDX-License-Identifier: Apache-2.0
// What plans cost: bytes on a link between neighbours. Without a machine every byte costs the same and a message as
// much as a few bytes; with one, transfers cost the time that the machine needs for them, in bytes that a link could
// send in that time, and so does local work.
#ifndef MESHLO_SPMD_PARTITIONER_COSTS_H_
#define MESHLO_SPMD_PARTITIONER_COSTS_H_

#include "spmd_partitioner/sharding.h"

// The transfers whose prices differ.
typedef enum SpmdTransferKind {
    SPMD_TRANSFER_GATHER,
    SPMD_TRANSFER_SCATTER,   // of sums
    SPMD_TRANSFER_REDUCE,    // sums that all devices get
    SPMD_TRANSFER_EXCHANGE,  // all-to-all
    SPMD_TRANSFER_PERMUTE,   // between any two devices of a group
    SPMD_TRANSFER_SHIFT,     // to the next device of a group
    SPMD_TRANSFER_KINDS,
} SpmdTransferKind;

// The prices of one call. Those of a machine are asked for when they are first needed, and kept.
typedef struct SpmdCosts {
    HloArena *arena;  // keeps prices and the session; NULL without a machine
    const SpmdMesh *mesh;
    const SpmdMachine *machine;  // NULL: none
    void *session;               // of the machine
    HloModule *module;           // holds the collectives that the machine is asked about
    HloIntMap known;             // by kind and atoms: number + 1 of a price
    HLO_VECTOR(struct SpmdPrice) prices;
    double flops_per_byte, memory_per_byte;  // local work in the time in which a link sends a byte
    double kernel_price;                     // bytes that a link sends while a kernel starts; 0 without a machine
    bool hides_arguments;                    // what is sent of arguments is taken to be sent beside earlier work
} SpmdCosts;

// Sets *costs to those on a mesh by `machine` (NULL: by bytes alone), until spmd_costs_close(). Memory errors jump to
// hlo_protect(), with *costs ready to be closed.
void spmd_costs_open(SpmdCosts *costs, const SpmdMesh *mesh, const SpmdMachine *machine);
// Frees what the costs hold; they may be all zeros.
void spmd_costs_close(SpmdCosts *costs);
// The cost of one transfer in which each device sends `bytes` to others of its group along `atoms`. A message costs
// something even without a machine if `counts_message`: that decides between plans that send the same.
int64_t spmd_transfer_cost(SpmdCosts *costs, SpmdTransferKind kind, SpmdAtomSet atoms, int64_t bytes,
                           bool counts_message);
// The same for an estimate: without a machine the bytes alone.
double spmd_transfer_price(SpmdCosts *costs, SpmdTransferKind kind, SpmdAtomSet atoms, double bytes);
// The cost of `count` permutes along `axes` in which a device sends `bytes` in all.
int64_t spmd_permutes_cost(SpmdCosts *costs, const SpmdAxes *axes, int64_t bytes, int64_t count, bool counts_messages);
// What local work costs that reads and writes `bytes` and computes `points` points of products, two operations each.
double spmd_work_price(const SpmdCosts *costs, double bytes, double points);
// A price as a cost, which ends at SPMD_MOST_BYTES: products of sizes may leave 64 bits.
int64_t spmd_price_cost(double price);

// The seconds that the collectives, products and written arrays of a program of one device take on the machine, one
// after the other; loops by their trip counts (unknown ones once). Only with a machine. Memory errors jump to
// hlo_protect().
double spmd_program_seconds(SpmdCosts *costs, const HloModule *module, HloArena *scratch);

#endif
