// SPDX-License-Identifier: Apache-2.0
// OpenBLAS, opened when it is first needed, and the choice between it and our own kernels.
//
// Only the build with POSIX threads is used (Debian: libopenblas0-pthread). The serial build returns wrong products
// when several threads call it, and the OpenMP build brings the threads of another runtime. It uses one thread, so that
// a call computes on the thread that makes it; matrices run side by side on our pool, and the bits of a result do not
// depend on the number of workers.
//
// The library is opened with RTLD_LOCAL: its symbols do not meet those of NumPy's or SciPy's own copies. If the host
// process has already opened the same file (Debian's NumPy does), that copy is the host's, and its number of threads is
// not ours to set: then a second one is opened from a copy of the file in memory (36 MB). A library that opens the same
// file after us shares our copy, and computes on one thread.
//
// The choice depends on the routine, the type, the sizes, MESHLO_BLAS and the processor, and on nothing else.
#ifndef MESHLO_TARGETS_CPU_BLAS_BLAS_H_
#define MESHLO_TARGETS_CPU_BLAS_BLAS_H_

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "hlo/ir/types.h"
#include "targets/cpu/host/pool.h"

HLO_BEGIN_C

// The order in which functions.def names the variants of a function.
enum { CPU_BLAS_F32, CPU_BLAS_F64, CPU_BLAS_C64, CPU_BLAS_C128, CPU_BLAS_TYPES };

// The open library. Functions of two variants are indexed by CPU_BLAS_F32 (narrow) and CPU_BLAS_F64 (wide).
typedef struct CpuBlas {
#define CPU_BLAS_REAL_AND_COMPLEX(member, f32, f64, c64, c128, parameters) void(*member[CPU_BLAS_TYPES]) parameters;
#define CPU_BLAS_PAIR(member, narrow, wide, parameters) void(*member[2]) parameters;
#include "targets/cpu/blas/functions.def"
    const char *config;  // the library's own description of its build
    const char *core;    // the processor whose kernels it chose ("Haswell")
    CpuFeatures level;   // the instruction set of that core
} CpuBlas;

// Largest dimension of a matrix that LAPACK's routines get: their workspaces, counted in 32 bits, hold several squares
// of it.
enum { CPU_BLAS_LARGEST = 16384 };

// Rows of auto.def.
typedef enum CpuBlasRoutine {
#define CPU_BLAS_ROUTINE(name, avx2, avx512) CPU_BLAS_##name,
#include "targets/cpu/blas/auto.def"
#undef CPU_BLAS_ROUTINE
    CPU_BLAS_ROUTINES
} CpuBlasRoutine;

// Opens the library, once per process, which takes about 5 ms and 3 MiB (measured; 35 ms if the file is not in the
// system's cache). UNAVAILABLE names the library and the reason it cannot be used. The result has static storage. Any
// thread.
HLO_NODISCARD HloStatus cpu_blas_open(const CpuBlas **blas);

// Sets *blas to the library if it is to compute `routine` for matrices of `type` (F32, F64, C64 or C128) of
// rows x columns (of a product, its smallest and its largest dimension), by the pool's choice and auto.def; else to
// NULL. Opens the library then. With CPU_BLAS_OPENBLAS the error of cpu_blas_open() is returned; with CPU_BLAS_AUTO our
// own kernels compute instead. Any thread.
HLO_NODISCARD HloStatus cpu_blas_find(const CpuPool *pool, CpuBlasRoutine routine, HloType type, int64_t rows,
                                      int64_t columns, const CpuBlas **blas);

// The index of a type in CpuBlas, and of its precision.
static inline int cpu_blas_type(HloType type) {
    return type == HLO_F32   ? CPU_BLAS_F32
           : type == HLO_F64 ? CPU_BLAS_F64
           : type == HLO_C64 ? CPU_BLAS_C64
                             : CPU_BLAS_C128;
}
static inline int cpu_blas_precision(HloType type) {
    return type == HLO_F32 || type == HLO_C64 ? CPU_BLAS_F32 : CPU_BLAS_F64;
}

// The number 1 in a type of the library.
static inline const void *cpu_blas_one(HloType type) {
    static const double _Complex wide = 1;
    static const float _Complex narrow = 1;
    return cpu_blas_precision(type) == CPU_BLAS_F32 ? (const void *)&narrow : (const void *)&wide;
}

// Most threads that may be inside the library at a time. It ends the process when its 640 buffers (128, and 512 more
// when those are used up) do not suffice; a thread uses one.
enum { CPU_BLAS_THREADS = 512 };
// Surround every call of a function of the library on the calling thread. Entering waits while too many threads are
// inside, and while the process forks: a fork() waits until all have left, since the child would keep the library's
// locks as they are then. Calls do not nest. Any thread.
void cpu_blas_enter(void);
void cpu_blas_leave(void);

HLO_END_C

#endif
