// A load by bulk asynchronous copy (TMA; Hopper on): 16 bytes of global memory, the first 8 of them the link, to the
// start of dynamic shared memory; the mbarrier behind them completes when they have arrived.
#pragma once
#include "job.cuh"

#ifdef PATH_TMA

#define BULK_BYTES "16"
#define BULK_BARRIER "dynamic+16"

// The thread's arrival, with the bytes that it expects, completes the barrier's phase together with the copy. It
// returns the state that identifies the phase, so no phase needs to be remembered.
#define LOAD_BULK                                                                                            \
    "{\n\t"                                                                                                  \
    ".reg .b64 state;\n\t"                                                                                   \
    ".reg .pred done;\n\t"                                                                                   \
    "mbarrier.arrive.expect_tx.shared::cta.b64 state, [" BULK_BARRIER "], " BULK_BYTES ";\n\t"               \
    "cp.async.bulk.shared::cta.global.mbarrier::complete_tx::bytes [dynamic], [%0], " BULK_BYTES ", [" BULK_BARRIER "];\n" \
    "wait:\n\t"                                                                                              \
    "mbarrier.try_wait.shared::cta.b64 done, [" BULK_BARRIER "], state;\n\t"                                 \
    "@!done bra wait;\n\t"                                                                                   \
    "ld.shared.u64 %0, [dynamic];\n\t"                                                                       \
    "}\n\t"

// Before the first load: one arrival completes a phase; the fence makes the barrier visible to the copy engine.
__device__ __forceinline__ void init_barrier() {
    asm volatile("mbarrier.init.shared::cta.b64 [" BULK_BARRIER "], 1;\n\tfence.proxy.async.shared::cta;" ::: "memory");
}

#endif
