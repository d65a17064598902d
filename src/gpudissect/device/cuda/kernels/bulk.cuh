// A load by bulk asynchronous copy (TMA; Hopper on): 16 bytes of global memory, the first 8 of them the link, to the
// start of dynamic shared memory; the mbarrier behind them tells when they have come.
#pragma once
#include "job.cuh"

#ifdef PATH_TMA

#define BULK_BYTES "16"
#define BULK_BARRIER "dynamic+16"

// The thread's arrival, with the bytes that it expects, completes the barrier's phase together with the copy. It gives
// the state by which that phase is known, so that nobody needs to remember which phase it is.
#define LOAD_BULK                                                                                            \
    "{\n\t"                                                                                                  \
    ".reg .b64 state;\n\t"                                                                                   \
    ".reg .pred here;\n\t"                                                                                   \
    "mbarrier.arrive.expect_tx.shared::cta.b64 state, [" BULK_BARRIER "], " BULK_BYTES ";\n\t"               \
    "cp.async.bulk.shared::cta.global.mbarrier::complete_tx::bytes [dynamic], [%0], " BULK_BYTES ", [" BULK_BARRIER "];\n" \
    "come:\n\t"                                                                                              \
    "mbarrier.try_wait.shared::cta.b64 here, [" BULK_BARRIER "], state;\n\t"                                 \
    "@!here bra come;\n\t"                                                                                   \
    "ld.shared.u64 %0, [dynamic];\n\t"                                                                       \
    "}\n\t"

// Before the first load: one arrival completes a phase; the copy engine must see the barrier ready.
__device__ __forceinline__ void ready_barrier() {
    asm volatile("mbarrier.init.shared::cta.b64 [" BULK_BARRIER "], 1;\n\tfence.proxy.async.shared::cta;" ::: "memory");
}

#endif
